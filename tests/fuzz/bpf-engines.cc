// Every engine gives what the reference gives: interpreters, machine code with and without blinding, verdict tables and
// lazily made verdicts. The bytes become a program that nearly always verifies, then inputs for it.
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "bpf/converter.h"
#include "bpf/interpreter.h"
#include "bpf/jit.h"
#include "bpf/lazy_verdicts.h"
#include "bpf/opcodes.h"
#include "bpf/packet.h"
#include "bpf/reference.h"
#include "bpf/verdict_table.h"
#include "fuzz_input.h"

using namespace srun;

namespace {

using namespace srun::bpf;

constexpr uint32_t kArches[] = {0xc000003e, 0x40000003};

// Loads and tests come first and often, as in real programs.
constexpr Opcode kCommon[] = {kLdAbsW, kLdImm, kLdxImm, kSt,   kStx,  kLdMem, kLdxMem, kTax,  kTxa,    kJeqK, kJgtK,
                              kJgeK,   kJsetK, kJeqX,   kJgtX, kJgeX, kJsetX, kJa,     kRetK, kRetA,   kAddK, kSubK,
                              kMulK,   kDivK,  kAndK,   kOrK,  kXorK, kLshK,  kRshK,   kAddX, kSubX,   kMulX, kDivX,
                              kAndX,   kOrX,   kXorX,   kLshX, kRshX, kNeg,   kJeqK,   kJeqK, kLdAbsW, kRetK};
constexpr Opcode kPacketOnly[] = {kLdAbsH, kLdAbsB, kLdIndW, kLdIndH, kLdIndB, kLdxMsh, kModK, kModX, kLdLen, kLdxLen};

std::vector<Instruction> program_from(fuzz::Input& input, Flavour flavour) {
  constexpr size_t kLongest = 200;
  const size_t length = 1 + input.take<uint8_t>() % kLongest;
  std::vector<Instruction> code;
  for (size_t i = 0; i + 1 < length; ++i) {
    const auto left = static_cast<uint32_t>(length - i - 1);
    uint32_t which = input.take<uint8_t>();
    Instruction insn;
    if (flavour == Flavour::kPacket && which % 4 == 0) {
      insn.code = kPacketOnly[(which / 4) % std::size(kPacketOnly)];
    } else {
      insn.code = kCommon[which % std::size(kCommon)];
    }
    insn.jt = static_cast<uint8_t>(input.take<uint8_t>() % left);
    insn.jf = static_cast<uint8_t>(input.take<uint8_t>() % left);
    // Small constants are given in one byte, others in five.
    const uint8_t small = input.take<uint8_t>();
    insn.k = small < 0xf0 ? small : input.take<uint32_t>();
    switch (insn.code) {
      case kLdAbsW:
        if (flavour == Flavour::kSeccomp) insn.k = insn.k % 16 * 4;
        break;
      case kSt:
      case kStx:
      case kLdMem:
      case kLdxMem:
        insn.k %= 16;
        break;
      case kLshK:
      case kRshK:
        insn.k %= 32;
        break;
      case kDivK:
      case kModK:
        insn.k |= 1;
        break;
      case kJa:
        insn.k %= left;
        break;
      default:
        break;
    }
    code.push_back(insn);
  }
  code.push_back({kRetA, 0, 0, 0});
  return code;
}

void require_equal(uint32_t expected, uint32_t got, const char* engine) { fuzz::require(expected == got, engine); }

// The program in every form that runs.
class Forms {
 public:
  explicit Forms(const Program& program)
      : full_(convert(program)),
        plain_(convert(program, {false, false})),
        threaded_(full_),
        switched_(full_, Dispatch::kSwitch) {
    if (!jit_available()) return;
    if (Result<JitCode> code = JitCode::compile(full_)) jit_ = std::move(*code);
    if (Result<JitCode> code = JitCode::compile(full_, {true})) blinded_ = std::move(*code);
  }

  void check(uint32_t expected, const void* context) const {
    require_equal(expected, plain_.run(context), "interpreter without passes");
    require_equal(expected, threaded_.run(context), "interpreter");
    require_equal(expected, switched_.run(context), "switch interpreter");
    if (jit_) require_equal(expected, jit_->run(context), "machine code");
    if (blinded_) require_equal(expected, blinded_->run(context), "blinded machine code");
  }

 private:
  isa::Code full_;
  InterpreterCode plain_;
  InterpreterCode threaded_;
  InterpreterCode switched_;
  std::optional<JitCode> jit_;
  std::optional<JitCode> blinded_;
};

void check_calls(const Program& program, fuzz::Input& input) {
  const Forms forms(program);
  LazyVerdicts lazy(program, kArches[0]);
  // A table works out all numbers of all arches, which costs as much as a hundred inputs without one.
  std::optional<VerdictTable> table;
  if (input.take<uint8_t>() % 64 == 63) {
    table.emplace(StackLayers{std::make_shared<const StackLayer>(program)}, kArches, RunnerOptions{false});
  }
  for (int i = 0; i < 16; ++i) {
    CallData call = input.take<CallData>();
    if (i % 4 != 3) call.arch = kArches[i % 2];
    if (i % 8 != 7) call.nr &= 511;
    const uint32_t expected = run_reference(program, call);
    forms.check(expected, &call);
    require_equal(expected, lazy.evaluate(call), "lazy verdicts before settling");
    lazy.settle(static_cast<uint32_t>(call.nr) & 511);
    require_equal(expected, lazy.evaluate(call), "lazy verdicts");
    if (table) require_equal(expected, table->evaluate(call).value, "verdict table");
  }
}

void check_packets(const Program& program, fuzz::Input& input) {
  const Forms forms(program);
  for (int i = 0; i < 8; ++i) {
    uint8_t bytes[64];
    for (uint8_t& byte : bytes) byte = input.take<uint8_t>();
    const size_t length = i == 0 ? sizeof bytes : input.take<uint8_t>() % (sizeof bytes + 1);
    Packet packet({bytes, length}, static_cast<uint32_t>(length) + 1400);
    packet.network_offset = input.take<uint8_t>() % 20;
    forms.check(run_reference(program, packet), &packet);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const Flavour flavour = input.take<uint8_t>() % 2 == 0 ? Flavour::kSeccomp : Flavour::kPacket;
  const std::vector<Instruction> code = program_from(input, flavour);
  const Result<Program, VerifyError> program = verify(code, flavour);
  if (!program) return -1;  // a scratch word is read before it is written: not worth keeping in the corpus
  if (flavour == Flavour::kSeccomp) {
    check_calls(*program, input);
  } else {
    check_packets(*program, input);
  }
  return 0;
}
