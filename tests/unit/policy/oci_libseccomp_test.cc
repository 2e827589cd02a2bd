// libseccomp as the oracle: the same rules given to the installed library and to OciCallRules, and whole profiles added
// the way the runtimes add them. Two witnesses are asked: the library's BPF, and its pseudo code ("PFC"), which is
// printed from the same tree. They differ where the code generator of libseccomp 2.5 jumps to a comparison with another
// word still in the accumulator (it looks at one of the jumps to a block only, gen_bpf.c "do we need to reload the
// accumulator?"). That takes conditions on several arguments, or more than equality with several high halves. There the
// tree, which is what the rules mean, is followed; everywhere else all three must agree.
#include <doctest/doctest.h>

#include "oci_fixture.h"

#ifndef SANDBOX_RUN_HAVE_LIBSECCOMP

TEST_CASE("OCI: rules mean what libseccomp makes of them") { MESSAGE("skipped: no libseccomp"); }

#else

#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <sstream>

#include "base/unique_fd.h"
#include "bpf/program.h"
#include "bpf/reference.h"
#include "policy/oci_tree.h"

namespace srun::policy::test {
namespace {

constexpr uint32_t kCall = 39;  // getpid on x86-64: the number does not matter
constexpr std::array<scmp_compare, 7> kOps = {SCMP_CMP_NE, SCMP_CMP_LT, SCMP_CMP_LE,       SCMP_CMP_EQ,
                                              SCMP_CMP_GE, SCMP_CMP_GT, SCMP_CMP_MASKED_EQ};
constexpr std::array<const char*, 7> kOpNames = {"NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"};

std::string read_all(int fd) {
  std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  REQUIRE(::pread(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return text;
}

// One libseccomp filter for x86-64.
class Filter {
 public:
  explicit Filter(uint32_t default_action) : context_(::seccomp_init(default_action)) {
    REQUIRE(context_ != nullptr);
    if (::seccomp_arch_native() != SCMP_ARCH_X86_64) {
      REQUIRE(::seccomp_arch_add(context_, SCMP_ARCH_X86_64) == 0);
      REQUIRE(::seccomp_arch_remove(context_, SCMP_ARCH_NATIVE) == 0);
    }
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() { ::seccomp_release(context_); }

  int add(uint32_t action, int call, std::span<const OciCondition> conditions) {
    std::vector<scmp_arg_cmp> arguments;
    for (const OciCondition& condition : conditions)
      arguments.push_back(
          {condition.index, kOps[static_cast<size_t>(condition.op)], condition.value, condition.value_two});
    return ::seccomp_rule_add_array(context_, action, call, static_cast<unsigned>(arguments.size()), arguments.data());
  }
  bpf::Program program() const {
    const UniqueFd file(::memfd_create("bpf", MFD_CLOEXEC));
    REQUIRE(::seccomp_export_bpf(context_, file.get()) == 0);
    const std::string bytes = read_all(file.get());
    std::vector<bpf::Instruction> code(bytes.size() / sizeof(bpf::Instruction));
    std::memcpy(code.data(), bytes.data(), code.size() * sizeof(bpf::Instruction));
    auto program = bpf::verify(code, bpf::Flavour::kSeccomp);
    REQUIRE_MESSAGE(program, program.error().message());
    return std::move(*program);
  }
  std::string pseudo_code() const {
    const UniqueFd file(::memfd_create("pfc", MFD_CLOEXEC));
    REQUIRE(::seccomp_export_pfc(context_, file.get()) == 0);
    return read_all(file.get());
  }

 private:
  scmp_filter_ctx context_;
};

// The part of the pseudo code that is about kCall, read once into a tree.
class PseudoCode {
 public:
  explicit PseudoCode(const std::string& text) {
    std::istringstream input(text);
    bool inside = false;
    for (std::string line; std::getline(input, line);) {
      const size_t indent = line.find_first_not_of(' ');
      if (indent == std::string::npos) continue;
      line.erase(0, indent);
      if (line.starts_with("#")) inside = false;
      if (inside) lines_.push_back({indent, line});
      if (line == "if ($syscall == " + std::to_string(kCall) + ")") inside = true;
    }
    if (!lines_.empty()) root_ = block();
  }
  // The action, or `otherwise` if nothing decides.
  uint32_t run(const uint64_t (&args)[6], uint32_t otherwise) const { return run(root_, args).value_or(otherwise); }

 private:
  struct Line {
    size_t indent;
    std::string text;
  };
  struct Statement {
    std::optional<uint32_t> action;
    unsigned arg = 0;
    bool high = false;
    std::string op;
    uint32_t mask = 0xffffffff;
    uint32_t datum = 0;
    std::vector<Statement> if_true;
    std::vector<Statement> if_false;
  };

  static uint32_t action(const std::string& text) {
    unsigned number = 0;
    if (std::sscanf(text.c_str(), "action ERRNO(%u);", &number) == 1) return SCMP_ACT_ERRNO(number);
    if (text == "action LOG;") return SCMP_ACT_LOG;
    if (text == "action ALLOW;") return SCMP_ACT_ALLOW;
    if (text == "action KILL_PROCESS;") return SCMP_ACT_KILL_PROCESS;
    REQUIRE_MESSAGE(text == "action KILL;", text);
    return SCMP_ACT_KILL_THREAD;
  }
  std::vector<Statement> block() {
    std::vector<Statement> result;
    const size_t indent = lines_[at_].indent;
    const auto deeper = [&] { return at_ < lines_.size() && lines_[at_].indent > indent; };
    while (at_ < lines_.size() && lines_[at_].indent == indent) {
      const std::string& text = lines_[at_++].text;
      Statement statement;
      if (text.starts_with("action")) {
        statement.action = action(text);
      } else {
        char half[3] = {};
        char op[3] = {};
        if (std::sscanf(text.c_str(), "if ($a%u.%2s32 & 0x%" SCNx32 " == %" SCNu32 ")", &statement.arg, half,
                        &statement.mask, &statement.datum) != 4)
          REQUIRE_MESSAGE(std::sscanf(text.c_str(), "if ($a%u.%2s32 %2[=>] %" SCNu32 ")", &statement.arg, half, op,
                                      &statement.datum) == 4,
                          text);
        statement.high = half[0] == 'h';
        statement.op = op;
        if (deeper()) statement.if_true = block();
        if (at_ < lines_.size() && lines_[at_].indent == indent && lines_[at_].text == "else") {
          ++at_;
          if (deeper()) statement.if_false = block();
        }
      }
      result.push_back(std::move(statement));
    }
    return result;
  }
  static std::optional<uint32_t> run(const std::vector<Statement>& statements, const uint64_t (&args)[6]) {
    for (const Statement& statement : statements) {
      if (statement.action) return statement.action;
      const auto word = static_cast<uint32_t>(statement.high ? args[statement.arg] >> 32 : args[statement.arg]);
      const bool holds = statement.op == ">"    ? word > statement.datum
                         : statement.op == ">=" ? word >= statement.datum
                                                : (word & statement.mask) == statement.datum;
      if (const auto decided = run(holds ? statement.if_true : statement.if_false, args)) return decided;
    }
    return std::nullopt;
  }

  std::vector<Line> lines_;
  size_t at_ = 0;
  std::vector<Statement> root_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t bound) { return engine_() % bound; }
  // Few distinct numbers, so that rules meet; `wide` ones differ in both halves.
  uint64_t value(bool wide) {
    static constexpr std::array<uint64_t, 4> kSmall = {0, 1, 2, 5};
    static constexpr std::array<uint64_t, 9> kWide = {
        0, 1, 5, 0xffffffff, 0x100000000, 0x100000005, 0x7fffffff00000001, 0xffffffff00000000, ~uint64_t{0}};
    return wide ? kWide[below(kWide.size())] : kSmall[below(kSmall.size())];
  }
  // A number at or beside one of those.
  uint64_t argument(bool wide) {
    const uint64_t base = value(wide);
    switch (below(5)) {
      case 0:
        return base + 1;
      case 1:
        return base - 1;
      case 2:
        return base ^ (uint64_t{1} << below(64));
      default:
        return base;
    }
  }
  OciCondition condition(uint8_t index, bool wide, bool all_operators) {
    static constexpr std::array<OciOp, 2> kEqualities = {OciOp::kNotEqual, OciOp::kEqual};
    const OciOp op = all_operators ? static_cast<OciOp>(below(7)) : kEqualities[below(2)];
    return {index, op, value(wide), value(wide)};
  }

 private:
  std::mt19937_64 engine_;
};

std::string show(std::span<const OciCondition> conditions, uint32_t action) {
  std::ostringstream text;
  for (const OciCondition& c : conditions)
    text << "a" << unsigned{c.index} << " " << kOpNames[static_cast<size_t>(c.op)] << std::hex << " " << c.value << " "
         << c.value_two << std::dec << ", ";
  text << "-> " << std::hex << action << "\n";
  return text.str();
}

// Other versions sort other trees: what is rebuilt is that of Debian's runtimes.
bool is_reference_version() {
  const scmp_version* version = ::seccomp_version();
  if (version->major == 2 && version->minor == 5) return true;
  MESSAGE("skipped: libseccomp " << version->major << "." << version->minor << " is not the reference, which is 2.5");
  return false;
}

struct Tally {
  size_t compared = 0;
  size_t conflicts = 0;
  size_t entangled = 0;
  size_t stale_accumulator = 0;  // the library's BPF is not its pseudo code
};

// Random rules for one call, both ways. `sound`: only what the library's code generator gets right.
void compare_one(uint64_t seed, bool sound, Tally& tally) {
  Random random(seed);
  const bool wide = random.below(2) == 0;
  const bool all_operators = !sound || !wide;
  const size_t arguments = sound ? 1 : 1 + random.below(4);
  const size_t count = 1 + random.below(6);
  const std::array<uint32_t, 3> actions = {SCMP_ACT_ERRNO(1), SCMP_ACT_LOG, SCMP_ACT_KILL_PROCESS};
  const size_t distinct = 1 + random.below(3);

  Filter filter(SCMP_ACT_ALLOW);
  OciCallRules rules;
  std::string story = "seed " + std::to_string(seed) + "\n";
  for (size_t i = 0; i < count; ++i) {
    std::vector<OciCondition> conditions;
    for (uint8_t arg = 0; arg < arguments; ++arg)
      if (arguments == 1 || random.below(3) != 0) conditions.push_back(random.condition(arg, wide, all_operators));
    if (conditions.empty() && random.below(4) != 0) continue;
    const uint32_t action = actions[random.below(distinct)];
    story += show(conditions, action);
    // Ours first: where libseccomp's tree gets a loop, the library itself would not return.
    const OciCallRules::Added added = rules.add(conditions, {action, 0});
    if (added == OciCallRules::Added::kEntangled || !rules.flatten()) {
      ++tally.entangled;
      return;
    }
    const int result = filter.add(action, kCall, conditions);
    INFO(story);
    REQUIRE((added == OciCallRules::Added::kConflict) == (result == -EEXIST));
    if (result != 0) {
      REQUIRE(result == -EEXIST);
      ++tally.conflicts;
      return;
    }
  }
  const bpf::Program program = filter.program();
  const PseudoCode pseudo(filter.pseudo_code());
  const auto flat = rules.flatten();
  REQUIRE(flat);
  for (int i = 0; i < 120; ++i) {
    bpf::CallData call;
    call.nr = kCall;
    call.arch = kernel::kAuditX86_64;
    for (uint64_t& arg : call.args) arg = random.argument(wide);
    uint32_t ours = SCMP_ACT_ALLOW;
    for (const OciCallRules::FlatRule& rule : *flat) {
      bool all = true;
      for (const bpf::ArgTest& test : rule.all_of) all = all && bpf::matches(test, call.args);
      if (!all) continue;
      ours = rule.outcome.action;
      break;
    }
    const uint32_t meant = pseudo.run(call.args, SCMP_ACT_ALLOW);
    const uint32_t generated = bpf::run_reference(program, call);
    if (meant != ours || (sound && generated != ours)) {
      std::ostringstream at;
      for (const uint64_t arg : call.args) at << std::hex << arg << " ";
      INFO(story << "arguments " << at.str());
      REQUIRE(ours == meant);
      REQUIRE(ours == generated);
    }
    ++tally.compared;
    if (meant != generated) ++tally.stale_accumulator;
  }
}

}  // namespace

TEST_CASE("OCI: 2,500 random rule sets on one argument decide as libseccomp's program does") {
  if (!is_reference_version()) return;
  Tally tally;
  for (uint64_t seed = 1; seed <= 2500; ++seed) compare_one(seed, true, tally);
  CHECK(tally.compared > 200'000);
  CHECK(tally.conflicts > 0);
  CHECK(tally.stale_accumulator == 0);
}

TEST_CASE("OCI: 4,000 random rule sets on up to four arguments decide as libseccomp's tree says") {
  if (!is_reference_version()) return;
  Tally tally;
  for (uint64_t seed = 1; seed <= 4000; ++seed) compare_one(seed, false, tally);
  CHECK(tally.compared > 300'000);
  CHECK(tally.conflicts > 0);
  // Its generated program says something else for a few in a thousand of these provocations.
  CHECK(tally.stale_accumulator * 100 < tally.compared);
  CHECK(tally.entangled * 50 < 4000);
}

TEST_CASE("OCI: 600 random profiles decide as the runtimes' filters do, ABI checks and default included") {
  if (!is_reference_version()) return;
  const std::array<std::string, 5> names = {"getpid", "socket", "personality", "clone", "mkdirat"};
  struct ActionText {
    std::string name;
    std::string errno_ret;
    uint32_t action;
  };
  const std::array<ActionText, 6> actions = {{{"ALLOW", "", SCMP_ACT_ALLOW},
                                              {"ERRNO", "", SCMP_ACT_ERRNO(EPERM)},
                                              {"ERRNO", "38", SCMP_ACT_ERRNO(38)},
                                              {"LOG", "", SCMP_ACT_LOG},
                                              {"TRAP", "", SCMP_ACT_TRAP},
                                              {"KILL_PROCESS", "", SCMP_ACT_KILL_PROCESS}}};
  const auto action_text = [](const ActionText& action, const std::string& key, const std::string& errno_key) {
    return "\"" + key + "\": \"SCMP_ACT_" + action.name + "\"" +
           (action.errno_ret.empty() ? "" : ", \"" + errno_key + "\": " + action.errno_ret);
  };
  size_t compared = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed * 7919);
    const ActionText& by_default = actions[random.below(actions.size())];
    const uint32_t default_action = by_default.action;
    std::string rules;
    Filter filter(default_action);
    bool refused = false;
    uint32_t newest = 0;
    for (size_t i = 1 + random.below(8); i > 0 && !refused; --i) {
      const size_t which = random.below(names.size());
      const std::string& name = names[which];
      const ActionText& action = actions[random.below(actions.size())];
      std::vector<OciCondition> conditions;
      const auto arg = static_cast<uint8_t>(which % 3);
      const bool wide = which % 2 == 0;
      if (random.below(4) != 0) conditions.push_back(random.condition(arg, wide, !wide));
      const bool repeated = !conditions.empty() && random.below(6) == 0;
      if (repeated) conditions.push_back(random.condition(arg, wide, !wide));
      rules += std::string(rules.empty() ? "" : ",") + "{\"names\": [\"" + name + "\"], " +
               action_text(action, "action", "errnoRet") + ", \"args\": [";
      for (size_t c = 0; c < conditions.size(); ++c)
        rules += (c == 0 ? "" : ",") +
                 condition_text(conditions[c].index, kOpNames[static_cast<size_t>(conditions[c].op)],
                                std::to_string(conditions[c].value), std::to_string(conditions[c].value_two));
      rules += "]}";
      const auto number = static_cast<int>(kernel::find_syscall(name)->number(kX86).value());
      newest = std::max(newest, static_cast<uint32_t>(number));
      // What runc and crun do with it.
      if (action.action == default_action) continue;
      if (!repeated) {
        refused = filter.add(action.action, number, conditions) != 0;
      } else {
        for (size_t c = 0; c < conditions.size() && !refused; ++c)
          refused = filter.add(action.action, number, {&conditions[c], 1}) != 0;
      }
    }
    const std::string text =
        "{" + action_text(by_default, "defaultAction", "defaultErrnoRet") + ", \"syscalls\": [" + rules + "]}";
    INFO(text);
    auto profile = oci_result(text);
    REQUIRE(profile.has_value() == !refused);
    if (refused) continue;
    const LoweredProfile ours(std::move(*profile));
    const bpf::Program program = filter.program();
    for (int i = 0; i < 60; ++i) {
      bpf::CallData call;
      call.arch = random.below(12) == 0 ? kernel::kAuditI386 : kernel::kAuditX86_64;
      uint32_t number = kernel::find_syscall(names[random.below(names.size())])->number(kX86).value();
      if (random.below(8) == 0) number = static_cast<uint32_t>(random.below(600));
      if (random.below(16) == 0) number |= kernel::kX32Bit;
      call.nr = static_cast<int32_t>(number);
      for (uint64_t& arg : call.args) arg = random.argument(random.below(2) == 0);
      uint32_t theirs = bpf::run_reference(program, call);
      // runc's part in front of it.
      const bool lets_through = default_action == SCMP_ACT_ALLOW || default_action == SCMP_ACT_LOG;
      if (call.arch == kernel::kAuditX86_64 && number > newest && number < kernel::kX32Bit && !lets_through)
        theirs = SCMP_ACT_ERRNO(ENOSYS);
      std::string expected = "kill";
      if (theirs == SCMP_ACT_ALLOW) expected = "allow";
      if (theirs == SCMP_ACT_LOG) expected = "log";
      if (theirs == SCMP_ACT_TRAP) expected = "trap";
      if (theirs == SCMP_ACT_ERRNO(EPERM)) expected = "errno EPERM";
      if (theirs == SCMP_ACT_ERRNO(ENOSYS)) expected = "errno ENOSYS";
      // A record needs a notification; calls that nobody retries when a signal takes it away go without (H19).
      const kernel::Syscall* known = kernel::find_syscall(kX86, number);
      if (expected == "log" && known != nullptr && kernel::never_notified(*known)) expected = "allow";
      INFO("number " << number << " arch " << call.arch);
      REQUIRE(LoweredProfile::text(ours.decide(call)) == expected);
      ++compared;
    }
  }
  CHECK(compared > 20'000);
}

}  // namespace srun::policy::test

#endif
