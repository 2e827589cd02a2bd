#include "bpf/compiler.h"

#include <doctest/doctest.h>

#include "bpf/disassembler.h"
#include "bpf/opcodes.h"
#include "bpf/reference.h"
#include "support/bpf_count.h"
#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;

CallData call_of(uint32_t nr, std::initializer_list<uint64_t> args = {}, uint32_t arch = kX86) {
  CallData call;
  call.nr = static_cast<int32_t>(nr);
  call.arch = arch;
  std::copy(args.begin(), args.end(), call.args);
  return call;
}

const std::vector<VerdictReturn> kAllowDeny{{kRetAllow, kRetAllow}, {kRetErrno | 1, kRetErrno | 1}};

Layer one_arch(std::vector<NumberRange> ranges, VerdictId foreign) { return {{{kX86, std::move(ranges)}}, foreign}; }

}  // namespace

TEST_CASE("Both compiled programs give the verdict of the rules for random layers and boundary calls") {
  Random random(20261201);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const RuleSet set = random_rules(random);
    const Result<CompiledStack> stack = compile(set.layers, set.verdicts);
    REQUIRE_MESSAGE(stack.has_value(), stack.error().message());
    const CallSource source(set.layers);
    int wrong = 0;
    for (int i = 0; i < 600; ++i) {
      const CallData call = source.next(random);
      const VerdictReturn& expected = set.verdicts[decide(set.layers, set.verdicts, call)];
      wrong += run_reference(stack->kernel, call) != expected.kernel_return;
      wrong += run_reference(stack->copy, call) != expected.copy_return;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("A call whose arch no layer lists gets the strictest foreign verdict") {
  const std::vector<VerdictReturn> verdicts{
      {kRetAllow, kRetAllow}, {kRetErrno | 38, kRetErrno | 38}, {kRetKillProcess, kRetKillProcess}};
  const std::vector<Layer> layers{{{{kX86, {{0, 0xffffffff, {{}, 0}}}}}, 2}, {{}, 1}};
  const Result<CompiledStack> stack = compile(layers, verdicts);
  REQUIRE(stack.has_value());
  CHECK(run_reference(stack->kernel, call_of(0, {}, 0x40000003)) == kRetKillProcess);
  // The second layer lists no arch at all: x86-64 is foreign to it.
  CHECK(run_reference(stack->kernel, call_of(0)) == (kRetErrno | 38));
}

TEST_CASE("Kernel and copy share what is equal for them") {
  // Two denials that only the copy tells apart: one range for the kernel, three for the copy.
  const std::vector<VerdictReturn> verdicts{
      {kRetAllow | 0, kRetAllow}, {kRetErrno | 1, kRetUserNotif}, {kRetErrno | 2, kRetUserNotif}};
  const std::vector<Layer> layers{one_arch({{0, 9, {{}, 1}}, {10, 19, {{}, 2}}, {20, 0xffffffff, {{}, 0}}}, 1)};
  const Result<CompiledStack> stack = compile(layers, verdicts);
  REQUIRE(stack.has_value());
  CHECK(disassemble(stack->kernel.code()) ==
        "0000         ld    arch\n"
        "0001         jeq   x86_64 ? next : L0001\n"
        "0002         ld    nr\n"
        "0003         jge   20 ? next : L0001\n"
        "0004         ret   ALLOW\n"
        "0005  L0001: ret   USER_NOTIF\n");
  CHECK(disassemble(stack->copy.code()) ==
        "0000         ld    arch\n"
        "0001         jeq   x86_64 ? next : L0002\n"
        "0002         ld    nr\n"
        "0003         jge   20 ? next : L0001\n"
        "0004         ret   ALLOW\n"
        "0005  L0001: jge   10 ? next : L0002\n"
        "0006         ret   ERRNO(2)\n"
        "0007  L0002: ret   ERRNO(1)\n");
}

TEST_CASE("An argument is compared at its width") {
  const auto size_of = [](CompareWidth width) {
    const ArgTest test{0, width, CompareOp::kEqual, ~uint64_t{0}, {5}};
    const std::vector<Layer> layers{one_arch({{0, 0xffffffff, {{{{test}, 1}}, 0}}}, 1)};
    const Result<CompiledStack> stack = compile(layers, kAllowDeny);
    REQUIRE(stack.has_value());
    const uint32_t denied = kRetErrno | 1;
    CHECK(run_reference(stack->kernel, call_of(1, {5})) == denied);
    const bool narrow = width == CompareWidth::kU32 || width == CompareWidth::kS32;
    CHECK(run_reference(stack->kernel, call_of(1, {0x100000005})) == (narrow ? denied : kRetAllow));
    return stack->kernel.code().size();
  };
  CHECK(size_of(CompareWidth::kU32) == 6);
  CHECK(size_of(CompareWidth::kS32) == 6);
  CHECK(size_of(CompareWidth::kU64) == 8);
  CHECK(size_of(CompareWidth::kS64) == 8);
}

TEST_CASE("Hundreds of rules about one argument become a search") {
  // 200 rules "arg 0 is 1000 + i and arg 1 is not 0": a range and a comparison with 0.
  Decision decision{{}, 0};
  for (uint64_t i = 0; i < 200; ++i) {
    decision.rules.push_back({{{0, CompareWidth::kU64, CompareOp::kEqual, ~uint64_t{0}, {1000 + i}},
                               {1, CompareWidth::kU64, CompareOp::kNotEqual, ~uint64_t{0}, {0}}},
                              1});
  }
  const std::vector<Layer> layers{one_arch({{0, 198, {{}, 0}}, {199, 199, decision}, {200, 0xffffffff, {{}, 0}}}, 1)};
  const Result<CompiledStack> stack = compile(layers, kAllowDeny);
  REQUIRE(stack.has_value());
  CHECK(stack->kernel.code().size() <= 16);
  CHECK(run_reference(stack->kernel, call_of(199, {1000, 1})) == (kRetErrno | 1));
  CHECK(run_reference(stack->kernel, call_of(199, {1199, 1})) == (kRetErrno | 1));
  CHECK(run_reference(stack->kernel, call_of(199, {1200, 1})) == kRetAllow);
  CHECK(run_reference(stack->kernel, call_of(199, {1100, 0})) == kRetAllow);
}

TEST_CASE("The size of several layers is the sum of their rules, not the product") {
  // Two layers of 60 rules, each with a verdict of its own, about different arguments.
  std::vector<VerdictReturn> verdicts{{kRetAllow, kRetAllow}};
  const auto layer = [&](uint8_t arg) {
    Decision decision{{}, 0};
    for (uint64_t i = 0; i < 60; ++i) {
      verdicts.push_back(
          {kRetErrno | static_cast<uint32_t>(verdicts.size()), kRetErrno | static_cast<uint32_t>(verdicts.size())});
      decision.rules.push_back({{{arg, CompareWidth::kU32, CompareOp::kEqual, ~uint64_t{0}, {7 * i}}},
                                static_cast<VerdictId>(verdicts.size() - 1)});
    }
    return one_arch({{0, 0xffffffff, decision}}, 0);
  };
  const std::vector<Layer> layers{layer(0), layer(1)};
  const Result<CompiledStack> stack = compile(layers, verdicts);
  REQUIRE(stack.has_value());
  CHECK(stack->copy.code().size() < 2 * 60 * 3);
}

TEST_CASE("A rule of an older layer that cannot win any more is not asked") {
  // The newest layer denies; an older one asks an argument to deny as well: the tie goes to the newest.
  const ArgTest test{0, CompareWidth::kU64, CompareOp::kEqual, ~uint64_t{0}, {5}};
  const std::vector<VerdictReturn> verdicts{
      {kRetAllow, kRetAllow}, {kRetErrno | 1, kRetErrno | 1}, {kRetErrno | 2, kRetErrno | 2}};
  const std::vector<Layer> layers{one_arch({{0, 0xffffffff, {{{{test}, 1}}, 0}}}, 2),
                                  one_arch({{0, 0xffffffff, {{}, 2}}}, 2)};
  const Result<CompiledStack> stack = compile(layers, verdicts);
  REQUIRE(stack.has_value());
  CHECK(stack->kernel.code().size() == 1);
  CHECK(stack->kernel.code()[0] == Instruction{kRetK, 0, 0, kRetErrno | 2});
}

TEST_CASE("Programs whose jumps do not reach stay right") {
  // 500 numbers with a comparison of their own and verdicts that are far away.
  std::vector<VerdictReturn> verdicts;
  std::vector<NumberRange> ranges;
  for (uint32_t nr = 0; nr < 500; ++nr) {
    const uint32_t value = (nr % 3 == 0 ? kRetErrno : kRetTrap) | (nr % 97);
    verdicts.push_back({value, value});
    const ArgTest test{static_cast<uint8_t>(nr % 6), CompareWidth::kU64, CompareOp::kGreater, ~uint64_t{0}, {nr}};
    ranges.push_back(
        {nr, nr == 499 ? 0xffffffff : nr, {{{{test}, static_cast<VerdictId>(nr)}}, static_cast<VerdictId>(nr / 2)}});
  }
  const std::vector<Layer> layers{one_arch(std::move(ranges), 0)};
  const Result<CompiledStack> stack = compile(layers, verdicts);
  REQUIRE_MESSAGE(stack.has_value(), stack.error().message());
  Random random(12);
  const CallSource source(layers);
  for (int i = 0; i < 20000; ++i) {
    CallData call = source.next(random);
    if (i % 2 == 0) call.nr = static_cast<int32_t>(random.below(502));
    REQUIRE(run_reference(stack->kernel, call) == verdicts[decide(layers, verdicts, call)].kernel_return);
  }
}

TEST_CASE("Rules beyond 4096 instructions are refused with the costliest calls by name") {
  std::vector<VerdictReturn> verdicts{{kRetAllow, kRetAllow}};
  std::vector<NumberRange> ranges;
  for (uint32_t nr = 0; nr < 4; ++nr) {
    Decision decision{{}, 0};
    // No two neighbouring values have the same verdict, so no search gets by with less.
    for (uint64_t i = 0; i < (nr == 2 ? 1500u : 400u); ++i) {
      verdicts.push_back({kRetErrno | static_cast<uint32_t>(verdicts.size() % 4000),
                          kRetErrno | static_cast<uint32_t>(verdicts.size() % 4000)});
      decision.rules.push_back({{{0, CompareWidth::kU32, CompareOp::kEqual, ~uint64_t{0}, {3 * i}}},
                                static_cast<VerdictId>(verdicts.size() - 1)});
    }
    ranges.push_back({nr, nr == 3 ? 0xffffffff : nr, std::move(decision)});
  }
  CompileOptions options;
  options.call_name = [](uint32_t, uint32_t nr) { return nr == 2 ? std::string("open") : std::string{}; };
  const std::vector<Layer> layers{one_arch(std::move(ranges), 0)};
  const Result<CompiledStack> stack = compile(layers, verdicts, options);
  REQUIRE_FALSE(stack.has_value());
  const std::string detail = stack.error().detail;
  CAPTURE(detail);
  CHECK(detail.starts_with(
      "the rules need more than the 4096 instructions that the kernel takes; open on arch 0xc000003e: "));
  CHECK(detail.find(" for 1500 rules; number ") != std::string::npos);
  CHECK(detail.find("number 3 to 4294967295 on arch 0xc000003e: ") != std::string::npos);
}

TEST_CASE("A frequent number gets a shorter path") {
  std::vector<NumberRange> ranges;
  for (uint32_t nr = 0; nr < 300; ++nr)
    ranges.push_back({nr, nr == 299 ? 0xffffffff : nr, {{}, static_cast<VerdictId>(nr % 2)}});
  const std::vector<Layer> layers{one_arch(std::move(ranges), 1)};
  const auto executed = [&](const CompileOptions& options) {
    const Result<CompiledStack> stack = compile(layers, kAllowDeny, options);
    REQUIRE(stack.has_value());
    return executed_instructions(stack->kernel, call_of(202));
  };
  CompileOptions futex_first;
  futex_first.frequency = [](uint32_t, uint32_t nr) { return nr == 202 ? 9000.0 : 1.0; };
  // ld arch, jeq, ld nr, jeq 202, ret.
  CHECK(executed(futex_first) == 5);
  CHECK(executed({}) > 5);
}

TEST_CASE("Layers that are no partition or name verdicts that do not exist are refused by name") {
  const auto problem = [](const std::vector<Layer>& layers) {
    const Result<CompiledStack> stack = compile(layers, kAllowDeny);
    REQUIRE_FALSE(stack.has_value());
    return stack.error().detail;
  };
  const ArgTest good{0, CompareWidth::kU32, CompareOp::kEqual, ~uint64_t{0}, {1}};
  const auto with_test = [](const ArgTest& test) {
    return std::vector<Layer>{one_arch({{0, 0xffffffff, {{{{test}, 1}}, 0}}}, 0)};
  };
  CHECK(problem({}) == "no layers");
  CHECK(problem({one_arch({}, 0)}) == "layer 0, arch 0xc000003e: no rule for number 0");
  CHECK(problem({one_arch({{0, 4, {{}, 0}}}, 0)}) == "layer 0, arch 0xc000003e: no rule for number 5");
  CHECK(problem({one_arch({{0, 4, {{}, 0}}, {6, 0xffffffff, {{}, 0}}}, 0)}) ==
        "layer 0, arch 0xc000003e: no rule or two for number 5");
  CHECK(problem({one_arch({{0, 4, {{}, 0}}, {4, 0xffffffff, {{}, 0}}}, 0)}) ==
        "layer 0, arch 0xc000003e: no rule or two for number 5");
  CHECK(problem({one_arch({{0, 0xffffffff, {{}, 2}}}, 0)}) ==
        "layer 0, arch 0xc000003e, number 0: verdict 2 does not exist");
  CHECK(problem({one_arch({{0, 0xffffffff, {{}, 0}}}, 9)}) == "layer 0: verdict 9 does not exist");
  Layer twice = one_arch({{0, 0xffffffff, {{}, 0}}}, 0);
  twice.arches.push_back(twice.arches.front());
  CHECK(problem({twice}) == "layer 0: arch 0xc000003e is listed twice");
  ArgTest bad = good;
  bad.arg = 6;
  CHECK(problem(with_test(bad)) == "layer 0, arch 0xc000003e, number 0: argument 6 does not exist");
  bad = good;
  bad.values.clear();
  CHECK(problem(with_test(bad)) == "layer 0, arch 0xc000003e, number 0: a test has 0 values where 1 expected");
  bad.op = CompareOp::kIn;
  CHECK(compile(with_test(bad), kAllowDeny).has_value());
}

}  // namespace srun::bpf::test
