#include "bpf/lazy_verdicts.h"

#include <doctest/doctest.h>

#include "bpf/compiler.h"
#include "bpf/reference.h"
#include "support/bpf_assembler.h"
#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kI386 = 0x40000003;
constexpr uint32_t kArg0 = 16;

Program seccomp(const Code& code) {
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return std::move(*program);
}

CallData call_of(uint32_t nr, uint64_t arg0 = 0, uint32_t arch = kX86) {
  CallData call;
  call.nr = static_cast<int32_t>(nr);
  call.arch = arch;
  call.args[0] = arg0;
  return call;
}

// 10 and 11: argument 0 decides in the same way; 12: refused; all others allowed.
Program example() {
  return seccomp({stmt(kLdAbsW, 0), jump(kJeqK, 10, 3, 0), jump(kJeqK, 11, 2, 0), jump(kJeqK, 12, 0, 3),
                  ret(kRetErrno | 9), stmt(kLdAbsW, kArg0), jump(kJeqK, 7, 1, 0), ret(kRetAllow), ret(kRetTrap | 5)});
}

}  // namespace

TEST_CASE("A number gets its entry when it was asked for often enough, and not before") {
  LazyVerdicts verdicts(example(), kX86);
  for (int i = 1; i < LazyVerdicts::kWorthIt; ++i) {
    CHECK(verdicts.evaluate(call_of(12)) == (kRetErrno | 9));
    CHECK(verdicts.entry(12).residual == LazyVerdicts::kUnknown);
  }
  CHECK(verdicts.evaluate(call_of(12)) == (kRetErrno | 9));
  CHECK(verdicts.entry(12).residual == LazyVerdicts::kConstant);
  CHECK(verdicts.entry(12).value == (kRetErrno | 9));
  CHECK(verdicts.entry(13).residual == LazyVerdicts::kUnknown);
}

TEST_CASE("Numbers that arguments decide in the same way share one residual program") {
  for (const bool jit : {true, false}) {
    CAPTURE(jit);
    LazyVerdicts verdicts(example(), kX86, RunnerOptions{jit});
    verdicts.settle(10);
    verdicts.settle(11);
    CHECK(verdicts.entry(10).residual == 0);
    CHECK(verdicts.entry(11).residual == 0);
    CHECK(verdicts.residuals() == 1);
    CHECK(verdicts.evaluate(call_of(10, 7)) == (kRetTrap | 5));
    CHECK(verdicts.evaluate(call_of(11, 7)) == (kRetTrap | 5));
    CHECK(verdicts.evaluate(call_of(11, 8)) == kRetAllow);
  }
}

TEST_CASE("Entries of one arch say nothing about another, nor about numbers beyond the table") {
  const Program program = seccomp({stmt(kLdAbsW, 4), jump(kJeqK, kI386, 0, 1), ret(kRetKillProcess), stmt(kLdAbsW, 0),
                                   jump(kJgeK, 512, 0, 1), ret(kRetErrno | 38), ret(kRetAllow)});
  LazyVerdicts verdicts(program, kX86);
  verdicts.settle(39);
  CHECK(verdicts.evaluate(call_of(39)) == kRetAllow);
  CHECK(verdicts.evaluate(call_of(39, 0, kI386)) == kRetKillProcess);
  for (const uint32_t nr : {512u, 600u, 0x40000000u | 39u, 0xffffffffu}) {
    for (int i = 0; i < 2 * LazyVerdicts::kWorthIt; ++i) CHECK(verdicts.evaluate(call_of(nr)) == (kRetErrno | 38));
  }
}

TEST_CASE("A program that computes with arguments goes on being run in full") {
  const Program odd = seccomp({stmt(kLdAbsW, kArg0), stmt(kTax), stmt(kLdImm, kRetErrno), stmt(kOrX), ret_a()});
  LazyVerdicts verdicts(odd, kX86);
  verdicts.settle(0);
  CHECK(verdicts.entry(0).residual == LazyVerdicts::kInFull);
  CHECK(verdicts.evaluate(call_of(0, 11)) == (kRetErrno | 11));
  CHECK(verdicts.evaluate(call_of(0, 12)) == (kRetErrno | 12));
}

TEST_CASE("Lazily made verdicts never differ from the reference, for compiled rules and for random programs") {
  Random random(17);
  size_t residuals = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    RuleSet set = random_rules(random, 3, 4);
    Result<CompiledStack> stack = compile(set.layers, set.verdicts);
    REQUIRE(stack.has_value());
    const CallSource source(set.layers);
    LazyVerdicts verdicts(stack->copy, kTestArches[0], RunnerOptions{round % 2 == 0});
    for (int i = 0; i < 3000; ++i) {
      const CallData call = source.next(random);
      // Some numbers are settled at once, so that most of the calls meet entries.
      if (i % 3 == 0 && static_cast<uint32_t>(call.nr) < LazyVerdicts::kNumbers)
        verdicts.settle(static_cast<uint32_t>(call.nr));
      REQUIRE(verdicts.evaluate(call) == run_reference(stack->copy, call));
    }
    residuals += verdicts.residuals();
  }
  CHECK(residuals > 100);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const std::vector<Instruction> code = random_program(random, {});
    const Program program = seccomp(code);
    LazyVerdicts verdicts(program, kX86, RunnerOptions{round % 2 == 0});
    for (int i = 0; i < 300; ++i) {
      CallData call = random_call(random, code);
      if (random.percent(80)) call.arch = kX86;
      if (random.percent(80)) call.nr = static_cast<int32_t>(random.below(16));
      REQUIRE(verdicts.evaluate(call) == run_reference(program, call));
    }
  }
}

}  // namespace srun::bpf::test
