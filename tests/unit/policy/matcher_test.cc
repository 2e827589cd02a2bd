#include "policy/matcher.h"

#include <algorithm>
#include <random>
#include <set>

#include "bpf/reference.h"
#include "policy/guard.h"
#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

// The verdict of a stack without OCI layers by reading its rules.
Verdict matched(const PolicyStack& stack, const Policy& guard, const LoweringOptions& options, const bpf::CallData& call) {
  Verdict winner = match(guard, 0, options, call);
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    Verdict own = match(*stack.layers[i].policy, static_cast<uint16_t>(i + 1), options, call);
    if (!stands(winner, own)) winner = std::move(own);
  }
  return winner;
}

std::string content(Verdict verdict) {
  verdict.notified = false;
  return told(verdict) + " line " + std::to_string(verdict.rule.line) + " layer " + std::to_string(verdict.rule.layer);
}

bool same_content(const Verdict& a, const Verdict& b) {
  return a.action == b.action && a.check == b.check && a.value == b.value && a.quiet == b.quiet && a.audited == b.audited &&
         a.rule.layer == b.rule.layer && a.rule.line == b.rule.line && a.rule.is_default == b.rule.is_default &&
         a.rule.newer_than_table == b.rule.newer_than_table && a.rule.pointer == b.rule.pointer &&
         a.rule.file == b.rule.file && a.rule.reason == b.rule.reason;
}

// The programs are compared on the same calls: both must return what belongs to the verdict.
void check_call(const PolicyStack& stack, const Policy& guard, const LoweringOptions& options, const Enforcement& made,
                const bpf::CallData& call) {
  const bpf::VerdictId id = bpf::decide(made.rules, made.returns, call);
  const Verdict& decided = made.verdicts[id];
  const bool same_meaning = same_content(decided, matched(stack, guard, options, call));
  const bool same_copy = bpf::run_reference(made.programs->copy, call) == made.returns[id].copy_return;
  const bool same_kernel = bpf::run_reference(made.programs->kernel, call) == project(decided);
  if (same_meaning && same_copy && same_kernel) return;  // doctest's own checks are too slow for millions of calls
  CAPTURE(call.nr);
  CAPTURE(call.arch);
  for (const uint64_t arg : call.args) CAPTURE(arg);
  CHECK(content(decided) == content(matched(stack, guard, options, call)));
  CHECK(same_meaning);
  CHECK(same_copy);
  CHECK(same_kernel);
}

// For each argument the values at which some rule for the call changes its mind, with rubbish in the upper half too.
std::vector<std::vector<uint64_t>> boundary_values(const PolicyStack& stack, const Policy& guard, const kernel::Syscall* row) {
  std::vector<std::set<uint64_t>> values(6, std::set<uint64_t>{0, ~uint64_t{0}});
  const auto collect = [&](const Policy& policy) {
    for (const Rule& rule : policy.rules) {
      if (std::none_of(rule.calls.begin(), rule.calls.end(), [row](const RuleCall& entry) { return entry.call == row; })) continue;
      for (const bpf::ArgTest& test : rule.when) {
        std::set<uint64_t>& out = values[test.arg];
        std::vector<uint64_t> points = test.values;
        if (test.op == bpf::CompareOp::kMasked || test.op == bpf::CompareOp::kSubset) {
          points.insert(points.end(), {test.mask & 0xffffffff, ~test.mask & 0xffffffff});
        }
        for (const uint64_t point : points) {
          out.insert({point, point - 1, point + 1, point | 0xdeadbeef00000000});
        }
      }
    }
  };
  collect(guard);
  for (const StackLayer& layer : stack.layers) collect(*layer.policy);
  std::vector<std::vector<uint64_t>> out;
  for (const auto& set : values) out.emplace_back(set.begin(), set.end());
  return out;
}

// Every number × each argument alone at its boundaries × pairs of the first three arguments that any rule looks at.
void check_every_call(const PolicyStack& stack, const LoweringOptions& options) {
  auto made = lower(stack, options);
  REQUIRE_MESSAGE(made, made.error().text());
  const Policy guard = guard_layer(stack, options);
  std::vector<uint32_t> numbers;
  for (uint32_t nr = 0; nr <= kernel::first_unknown_number(options.arch) + 2; ++nr) numbers.push_back(nr);
  for (const uint32_t nr : {511U, 1024U, 0x3fffffffU, 0x40000000U, 0x40000001U, 0x40000200U, 0x7fffffffU, 0x80000000U,
                            0xfffffffeU, 0xffffffffU}) {
    numbers.push_back(nr);
  }
  for (const uint32_t arch : {kernel::kAuditX86_64, kernel::kAuditI386, kernel::kAuditAArch64, 0x40000028U}) {
    for (const uint32_t nr : numbers) {
      bpf::CallData call;
      call.nr = static_cast<int32_t>(nr);
      call.arch = arch;
      check_call(stack, guard, options, *made, call);
      const std::optional<kernel::Arch> known = kernel::arch_from_audit(arch);
      const kernel::Syscall* row = known ? kernel::find_syscall(*known, nr) : nullptr;
      if (row == nullptr) continue;
      const std::vector<std::vector<uint64_t>> values = boundary_values(stack, guard, row);
      for (size_t first = 0; first < 6; ++first) {
        for (const uint64_t a : values[first]) {
          call = bpf::CallData{call.nr, arch, 0, {}};
          call.args[first] = a;
          check_call(stack, guard, options, *made, call);
          for (size_t second = first + 1; second < 6; ++second) {
            if (values[second].size() == 2 || values[first].size() == 2) continue;
            for (const uint64_t b : values[second]) {
              call.args[second] = b;
              check_call(stack, guard, options, *made, call);
            }
            call.args[second] = 0;
          }
        }
      }
    }
  }
}

std::vector<LoweringOptions> all_options() {
  std::vector<LoweringOptions> out;
  for (const bool signal_scope : {true, false}) {
    for (const bool audit : {false, true}) {
      LoweringOptions options;
      options.signal_scope = options.landlock_domain = signal_scope;
      options.virtual_affinity = !signal_scope;
      options.audit = audit;
      out.push_back(options);
    }
  }
  return out;
}

// A policy of a few rules over few calls, so that they meet each other.
Policy random_policy(std::mt19937& random) {
  static const std::vector<std::string_view> kNames = {"read", "openat", "clone", "ioctl", "prlimit64", "setpriority", "close", "mmap", "statx"};
  const auto pick = [&random](size_t count) { return static_cast<size_t>(random() % count); };
  Policy policy;
  policy.name = "random.json";
  policy.syscalls_place = {"random.json", 1, "#/syscalls"};
  policy.has_syscalls = pick(4) != 0;
  const std::vector<ActionSpec> actions = {{Action::kAllow, 0}, {Action::kErrno, 1},  {Action::kErrno, 38}, {Action::kKill, 0},
                                           {Action::kLog, 0},   {Action::kTrap, 0},   {Action::kReturn, 0}};
  if (pick(2) == 0) policy.default_action = DefaultAction{actions[pick(actions.size())], {"random.json", 2, "#/default"}};
  const size_t rules = pick(12);
  for (size_t i = 0; i < rules; ++i) {
    Rule rule;
    rule.place = {"random.json", static_cast<uint32_t>(i + 10), "#/syscalls/" + std::to_string(i)};
    rule.action = actions[pick(actions.size())];
    rule.quiet = pick(4) == 0 && rule.action.action != Action::kLog;
    const size_t calls = 1 + pick(3);
    for (size_t c = 0; c < calls; ++c) {
      const kernel::Syscall* call = kernel::find_syscall(kNames[pick(kNames.size())]);
      if (std::none_of(rule.calls.begin(), rule.calls.end(), [call](const RuleCall& entry) { return entry.call == call; })) {
        rule.calls.push_back({call, false});
      }
    }
    const size_t tests = pick(3);
    for (size_t t = 0; t < tests; ++t) {
      bpf::ArgTest test;
      test.arg = static_cast<uint8_t>(pick(3));
      test.width = static_cast<bpf::CompareWidth>(pick(4));
      test.op = static_cast<bpf::CompareOp>(pick(10));
      const bool narrow = test.width == bpf::CompareWidth::kU32 || test.width == bpf::CompareWidth::kS32;
      const uint64_t all = narrow ? 0xffffffff : ~uint64_t{0};
      static const std::vector<uint64_t> kPoints = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 32, ~uint64_t{0}, uint64_t{1} << 63};
      test.mask = kPoints[pick(kPoints.size())] & all;
      const size_t count = test.op == bpf::CompareOp::kIn || test.op == bpf::CompareOp::kNotIn ? 1 + pick(3) : 1;
      for (size_t v = 0; v < count; ++v) test.values.push_back(kPoints[pick(kPoints.size())] & all);
      if (test.op == bpf::CompareOp::kMasked) test.values[0] &= test.mask;
      if (test.op == bpf::CompareOp::kSubset) test.values.clear();
      rule.when.push_back(std::move(test));
    }
    policy.rules.push_back(std::move(rule));
  }
  return policy;
}

QuickFlags net_none() {
  QuickFlags flags;
  flags.network.none = true;
  return flags;
}

}  // namespace

TEST_CASE("matcher: rules, lowered rules and programs agree on every call of every shipped policy in our language") {
  const LoadOptions load = load_options();
  size_t compared = 0;
  for (const NamedPolicy& row : list_policies(*load.directories)) {
    CAPTURE(row.name);
    auto stack = load_stack(std::vector<std::string>{row.name}, net_none(), load);
    REQUIRE(stack);
    if (stack->layers.at(0).policy == nullptr) continue;
    ++compared;
    for (const LoweringOptions& options : all_options()) check_every_call(*stack, options);
  }
  CHECK(compared >= 2);
}

TEST_CASE("matcher: the same for the guard alone, for lifted parts and for several layers") {
  check_every_call(PolicyStack{}, {});
  check_every_call(stack_of({R"({"version": 1, "unsafe": ["foreign-abi", "namespaces", "ptrace", "io_uring"]})"}), {});
  const std::vector<std::string> layers = {
      R"({"version": 1, "default": "log", "syscalls": [
           {"names": ["socket"], "when": [{"arg": 0, "op": "not-in", "value": ["AF_UNIX", "AF_INET"]}], "action": {"errno": "EAFNOSUPPORT"}},
           {"names": ["openat"], "when": [{"arg": 2, "op": "masked", "mask": "O_ACCMODE", "value": "O_RDONLY"}], "action": "allow"},
           {"names": ["@process", "!clone"], "action": "allow"}]})",
      R"({"version": 1, "syscalls": [
           {"names": ["setpriority"], "when": [{"arg": 2, "op": ">", "value": 0}], "action": "kill"},
           {"names": ["chmod"], "when": [{"arg": 1, "op": "subset", "value": 511}], "action": "log"},
           {"names": ["getppid"], "action": {"return": 7}, "quiet": true},
           {"names": ["@known"], "action": "allow"}]})"};
  for (const LoweringOptions& options : all_options()) check_every_call(stack_of(layers), options);
}

TEST_CASE("matcher: the same for random stacks on random calls") {
  for (uint32_t seed = 1; seed <= 80; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PolicyStack stack;
    const size_t layers = 1 + random() % 3;
    for (size_t i = 0; i < layers; ++i) {
      StackLayer layer;
      layer.policy = std::make_shared<const Policy>(random_policy(random));
      stack.layers.push_back(std::move(layer));
    }
    const std::vector<LoweringOptions> options = all_options();
    const LoweringOptions& chosen = options[random() % options.size()];
    auto made = lower(stack, chosen);
    REQUIRE_MESSAGE(made, made.error().text());
    const Policy guard = guard_policy(chosen, {});
    for (const std::string_view name : {"read", "openat", "clone", "ioctl", "prlimit64", "setpriority", "close", "mmap", "statx", "getpid"}) {
      const bpf::CallData without_arguments = call_of(name);
      for (int i = 0; i < 40; ++i) {
        bpf::CallData call = without_arguments;
        for (uint64_t& arg : call.args) {
          static constexpr uint64_t kPoints[] = {0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 32, ~uint64_t{0}, uint64_t{1} << 63, 0x5412};
          arg = kPoints[random() % std::size(kPoints)];
          if (random() % 4 == 0) arg |= uint64_t{random()} << 32;
        }
        check_call(stack, guard, chosen, *made, call);
      }
    }
  }
}

}  // namespace srun::policy::test
