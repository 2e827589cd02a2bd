#pragma once
// The internal instruction set: what the interpreter and the JIT run. Its shape is that of the kernel's extended BPF:
// ten 64-bit registers and a read-only frame pointer, 32- and 64-bit arithmetic, jumps with one target and real
// fall-through, signed and unsigned compares, stack slots, calls of helpers. Unlike there, packet loads, with byte swap
// and bounds check, are one instruction, immediates have 64 bits, and a compare with many constants is one kSwitch.
//
// Code is made by the converter from a verified program and never comes from outside, so nothing here is verified
// again.
//
// Registers (bpf_convert_filter's map):
//   R0  A, and the result          R6  the context: const CallData* or const Packet*
//   R1  first scratch register     R7  X
//   R2..R5  free                   R8  packet bytes, R9 their number (packet flavour)
//   R10 frame pointer; M[k] is the 32-bit slot at R10 - 4k - 4
// On entry A = X = 0 and R6, R8, R9, R10 are set; the others are undefined. 32-bit operations clear the upper half of
// their destination. Shift counts are masked with 31 or 63. DIV and MOD by a register that is 0 end the program with
// result 0, and so does a packet load that fails.
#include <cstdint>
#include <string>
#include <vector>

#include "bpf/passes/flow_graph.h"

namespace srun::bpf::isa {

// The source of the *K forms is `imm`, of the *X forms the register `src`. Target of a jump: the following instruction
// plus `off`.
#define SRUN_ISA_ALU(OP) OP(Add) OP(Sub) OP(Mul) OP(Div) OP(Mod) OP(And) OP(Or) OP(Xor) OP(Lsh) OP(Rsh) OP(Arsh) OP(Mov)
#define SRUN_ISA_JUMP(OP) \
  OP(Jeq) OP(Jne) OP(Jgt) OP(Jge) OP(Jlt) OP(Jle) OP(Jsgt) OP(Jsge) OP(Jslt) OP(Jsle) OP(Jset) OP(Jnset)

#define SRUN_ISA_FOUR_FORMS(NAME) k##NAME##32K, k##NAME##32X, k##NAME##64K, k##NAME##64X,
enum class Op : uint16_t {
  SRUN_ISA_ALU(SRUN_ISA_FOUR_FORMS)   // dst = dst OP source
  SRUN_ISA_JUMP(SRUN_ISA_FOUR_FORMS)  // dst OP source; kJset: (dst & source) != 0, kJnset the opposite
  kNeg32,
  kNeg64,
  kJa,
  kLoad8,  // dst = memory at src + off, native byte order
  kLoad16,
  kLoad32,
  kLoad64,
  kStore32,  // memory at dst + off = src
  kStore64,
  kLdAbs8,  // dst = big-endian packet bytes at low(imm); fails if R9 < high(imm), 0 meaning that it cannot
  kLdAbs16,
  kLdAbs32,
  kLdInd8,  // dst = big-endian packet bytes at src + low(imm), modulo 2^32 and then signed; checked by itself
  kLdInd16,
  kLdInd32,
  kLdNear8,  // the same where src is small, so that nothing wraps; fails if R9 < src + high(imm), 0 as in kLdAbs8
  kLdNear16,
  kLdNear32,
  kLdMsh,   // dst = 4 * (byte & 15); operands as kLdAbs8
  kCall,    // R0 = helper low(imm) of the argument high(imm); R1..R5 become undefined; a failure ends with result 0
  kSwitch,  // R0's low half against switches[imm]
  kRetK,    // ends with result imm
  kRetA     // ends with result R0
};
#undef SRUN_ISA_FOUR_FORMS
inline constexpr int kOpCount = static_cast<int>(Op::kRetA) + 1;

enum Register : uint8_t { kR0, kR1, kR2, kR3, kR4, kR5, kR6, kR7, kR8, kR9, kR10 };
inline constexpr Register kA = kR0;
inline constexpr Register kX = kR7;
inline constexpr Register kContext = kR6;
inline constexpr Register kFrame = kR10;
inline constexpr uint32_t kFrameBytes = 4 * kScratchWords;

// What kCall may call. Each reads the packet at the argument, an offset as bpf/packet.h states it.
enum class Helper : uint32_t { kLoadNegative8, kLoadNegative16, kLoadNegative32 };
// The value, or -1 for a failed load.
int64_t call_helper(Helper helper, const void* context, uint32_t argument) noexcept;

struct Insn {
  Op op = Op::kRetK;
  uint8_t dst = 0;
  uint8_t src = 0;
  int32_t off = 0;
  uint64_t imm = 0;
  friend bool operator==(const Insn&, const Insn&) = default;
};
static_assert(sizeof(Insn) == 16);

constexpr uint64_t pack(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
constexpr uint32_t low(uint64_t imm) { return static_cast<uint32_t>(imm); }
constexpr uint32_t high(uint64_t imm) { return static_cast<uint32_t>(imm >> 32); }
constexpr int32_t slot_offset(uint32_t word) { return -4 * static_cast<int32_t>(word) - 4; }

// Hints, which an engine may follow all together or ignore. A packet load with `off` = 1: its result is only compared,
// by jumps that carry its width in bytes as `src` and that see no other value; load and compare may then both leave the
// bytes as they lie in the packet.
constexpr bool is_hinted(Op op) { return op >= Op::kJeq32K && op <= Op::kJnset32K && static_cast<int>(op) % 4 == 0; }
constexpr bool may_stay_unswapped(const Insn& insn) { return insn.off == 1; }
// The constant of a hinted jump for bytes that were not swapped.
constexpr uint32_t unswapped(const Insn& insn) {
  const uint32_t k = static_cast<uint32_t>(insn.imm);
  if (insn.src == 2) return (k >> 8 & 0xff) | (k & 0xff) << 8;
  return insn.src == 4 ? k >> 24 | (k >> 8 & 0xff00) | (k << 8 & 0xff0000) | k << 24 : k;
}

constexpr bool is_jump(Op op) { return (op >= Op::kJeq32K && op <= Op::kJnset64X) || op == Op::kJa; }
constexpr bool is_return(Op op) { return op == Op::kRetK || op == Op::kRetA; }

// `target` here is the number of an instruction.
struct Code {
  Flavour flavour = Flavour::kSeccomp;
  std::vector<Insn> insns;
  std::vector<SwitchArms> switches;
  bool reads_initial_a = true;  // false: A is written before it is read
  bool reads_initial_x = true;
};

// One line per instruction, for debugging and for tests that compare whole programs.
std::string to_text(const Code& code);

}  // namespace srun::bpf::isa
