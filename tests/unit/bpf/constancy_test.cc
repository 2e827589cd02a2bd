#include "bpf/constancy.h"

#include <doctest/doctest.h>

#include "bpf/abstract_value.h"
#include "bpf/compiler.h"
#include "bpf/reference.h"
#include "bpf/verdict_cache.h"
#include "support/bpf_assembler.h"
#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kNr = 0;
constexpr uint32_t kArgLow = 16;
constexpr uint32_t kDeny = kRetErrno | 1;

Program seccomp(const Code& code) {
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return std::move(*program);
}

ConstancyRange about(const std::vector<ConstancyRange>& ranges, uint32_t nr) {
  for (const ConstancyRange& range : ranges) {
    if (range.first <= nr && nr <= range.last) return range;
  }
  FAIL("no range holds " << nr);
  return {};
}

// The ranges cover all numbers in order and no two neighbours say the same.
void check_partition(const std::vector<ConstancyRange>& ranges) {
  uint64_t next = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    REQUIRE(ranges[i].first == next);
    REQUIRE(ranges[i].last >= ranges[i].first);
    next = uint64_t{ranges[i].last} + 1;
  }
  REQUIRE(next == uint64_t{1} << 32);
}

}  // namespace

TEST_CASE("A program that looks only at the number is known for all 2^32 numbers") {
  const Program program = seccomp(
      {stmt(kLdAbsW, kNr), jump(kJgeK, 0x40000000, 2, 0), jump(kJeqK, 59, 1, 0), ret(kRetAllow | 7), ret(kDeny)});
  CHECK(find_constant_calls(program, kX86) ==
        std::vector<ConstancyRange>{{0, 58, true, true, kRetAllow | 7},
                                    {59, 59, true, false, kDeny},
                                    {60, 0x3fffffff, true, true, kRetAllow | 7},
                                    {0x40000000, 0xffffffff, true, false, kDeny}});
}

TEST_CASE("A check of an argument that cannot fail leaves the call constant") {
  SUBCASE("masked below the bound") {
    const Program program =
        seccomp({stmt(kLdAbsW, kArgLow), stmt(kAndK, 0xff), jump(kJgtK, 0xff, 0, 1), ret(kDeny), ret(kRetAllow)});
    CHECK(find_constant_calls(program, kX86) == std::vector<ConstancyRange>{{0, 0xffffffff, true, true, kRetAllow}});
  }
  SUBCASE("both sides allow") {
    const Program program = seccomp({stmt(kLdAbsW, kArgLow), jump(kJeqK, 1, 0, 1), ret(kRetAllow), ret(kRetAllow)});
    CHECK(find_constant_calls(program, kX86) == std::vector<ConstancyRange>{{0, 0xffffffff, true, true, kRetAllow}});
  }
  SUBCASE("asked twice on one path") {
    const Program program = seccomp({stmt(kLdAbsW, kArgLow), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, kArgLow),
                                     jump(kJeqK, 1, 1, 0), ret(kDeny), ret(kRetAllow)});
    CHECK(find_constant_calls(program, kX86) == std::vector<ConstancyRange>{{0, 0xffffffff, true, true, kRetAllow}});
  }
}

TEST_CASE("Two kinds of allow are always an allow but not one value") {
  const Program program =
      seccomp({stmt(kLdAbsW, kArgLow), jump(kJeqK, 1, 0, 1), ret(kRetAllow | 1), ret(kRetAllow | 2)});
  CHECK(find_constant_calls(program, kX86) == std::vector<ConstancyRange>{{0, 0xffffffff, false, true, 0}});
}

TEST_CASE("Scratch memory, X, arithmetic, LEN and RET A are understood") {
  // ((nr + LEN) ^ M[3]) - X with known operands, given back as the result.
  const Program program = seccomp({stmt(kLdImm, 0x55), stmt(kSt, 3), stmt(kLdxMem, 3), stmt(kLdLen), stmt(kAddX),
                                   stmt(kTax), stmt(kLdImm, kRetAllow), stmt(kOrX), ret_a()});
  CHECK(find_constant_calls(program, kX86) ==
        std::vector<ConstancyRange>{{0, 0xffffffff, true, true, kRetAllow | (64 + 0x55)}});
}

TEST_CASE("Arithmetic on the number is settled number by number below 512") {
  // Odd numbers are denied; bit 0 cannot be a handful of intervals.
  const Program program = seccomp({stmt(kLdAbsW, kNr), jump(kJsetK, 1, 0, 1), ret(kDeny), ret(kRetAllow)});
  const std::vector<ConstancyRange> ranges = find_constant_calls(program, kX86);
  check_partition(ranges);
  CHECK(about(ranges, 510) == ConstancyRange{510, 510, true, true, kRetAllow});
  CHECK(about(ranges, 511) == ConstancyRange{511, 511, true, false, kDeny});
  CHECK(about(ranges, 512) == ConstancyRange{512, 0xffffffff, false, false, 0});
}

TEST_CASE("Division by an X that may be 0 counts the result 0") {
  const Program program = seccomp({stmt(kLdAbsW, kArgLow), stmt(kTax), stmt(kLdImm, 1), stmt(kDivX), ret(kRetAllow)});
  CHECK(find_constant_calls(program, kX86) == std::vector<ConstancyRange>{{0, 0xffffffff, false, false, 0}});
}

TEST_CASE("What is called constant never differs from a full evaluation of random programs") {
  Random random(7);
  size_t constants = 0;
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    const std::vector<Instruction> code = random_program(random, {});
    const Program program = seccomp(code);
    const std::vector<ConstancyRange> ranges = find_constant_calls(program, kX86);
    check_partition(ranges);
    const AllowSet allowed(program, kX86);
    for (int i = 0; i < 40; ++i) {
      CallData call = random_call(random, code);
      call.arch = kX86;
      if (i % 2 == 0) call.nr = static_cast<int32_t>(random.below(600));
      const auto nr = static_cast<uint32_t>(call.nr);
      const uint32_t result = run_reference(program, call);
      const ConstancyRange range = about(ranges, nr);
      constants += range.constant;
      if (range.constant) REQUIRE(range.value == result);
      if (range.always_allow) REQUIRE((result & kRetActionMask) == kRetAllow);
      if (allowed.contains(nr)) REQUIRE((result & kRetActionMask) == kRetAllow);
      const Outcomes outcomes = possible_outcomes(program, kX86, nr, nr);
      if (outcomes.constant) REQUIRE(outcomes.value == result);
      if (outcomes.always_allow) REQUIRE((result & kRetActionMask) == kRetAllow);
    }
  }
  CHECK(constants > 1000);  // else the test says nothing
}

TEST_CASE("Abstract arithmetic and branches contain every concrete outcome") {
  Random random(11);
  static constexpr uint16_t kAlu[] = {kAddX, kSubX, kMulX, kDivX, kOrX, kAndX, kXorX, kLshX, kRshX, kNeg};
  static constexpr uint16_t kJumps[] = {kJeqX, kJgtX, kJgeX, kJsetX};
  const auto pick = [&](uint32_t& low, uint32_t& high) {
    low = random.value();
    high = random.percent(30) ? low : random.value();
    if (low > high) std::swap(low, high);
    AbstractValue value = AbstractValue::between(low, high);
    const uint32_t mask = random.value();
    if (random.percent(50)) value = alu_result(kAndK, value, AbstractValue::constant(mask));
    return value;
  };
  const auto member = [&](const AbstractValue& value, uint32_t candidate) {
    candidate = (candidate | value.ones) & ~value.zeros;
    return value.may_be(candidate) ? candidate : value.min;
  };
  const auto concrete = [&](uint16_t code, uint32_t a, uint32_t x) {
    const Program program = seccomp({stmt(kLdImm, x), stmt(kTax), stmt(kLdImm, a), stmt(code), ret_a()});
    return run_reference(program, CallData{});
  };
  for (int i = 0; i < 40000; ++i) {
    uint32_t low = 0;
    uint32_t high = 0;
    const AbstractValue a = pick(low, high);
    const uint32_t a_value = member(a, low + random.below(high - low + 1 == 0 ? 1 : high - low + 1));
    const AbstractValue x = pick(low, high);
    const uint32_t x_value = member(x, low + random.below(high - low + 1 == 0 ? 1 : high - low + 1));
    if (!a.may_be(a_value) || !x.may_be(x_value)) continue;
    const uint16_t alu = kAlu[random.below(std::size(kAlu))];
    if (alu != kDivX || x_value != 0) {
      CHECK(alu_result(alu, a, x).may_be(concrete(alu, a_value, x_value)));
    }
    CHECK(joined(a, x).may_be(a_value));
    CHECK(joined(a, x).may_be(x_value));
    const uint16_t code = kJumps[random.below(std::size(kJumps))];
    const bool taken = code == kJeqX   ? a_value == x_value
                       : code == kJgtX ? a_value > x_value
                       : code == kJgeX ? a_value >= x_value
                                       : (a_value & x_value) != 0;
    const std::optional<AbstractValue> after = after_jump(code, a, x, taken);
    REQUIRE(after.has_value());
    CHECK(after->may_be(a_value));
  }
}

TEST_CASE("VerdictCache answers only for the generation and arch under which a call was inserted") {
  VerdictCache cache;
  CHECK_FALSE(cache.known_allowed(0, 0, 0));
  cache.insert(5, kX86, 39);
  CHECK(cache.known_allowed(5, kX86, 39));
  CHECK_FALSE(cache.known_allowed(5, kX86, 40));
  CHECK_FALSE(cache.known_allowed(6, kX86, 39));
  CHECK_FALSE(cache.known_allowed(5, 0x40000003, 39));
  cache.insert(5, kX86, AllowSet::kNumbers);
  CHECK_FALSE(cache.known_allowed(5, kX86, AllowSet::kNumbers));
  CHECK_FALSE(cache.known_allowed(5, kX86, 0xffffffff));
  cache.insert(6, kX86, 1);
  CHECK_FALSE(cache.known_allowed(6, kX86, 39));
  CHECK(cache.known_allowed(6, kX86, 1));
  cache.clear();
  CHECK_FALSE(cache.known_allowed(6, kX86, 1));
}

TEST_CASE("A task's cache agrees with a full evaluation while filters are pushed, arches change and tasks fork") {
  struct Task {
    std::vector<size_t> filters;
    uint64_t generation = 0;
    VerdictCache cache;
  };
  Random random(23);
  std::vector<Program> programs;
  const std::vector<VerdictReturn> verdicts{{kRetAllow | 1, 0}, {kRetAllow | 2, 0}, {kRetErrno | 3, 0}};
  for (int i = 0; i < 12; ++i) {
    // Mostly allowed, a number here and there denied or decided by argument 0.
    Layer layer{{}, 2};
    for (const uint32_t arch : kTestArches) {
      if (arch != kTestArches[0] && random.percent(40)) continue;
      ArchRules rules{arch, {}};
      for (uint32_t nr = 0; nr < 512; ++nr) {
        Decision decision{{}, static_cast<VerdictId>(random.percent(5) ? 2 : random.below(2))};
        if (random.percent(5)) {
          decision.rules.push_back({{{0, CompareWidth::kU32, CompareOp::kGreater, 0, {random.value()}}},
                                    static_cast<VerdictId>(random.below(3))});
        }
        rules.ranges.push_back({nr, nr == 511 ? 0xffffffff : nr, std::move(decision)});
      }
      layer.arches.push_back(std::move(rules));
    }
    Result<CompiledStack> stack = compile(std::span(&layer, 1), verdicts);
    REQUIRE(stack.has_value());
    programs.push_back(std::move(stack->copy));
  }
  std::vector<std::array<AllowSet, std::size(kTestArches)>> sets;
  for (const Program& program : programs) {
    sets.push_back(
        {AllowSet(program, kTestArches[0]), AllowSet(program, kTestArches[1]), AllowSet(program, kTestArches[2])});
  }
  uint64_t next_generation = 1;
  std::vector<Task> tasks(1);
  tasks[0].filters = {0};
  tasks[0].generation = next_generation++;
  size_t hits = 0;
  for (int step = 0; step < 200000; ++step) {
    Task& task = tasks[random.below(static_cast<uint32_t>(tasks.size()))];
    const uint32_t event = random.below(1000);
    if (event < 3) {  // the task installs a filter
      if (task.filters.size() < 4) task.filters.push_back(random.below(static_cast<uint32_t>(programs.size())));
      task.generation = next_generation++;
    } else if (event < 6 && tasks.size() < 8) {  // fork: same stack, same generation, cache copied or fresh
      Task child = task;
      if (random.percent(50)) child.cache.clear();
      tasks.push_back(std::move(child));
    } else if (event < 8 && tasks.size() > 1) {  // exit, later a new task with an unfiltered start
      tasks.pop_back();
    } else {
      CallData call;
      const size_t arch = random.percent(90) ? 0 : random.below(std::size(kTestArches));
      call.arch = kTestArches[arch];
      call.nr = static_cast<int32_t>(random.below(560));
      for (uint64_t& arg : call.args) arg = random.next();
      const auto nr = static_cast<uint32_t>(call.nr);
      bool allowed = true;
      bool constant = true;
      for (const size_t filter : task.filters) {
        allowed = allowed && (run_reference(programs[filter], call) & kRetActionMask) == kRetAllow;
        constant = constant && sets[filter][arch].contains(nr);
      }
      if (task.cache.known_allowed(task.generation, call.arch, nr)) {
        ++hits;
        REQUIRE(allowed);
      } else if (constant) {
        REQUIRE(allowed);
        task.cache.insert(task.generation, call.arch, nr);
      }
    }
  }
  CHECK(hits > 1000);
}

}  // namespace srun::bpf::test
