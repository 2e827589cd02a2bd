// All engines give the same result on the same input: 10^6 seeded pairs of program and input.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "bpf/converter.h"
#include "bpf/interpreter.h"
#include "bpf/jit.h"
#include "bpf/reference.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

constexpr int kPrograms = 5000;
constexpr int kInputs = 100;

// One program in every form that runs.
class AllForms {
 public:
  explicit AllForms(const Program& program)
      : full_(convert(program)),
        plain_(convert(program, {false, false})),
        threaded_(full_, Dispatch::kThreaded),
        switched_(full_, Dispatch::kSwitch) {
#if defined(__x86_64__)
    jit_ = compiled({});
    blinded_ = compiled({true});
#endif
  }

  // The name of a form that gives something else, or nothing.
  std::string deviating(uint32_t result, const void* context) const {
    if (plain_.run(context) != result) return "interpreter without passes";
    if (threaded_.run(context) != result) return "threaded interpreter";
    if (switched_.run(context) != result) return "switch interpreter";
    if (jit_ && jit_->run(context) != result) return "machine code";
    if (blinded_ && blinded_->run(context) != result) return "blinded machine code";
    return {};
  }
  const isa::Code& full() const { return full_; }

 private:
  JitCode compiled(const JitOptions& options) const {
    Result<JitCode> code = JitCode::compile(full_, options);
    if (!code) FAIL(code.error().message());
    return std::move(*code);
  }

  isa::Code full_;
  InterpreterCode plain_;
  InterpreterCode threaded_;
  InterpreterCode switched_;
  std::optional<JitCode> jit_;
  std::optional<JitCode> blinded_;
};

struct Seen {
  int switches = 0;
  int wides = 0;
  int unchecked_loads = 0;
  int near_loads = 0;
  int unswapped_loads = 0;
  int zero = 0;
  int non_zero = 0;

  void note(const isa::Code& code) {
    for (const isa::Insn& insn : code.insns) {
      const bool packet_load = insn.op >= isa::Op::kLdAbs8 && insn.op <= isa::Op::kLdNear32;
      near_loads += insn.op >= isa::Op::kLdNear8 && insn.op <= isa::Op::kLdNear32;
      unswapped_loads += packet_load && isa::may_stay_unswapped(insn);
      switches += insn.op == isa::Op::kSwitch;
      wides += insn.op == isa::Op::kLoad64 && code.flavour == Flavour::kSeccomp;
      unchecked_loads += insn.op >= isa::Op::kLdAbs8 && insn.op <= isa::Op::kLdAbs32 && isa::high(insn.imm) == 0;
    }
  }
  void note(uint32_t result) { ++(result == 0 ? zero : non_zero); }
};

uint32_t length_of(int program) { return program % 50 == 0 ? 400 : 60; }

}  // namespace

TEST_CASE("engines: reference, interpreters and machine code agree on 500,000 seccomp programs x calls") {
  Random random(0xe1);
  ProgramShape shape;
  Seen seen;
  for (int i = 0; i < kPrograms; ++i) {
    CAPTURE(i);
    shape.max_length = length_of(i);
    const std::vector<Instruction> code = random_program(random, shape);
    const Program program = *verify(code, Flavour::kSeccomp);
    const AllForms forms(program);
    seen.note(forms.full());
    for (int j = 0; j < kInputs; ++j) {
      const CallData call = random_call(random, code);
      const uint32_t result = run_reference(program, call);
      seen.note(result);
      if (const std::string form = forms.deviating(result, &call); !form.empty()) {
        FAIL(form << ", input " << j << ", expected " << result << "\n" << isa::to_text(forms.full()));
      }
    }
  }
  // The comparison means something only if the interesting forms occur.
  CHECK(seen.switches > 1000);
  CHECK(seen.wides > 150);
  CHECK(seen.zero > 10000);
  CHECK(seen.non_zero > 100000);
}

TEST_CASE("engines: reference, interpreters and machine code agree on 500,000 packet programs x packets") {
  Random random(0xe2);
  ProgramShape shape;
  shape.flavour = Flavour::kPacket;
  Seen seen;
  for (int i = 0; i < kPrograms; ++i) {
    CAPTURE(i);
    shape.max_length = length_of(i);
    const std::vector<Instruction> code = random_program(random, shape);
    const Program program = *verify(code, Flavour::kPacket);
    const AllForms forms(program);
    seen.note(forms.full());
    for (int j = 0; j < kInputs; ++j) {
      const std::vector<uint8_t> bytes = random_packet(random, code, 64);
      PacketMetadata metadata;
      for (uint32_t& value : metadata.values) value = random.below(16);
      Packet packet(bytes, 1500);
      packet.network_offset = random.percent(95) ? random.below(20) : random.value();
      if (random.percent(30)) packet.metadata = &metadata;
      const uint32_t result = run_reference(program, packet);
      seen.note(result);
      if (const std::string form = forms.deviating(result, &packet); !form.empty()) {
        FAIL(form << ", input " << j << ", expected " << result << "\n" << isa::to_text(forms.full()));
      }
    }
  }
  CHECK(seen.switches > 500);
  CHECK(seen.unchecked_loads > 1000);
  CHECK(seen.near_loads > 100);
  CHECK(seen.unswapped_loads > 1000);
  CHECK(seen.zero > 10000);
  CHECK(seen.non_zero > 100000);
}

}  // namespace srun::bpf::test
