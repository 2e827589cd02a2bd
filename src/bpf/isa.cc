#include "bpf/isa.h"

#include <fmt/core.h>

#include <string_view>

#include "bpf/packet.h"

namespace srun::bpf::isa {
namespace {

#define SRUN_ISA_NAMES(NAME) #NAME "32K", #NAME "32X", #NAME "64K", #NAME "64X",
constexpr std::string_view kNames[] = {SRUN_ISA_ALU(SRUN_ISA_NAMES) SRUN_ISA_JUMP(SRUN_ISA_NAMES)  //
                                       "Neg32",
                                       "Neg64",
                                       "Ja",
                                       "Load8",
                                       "Load16",
                                       "Load32",
                                       "Load64",
                                       "Store32",
                                       "Store64",
                                       "LdAbs8",
                                       "LdAbs16",
                                       "LdAbs32",
                                       "LdInd8",
                                       "LdInd16",
                                       "LdInd32",
                                       "LdNear8",
                                       "LdNear16",
                                       "LdNear32",
                                       "LdMsh",
                                       "Call",
                                       "Switch",
                                       "RetK",
                                       "RetA"};
#undef SRUN_ISA_NAMES
static_assert(std::size(kNames) == kOpCount);

bool source_is_immediate(Op op) { return op <= Op::kJnset64X && static_cast<int>(op) % 2 == 0; }

}  // namespace

int64_t call_helper(Helper helper, const void* context, uint32_t argument) noexcept {
  const uint32_t size = helper == Helper::kLoadNegative8 ? 1 : helper == Helper::kLoadNegative16 ? 2 : 4;
  const uint8_t* bytes = packet_bytes(*static_cast<const Packet*>(context), static_cast<int32_t>(argument), size);
  if (bytes == nullptr) return -1;
  int64_t value = 0;
  for (uint32_t i = 0; i < size; ++i) value = value << 8 | bytes[i];
  return value;
}

std::string to_text(const Code& code) {
  std::string text;
  for (size_t pc = 0; pc < code.insns.size(); ++pc) {
    const Insn& insn = code.insns[pc];
    const std::string_view name = kNames[static_cast<size_t>(insn.op)];
    const size_t target = pc + 1 + static_cast<size_t>(static_cast<ptrdiff_t>(insn.off));
    text += fmt::format("{}: {}", pc, name);
    if (insn.op == Op::kJa) {
      text += fmt::format(" -> {}", target);
    } else if (insn.op <= Op::kJnset64X) {
      text += source_is_immediate(insn.op) ? fmt::format(" r{}, {:#x}", insn.dst, insn.imm)
                                           : fmt::format(" r{}, r{}", insn.dst, insn.src);
      if (is_jump(insn.op)) text += fmt::format(" -> {}", target);
    } else if (insn.op == Op::kNeg32 || insn.op == Op::kNeg64) {
      text += fmt::format(" r{}", insn.dst);
    } else if (insn.op >= Op::kLoad8 && insn.op <= Op::kLoad64) {
      text += fmt::format(" r{}, [r{}{:+}]", insn.dst, insn.src, insn.off);
    } else if (insn.op == Op::kStore32 || insn.op == Op::kStore64) {
      text += fmt::format(" [r{}{:+}], r{}", insn.dst, insn.off, insn.src);
    } else if (insn.op >= Op::kLdInd8 && insn.op <= Op::kLdInd32) {
      text += fmt::format(" r{}, r{} + {:#x}", insn.dst, insn.src, low(insn.imm));
    } else if (insn.op >= Op::kLdNear8 && insn.op <= Op::kLdNear32) {
      text += fmt::format(" r{}, r{} + {:#x} limit {}", insn.dst, insn.src, low(insn.imm), high(insn.imm));
    } else if (insn.op == Op::kLdMsh || (insn.op >= Op::kLdAbs8 && insn.op <= Op::kLdAbs32)) {
      text += fmt::format(" r{}, {} limit {}", insn.dst, low(insn.imm), high(insn.imm));
    } else if (insn.op == Op::kCall) {
      text += fmt::format(" helper {}, {:#x}", low(insn.imm), high(insn.imm));
    } else if (insn.op == Op::kSwitch) {
      for (const SwitchArm& arm : code.switches[insn.imm]) text += fmt::format(" {:#x} -> {}", arm.first, arm.target);
    } else if (insn.op == Op::kRetK) {
      text += fmt::format(" {:#x}", insn.imm);
    }
    text += '\n';
  }
  return text;
}

}  // namespace srun::bpf::isa
