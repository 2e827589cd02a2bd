// How long bpf_convert_filter (net/core/filter.c, Linux 6.18, x86-64 configuration) makes each classic instruction.
// Only lengths matter here: they decide whether a jump fits its 16-bit offset.
#include <limits>

#include "bpf/converter.h"
#include "bpf/opcodes.h"
#include "bpf/packet.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kPrologue = 3;        // A ^= A, X ^= X, R6 = R1
constexpr uint32_t kPacketPrologue = 4;  // R8 and R9, once anything loads from the packet
constexpr uint32_t kSlowLoad = 8;        // four arguments, the helper's call, its check
constexpr uint32_t kMshAround = 6;       // saving A, masking, shifting, swapping back

// convert_bpf_ld_abs.
uint32_t packet_load_length(const Instruction& insn, uint32_t size, bool indirect) {
  if (indirect) return kSlowLoad + (insn.k != 0 ? 1 : 0);
  const int32_t offset = static_cast<int32_t>(insn.k);
  if (offset < 0) return kSlowLoad;
  const uint32_t load = offset <= std::numeric_limits<int16_t>::max() ? 1 : 3;
  const uint32_t fast = 1 + (offset != 0 ? 1 : 0) + 1 + load + (size > 1 ? 1 : 0) + 1;
  return fast + kSlowLoad;
}

// convert_bpf_extensions.
uint32_t ancillary_length(Ancillary which) {
  switch (which) {
    case Ancillary::kProtocol:
    case Ancillary::kPacketType:
    case Ancillary::kVlanTpid:
      return 2;
    case Ancillary::kIfIndex:
    case Ancillary::kHardwareType:
    case Ancillary::kPayloadOffset:
    case Ancillary::kNetlinkAttribute:
    case Ancillary::kNestedNetlinkAttribute:
    case Ancillary::kCpu:
    case Ancillary::kRandom:
      return 4;
    case Ancillary::kVlanTagPresent:
      return 3;
    case Ancillary::kMark:
    case Ancillary::kQueue:
    case Ancillary::kRxHash:
    case Ancillary::kAluXorX:
    case Ancillary::kVlanTag:
      return 1;
  }
  return 1;
}

struct Length {
  uint32_t insns = 1;
  bool loads_packet = false;
};

Length converted_length(const Instruction& insn, Flavour flavour) {
  if (is_conditional_jump(insn.code)) {
    const bool by_k = (insn.code & 0x08) == 0;
    const uint32_t constant = by_k && static_cast<int32_t>(insn.k) < 0 ? 1 : 0;
    const bool jset = insn.code == kJsetK || insn.code == kJsetX;
    const bool one_jump = insn.jf == 0 || (insn.jt == 0 && !jset);
    return {constant + (one_jump ? 1u : 2u)};
  }
  switch (insn.code) {
    case kDivX:
    case kModX:
      return {5};
    case kRetK:
      return {2};
    case kLdxMsh:
      return {kMshAround + packet_load_length(insn, 1, false), true};
    case kLdIndW:
      return {packet_load_length(insn, 4, true), true};
    case kLdIndH:
      return {packet_load_length(insn, 2, true), true};
    case kLdIndB:
      return {packet_load_length(insn, 1, true), true};
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
      break;
    default:
      return {1};
  }
  if (flavour == Flavour::kSeccomp) return {1};
  if (insn.k >= kAncillaryBase) return {ancillary_length(static_cast<Ancillary>((insn.k - kAncillaryBase) / 4))};
  return {packet_load_length(insn, insn.code == kLdAbsW ? 4 : insn.code == kLdAbsH ? 2 : 1, false), true};
}

}  // namespace

std::string ConversionError::message() const {
  return "instruction " + std::to_string(instruction) + ": the kernel's converted jump does not fit 16 bits";
}

Result<uint32_t, ConversionError> kernel_converted_length(const Program& program) {
  const std::span<const Instruction> code = program.code();
  bool loads_packet = false;
  std::vector<uint32_t> begins{0};
  for (const Instruction& insn : code) {
    const Length length = converted_length(insn, program.flavour());
    begins.push_back(begins.back() + length.insns);
    loads_packet |= length.loads_packet;
  }
  const auto fits = [&](uint32_t pc, uint32_t distance, uint32_t position) {
    // BPF_EMIT_JMP: relative to the converted jump, which is the `position`-th of its group.
    return begins[pc + 1 + distance] - begins[pc] - 1 - position <= uint32_t{std::numeric_limits<int16_t>::max()};
  };
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    const Instruction& insn = code[pc];
    bool good = true;
    if (insn.code == kJa) {
      good = fits(pc, insn.k, 0);
    } else if (is_conditional_jump(insn.code)) {
      const uint32_t insns = begins[pc + 1] - begins[pc];
      const bool by_k = (insn.code & 0x08) == 0;
      const uint32_t first = by_k && static_cast<int32_t>(insn.k) < 0 ? 1 : 0;
      if (insns - first == 2) {
        good = fits(pc, insn.jt, first) && fits(pc, insn.jf, first + 1);
      } else {
        good = fits(pc, insn.jf == 0 ? insn.jt : insn.jf, first);
      }
    }
    if (!good) return failure(ConversionError{pc});
  }
  return begins.back() + kPrologue + (loads_packet ? kPacketPrologue : 0);
}

}  // namespace srun::bpf
