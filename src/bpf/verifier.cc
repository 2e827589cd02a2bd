// bpf_check_classic and check_load_and_stores of net/core/filter.c, seccomp_check_filter of kernel/seccomp.c
// (Linux 6.18).
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bpf/opcodes.h"
#include "bpf/packet.h"
#include "bpf/program.h"

namespace srun::bpf {
namespace {

using Kind = VerifyError::Kind;

constexpr uint32_t kAncillaryLast = kAncillaryBase + 4 * (kAncillaryCount - 1);

// All known opcodes fit in a byte; the upper half of `code` must be 0.
using OpcodeSet = std::array<bool, 256>;

template <size_t N>
constexpr OpcodeSet opcode_set(const Opcode (&opcodes)[N], bool member, OpcodeSet set = {}) {
  for (const Opcode opcode : opcodes) set[opcode] = member;
  return set;
}

constexpr Opcode kPacketOpcodes[] = {kLdImm,  kLdxImm, kSt,   kStx,  kAddK,   kJa,     kRetK, kTax,    kAddX,   kSubK,
                                     kJeqK,   kRetA,   kSubX, kJeqX, kLdAbsW, kMulK,   kJgtK, kLdAbsH, kMulX,   kJgtX,
                                     kLdAbsB, kDivK,   kJgeK, kDivX, kJgeX,   kLdIndW, kOrK,  kJsetK,  kLdIndH, kOrX,
                                     kJsetX,  kLdIndB, kAndK, kAndX, kLdMem,  kLdxMem, kLshK, kLshX,   kRshK,   kRshX,
                                     kLdLen,  kLdxLen, kNeg,  kTxa,  kModK,   kModX,   kXorK, kXorX,   kLdxMsh};
constexpr Opcode kNotForSeccomp[] = {kLdAbsB, kLdAbsH, kLdIndB, kLdIndH, kLdIndW, kLdxMsh, kModK, kModX};

constexpr OpcodeSet kKnownToPacket = opcode_set(kPacketOpcodes, true);
constexpr OpcodeSet kKnownToSeccomp = opcode_set(kNotForSeccomp, false, kKnownToPacket);

bool contains(const OpcodeSet& set, uint16_t code) { return code < set.size() && set[code]; }

std::optional<Kind> check_one(const Instruction& insn, uint32_t pc, uint32_t length) {
  if (!contains(kKnownToPacket, insn.code)) return Kind::kOpcode;
  switch (insn.code) {
    case kDivK:
    case kModK:
      if (insn.k == 0) return Kind::kDivideByZero;
      break;
    case kLshK:
    case kRshK:
      if (insn.k >= 32) return Kind::kShift;
      break;
    case kLdMem:
    case kLdxMem:
    case kSt:
    case kStx:
      if (insn.k >= kScratchWords) return Kind::kScratchIndex;
      break;
    case kJa:
      // Compared with what is left, so that the sum cannot wrap.
      if (insn.k >= length - pc - 1) return Kind::kJump;
      break;
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
      if (insn.k >= kAncillaryBase && (insn.k > kAncillaryLast || insn.k % 4 != 0)) return Kind::kLoadOffset;
      break;
    default:
      if (is_conditional_jump(insn.code) && (pc + insn.jt + 1 >= length || pc + insn.jf + 1 >= length)) {
        return Kind::kJump;
      }
  }
  return std::nullopt;
}

// One forward pass with a mask of written words per instruction. It is not a data-flow analysis: RET does not reset the
// mask, and what follows a jump counts as having written everything unless something jumps there.
std::optional<uint32_t> first_uninitialised_read(std::span<const Instruction> code) {
  std::vector<uint16_t> written_before(code.size(), 0xffff);
  uint16_t written = 0;
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    const Instruction& insn = code[pc];
    written &= written_before[pc];
    if (insn.code == kSt || insn.code == kStx) {
      written = static_cast<uint16_t>(written | (1u << insn.k));
    } else if (insn.code == kLdMem || insn.code == kLdxMem) {
      if ((written & (1u << insn.k)) == 0) return pc;
    } else if (insn.code == kJa) {
      written_before[pc + 1 + insn.k] &= written;
      written = 0xffff;
    } else if (is_conditional_jump(insn.code)) {
      written_before[pc + 1 + insn.jt] &= written;
      written_before[pc + 1 + insn.jf] &= written;
      written = 0xffff;
    }
  }
  return std::nullopt;
}

std::optional<VerifyError> check_packet(std::span<const Instruction> code) {
  if (code.empty() || code.size() > kMaxInstructions) return VerifyError{Kind::kLength, 0};
  const uint32_t length = static_cast<uint32_t>(code.size());
  for (uint32_t pc = 0; pc < length; ++pc) {
    if (const std::optional<Kind> kind = check_one(code[pc], pc, length)) return VerifyError{*kind, pc};
  }
  if (!is_return(code.back().code)) return VerifyError{Kind::kNoReturn, length - 1};
  if (const std::optional<uint32_t> pc = first_uninitialised_read(code)) return VerifyError{Kind::kUninitialised, *pc};
  return std::nullopt;
}

std::optional<VerifyError> check_seccomp(std::span<const Instruction> code) {
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    if (!contains(kKnownToSeccomp, code[pc].code)) return VerifyError{Kind::kOpcode, pc};
    if (code[pc].code == kLdAbsW && (code[pc].k >= sizeof(CallData) || code[pc].k % 4 != 0)) {
      return VerifyError{Kind::kLoadOffset, pc};
    }
  }
  return std::nullopt;
}

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::kLength:
      return "a program has 1 to 4096 instructions";
    case Kind::kOpcode:
      return "unknown or forbidden opcode";
    case Kind::kDivideByZero:
      return "division by the constant 0";
    case Kind::kShift:
      return "constant shift of 32 or more";
    case Kind::kScratchIndex:
      return "scratch memory has 16 words";
    case Kind::kJump:
      return "jump out of the program";
    case Kind::kLoadOffset:
      return "load offset not allowed";
    case Kind::kNoReturn:
      return "the last instruction must return";
    case Kind::kUninitialised:
      return "scratch word read before it is written";
  }
  return "invalid";
}

}  // namespace

std::string VerifyError::message() const {
  return "instruction " + std::to_string(instruction) + ": " + kind_text(kind);
}

Result<Program, VerifyError> verify(std::span<const Instruction> code, Flavour flavour) {
  // The kernel's order: the packet rules first, for either flavour.
  std::optional<VerifyError> error = check_packet(code);
  if (!error && flavour == Flavour::kSeccomp) error = check_seccomp(code);
  if (error) return failure(*error);
  return Program(std::vector<Instruction>(code.begin(), code.end()), flavour);
}

}  // namespace srun::bpf
