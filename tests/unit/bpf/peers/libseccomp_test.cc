// libseccomp as oracle and as the peer to beat: the same rules given to both must mean the same, and our program may be
// neither larger nor slower than its binary tree.
#include <doctest/doctest.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>

#include "bpf/compiler.h"
#include "bpf/reference.h"
#include "support/bpf_count.h"
#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kNumbers = 470;
constexpr uint32_t kDenied = kRetErrno | 1;

// One line of a rule set that libseccomp and we understand alike: several lines for one number are alternatives.
struct Line {
  uint32_t nr = 0;
  uint32_t action = kRetAllow;
  std::vector<ArgTest> all_of;
};

struct Rules {
  uint32_t otherwise = kDenied;
  std::vector<Line> lines;
};

scmp_arg_cmp comparison(const ArgTest& test) {
  const uint64_t value = test.values.front();
  switch (test.op) {
    case CompareOp::kEqual:
      return {test.arg, SCMP_CMP_EQ, value, 0};
    case CompareOp::kNotEqual:
      return {test.arg, SCMP_CMP_NE, value, 0};
    case CompareOp::kLess:
      return {test.arg, SCMP_CMP_LT, value, 0};
    case CompareOp::kLessEqual:
      return {test.arg, SCMP_CMP_LE, value, 0};
    case CompareOp::kGreater:
      return {test.arg, SCMP_CMP_GT, value, 0};
    case CompareOp::kGreaterEqual:
      return {test.arg, SCMP_CMP_GE, value, 0};
    default:
      return {test.arg, SCMP_CMP_MASKED_EQ, test.mask, value};
  }
}

uint32_t scmp_action(uint32_t value) {
  return (value & kRetActionMask) == kRetErrno ? SCMP_ACT_ERRNO(value & kRetDataMask) : value;
}

Program exported(const Rules& rules, uint32_t optimize) {
  const std::unique_ptr<void, void (*)(void*)> context(seccomp_init(scmp_action(rules.otherwise)), seccomp_release);
  REQUIRE(context);
  REQUIRE(seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, optimize) == 0);
  REQUIRE(seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0);
  for (const Line& line : rules.lines) {
    std::vector<scmp_arg_cmp> tests;
    for (const ArgTest& test : line.all_of) tests.push_back(comparison(test));
    REQUIRE(seccomp_rule_add_array(context.get(), scmp_action(line.action), static_cast<int>(line.nr),
                                   static_cast<unsigned>(tests.size()), tests.data()) == 0);
  }
  const int fd = memfd_create("filter", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(seccomp_export_bpf(context.get(), fd) == 0);
  const off_t bytes = lseek(fd, 0, SEEK_END);
  std::vector<Instruction> code(static_cast<size_t>(bytes) / sizeof(Instruction));
  REQUIRE(pread(fd, code.data(), static_cast<size_t>(bytes), 0) == bytes);
  close(fd);
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return std::move(*program);
}

RuleSet ours(const Rules& rules) {
  RuleSet set;
  const auto verdict = [&](uint32_t value) {
    for (size_t id = 0; id < set.verdicts.size(); ++id) {
      if (set.verdicts[id].kernel_return == value) return static_cast<VerdictId>(id);
    }
    set.verdicts.push_back({value, value});
    return static_cast<VerdictId>(set.verdicts.size() - 1);
  };
  std::map<uint32_t, Decision> by_number;
  for (const Line& line : rules.lines) {
    Decision& decision = by_number.try_emplace(line.nr, Decision{{}, verdict(rules.otherwise)}).first->second;
    decision.rules.push_back({line.all_of, verdict(line.action)});
  }
  ArchRules arch{kX86, {}};
  uint32_t next = 0;
  for (auto& [nr, decision] : by_number) {
    if (nr > next) arch.ranges.push_back({next, nr - 1, {{}, verdict(rules.otherwise)}});
    arch.ranges.push_back({nr, nr, std::move(decision)});
    next = nr + 1;
  }
  // libseccomp kills x32 calls but lets the skipped call -1 take the default.
  arch.ranges.push_back({next, 0x3fffffff, {{}, verdict(rules.otherwise)}});
  const uint32_t kill = verdict(kRetKillProcess);
  arch.ranges.push_back({0x40000000, 0xfffffffe, {{}, static_cast<VerdictId>(kill)}});
  arch.ranges.push_back({0xffffffff, 0xffffffff, {{}, verdict(rules.otherwise)}});
  set.layers.push_back({{std::move(arch)}, static_cast<VerdictId>(kill)});
  return set;
}

// The shape of Docker's default profile on x86-64: all but some sixty numbers allowed, personality by five values,
// clone by a mask, socket by its family.
Rules docker_like() {
  const std::set<uint32_t> refused{56,  41,  135, 101, 134, 139, 153, 155, 156, 159, 161, 163, 164, 165, 166, 167, 168,
                                   169, 170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180, 181, 182, 183, 184, 185,
                                   205, 211, 212, 214, 215, 227, 236, 237, 238, 239, 246, 248, 249, 250, 256, 272, 279,
                                   298, 300, 301, 303, 304, 305, 308, 310, 311, 312, 313, 320, 321, 323};
  Rules rules;
  for (uint32_t nr = 0; nr < 335; ++nr) {
    if (refused.count(nr) == 0) rules.lines.push_back({nr, kRetAllow, {}});
  }
  for (uint32_t nr = 424; nr < 462; ++nr) {
    if (nr < 428 || (nr > 433 && nr != 435 && nr != 443 && nr != 446)) rules.lines.push_back({nr, kRetAllow, {}});
  }
  const uint32_t clone_namespaces = 0x7e020000;
  rules.lines.push_back({56, kRetAllow, {{0, CompareWidth::kU64, CompareOp::kMasked, clone_namespaces, {0}}}});
  for (const uint64_t value : {uint64_t{0}, uint64_t{8}, uint64_t{0x20000}, uint64_t{0x20008}, uint64_t{0xffffffff}}) {
    rules.lines.push_back({135, kRetAllow, {{0, CompareWidth::kU64, CompareOp::kEqual, ~uint64_t{0}, {value}}}});
  }
  rules.lines.push_back({41, kRetAllow, {{0, CompareWidth::kU64, CompareOp::kNotEqual, ~uint64_t{0}, {40}}}});
  return rules;
}

// A rule set in which no two lines of a number can contradict each other: their action is the same.
Rules random_lines(Random& random) {
  static constexpr CompareOp kOps[] = {CompareOp::kEqual,     CompareOp::kNotEqual, CompareOp::kLess,
                                       CompareOp::kLessEqual, CompareOp::kGreater,  CompareOp::kGreaterEqual,
                                       CompareOp::kMasked};
  static constexpr uint32_t kActions[] = {kRetAllow, kRetErrno | 13, kRetKillThread, kRetTrap, kRetLog};
  Rules rules;
  rules.otherwise = random.percent(50) ? kRetAllow : kDenied;
  const uint32_t density = 10 + random.below(80);
  const uint32_t with_arguments = random.below(30);
  for (uint32_t nr = 0; nr < kNumbers; ++nr) {
    if (!random.percent(density)) continue;
    uint32_t action = kActions[random.below(std::size(kActions))];
    if (action == rules.otherwise) action = kRetErrno | 99;
    if (!random.percent(with_arguments)) {
      rules.lines.push_back({nr, action, {}});
      continue;
    }
    // Several lines of one number only as equalities of one argument: libseccomp 2.5.4 merges other alternatives into
    // one tree of comparisons that does not always mean what the lines say.
    const uint32_t alternatives = random.percent(50) ? 1 : 2 + random.below(4);
    const auto arg = static_cast<uint8_t>(random.below(3));
    for (uint32_t alternative = 0; alternative < alternatives; ++alternative) {
      Line line{nr, action, {}};
      for (uint8_t i = 0; i < (alternatives == 1 ? 1 + random.below(2) : 1); ++i) {
        const CompareOp op = alternatives == 1 ? kOps[random.below(std::size(kOps))] : CompareOp::kEqual;
        ArgTest test{static_cast<uint8_t>(arg + i), CompareWidth::kU64, op, ~uint64_t{0}, {}};
        uint64_t value = random.percent(70) ? random.value() : random.next();
        if (test.op == CompareOp::kMasked) {
          test.mask = random.percent(70) ? random.value() : random.next();
          value &= test.mask;
        }
        test.values = {value};
        line.all_of.push_back(test);
      }
      rules.lines.push_back(std::move(line));
    }
  }
  return rules;
}

struct Comparison {
  double mean = 0;
  double linear_mean = 0;
  double tree_mean = 0;
  size_t size = 0;
  size_t linear_size = 0;
  size_t tree_size = 0;
};

// Every number, each with arguments of 0 and with some from the rules' boundaries. `disagreements` are calls for which
// the three programs do not all return the same.
Comparison compare(const Rules& rules, Random& random, size_t& disagreements) {
  const Program linear = exported(rules, 1);
  const Program tree = exported(rules, 2);
  const RuleSet set = ours(rules);
  const Result<CompiledStack> stack = compile(set.layers, set.verdicts);
  REQUIRE_MESSAGE(stack.has_value(), stack.error().message());
  Comparison result;
  result.size = stack->kernel.code().size();
  result.linear_size = linear.code().size();
  result.tree_size = tree.code().size();
  size_t calls = 0;
  const auto run = [&](const CallData& call, bool counted) {
    const uint32_t expected = run_reference(stack->kernel, call);
    disagreements += run_reference(tree, call) != expected || run_reference(linear, call) != expected;
    if (!counted) return;
    result.mean += executed_instructions(stack->kernel, call);
    result.linear_mean += executed_instructions(linear, call);
    result.tree_mean += executed_instructions(tree, call);
    ++calls;
  };
  const CallSource source(set.layers);
  for (uint32_t nr = 0; nr < kNumbers; ++nr) {
    CallData call;
    call.arch = kX86;
    call.nr = static_cast<int32_t>(nr);
    run(call, true);
    for (int i = 0; i < 4; ++i) {
      CallData other = source.next(random);
      other.arch = kX86;
      other.nr = static_cast<int32_t>(nr);
      run(other, true);
    }
  }
  for (int i = 0; i < 2000; ++i) run(source.next(random), false);
  result.mean /= static_cast<double>(calls);
  result.linear_mean /= static_cast<double>(calls);
  result.tree_mean /= static_cast<double>(calls);
  return result;
}

}  // namespace

TEST_CASE("A profile like Docker's is smaller and faster than libseccomp's binary tree and linear program") {
  Random random(1);
  size_t disagreements = 0;
  const Comparison result = compare(docker_like(), random, disagreements);
  MESSAGE("size " << result.size << " (tree " << result.tree_size << ", linear " << result.linear_size
                  << "), mean executed " << result.mean << " (tree " << result.tree_mean << ", linear "
                  << result.linear_mean << ")");
  CHECK(disagreements == 0);
  CHECK(result.size <= result.tree_size);
  CHECK(result.size <= result.linear_size);
  CHECK(result.mean <= result.tree_mean);
  CHECK(result.mean <= result.linear_mean);
}

TEST_CASE(
    "For random rules our program means the same as libseccomp's and is neither larger nor slower than its tree") {
  Random random(42);
  Comparison total;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const Rules rules = random_lines(random);
    if (rules.lines.empty()) continue;
    size_t disagreements = 0;
    const Comparison result = compare(rules, random, disagreements);
    CHECK(disagreements == 0);
    CHECK(result.size <= result.tree_size);
    CHECK(result.mean <= result.tree_mean);
    total.size += result.size;
    total.tree_size += result.tree_size;
    total.mean += result.mean;
    total.tree_mean += result.tree_mean;
  }
  MESSAGE("size " << total.size << " against " << total.tree_size << ", mean executed " << total.mean / 40
                  << " against " << total.tree_mean / 40);
}

}  // namespace srun::bpf::test
