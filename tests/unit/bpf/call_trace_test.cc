#include "bpf/call_trace.h"

#include <doctest/doctest.h>

#include "bpf/reference.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {

TEST_CASE("A trace names the instructions executed, and the last one decided") {
  const Result<Program, VerifyError> program =
      verify(Code{stmt(kLdAbsW, 0), jump(kJeqK, 59, 0, 1), ret(kRetErrno | 1), ret(kRetAllow)}, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  CallData call;
  call.nr = 59;
  CallTrace trace = trace_call(*program, call);
  CHECK(trace.value == (kRetErrno | 1));
  CHECK(trace.instructions == std::vector<size_t>{0, 1, 2});
  CHECK(trace.deciding_instruction() == 2);
  call.nr = 60;
  trace = trace_call(*program, call);
  CHECK(trace.value == kRetAllow);
  CHECK(trace.deciding_instruction() == 3);
}

TEST_CASE("A trace gives the reference's answer for random programs and calls") {
  Random random(31);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Instruction> code = random_program(random, {});
    const Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
    REQUIRE(program.has_value());
    for (int i = 0; i < 5; ++i) {
      const CallData call = random_call(random, code);
      const CallTrace trace = trace_call(*program, call);
      REQUIRE(trace.value == run_reference(*program, call));
      const uint16_t last = code[trace.deciding_instruction()].code;
      // Only a return or a division by X = 0 ends a program.
      CHECK((is_return(last) || last == kDivX));
    }
  }
}

}  // namespace srun::bpf::test
