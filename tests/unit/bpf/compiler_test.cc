#include "bpf/compiler.h"

#include <doctest/doctest.h>

#include "bpf/opcodes.h"
#include "bpf/reference.h"
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

}  // namespace srun::bpf::test
