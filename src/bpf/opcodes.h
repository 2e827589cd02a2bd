#pragma once
// The 49 opcodes that the kernel's packet flavour knows, by the assembler names of <linux/bpf_common.h>: operation,
// then the source or the addressing mode. All 16 bits of `code` must equal one of them (bpf_check_classic,
// net/core/filter.c).
#include <cstdint>

namespace srun::bpf {

enum Opcode : uint16_t {
  kLdImm = 0x00,   // A = k
  kLdxImm = 0x01,  // X = k
  kSt = 0x02,      // M[k] = A
  kStx = 0x03,     // M[k] = X
  kAddK = 0x04,
  kJa = 0x05,    // pc += k
  kRetK = 0x06,  // result k
  kTax = 0x07,   // X = A
  kAddX = 0x0c,
  kSubK = 0x14,
  kJeqK = 0x15,  // pc += A == k ? jt : jf; comparisons are unsigned
  kRetA = 0x16,  // result A
  kSubX = 0x1c,
  kJeqX = 0x1d,
  kLdAbsW = 0x20,  // packet: big-endian word at k; seccomp: native word of seccomp_data at k
  kMulK = 0x24,
  kJgtK = 0x25,
  kLdAbsH = 0x28,
  kMulX = 0x2c,
  kJgtX = 0x2d,
  kLdAbsB = 0x30,
  kDivK = 0x34,
  kJgeK = 0x35,
  kDivX = 0x3c,  // X = 0 ends the program with result 0, also for kModX
  kJgeX = 0x3d,
  kLdIndW = 0x40,  // big-endian word at X + k, the sum wraps and is then read as signed
  kOrK = 0x44,
  kJsetK = 0x45,  // pc += (A & k) != 0 ? jt : jf
  kLdIndH = 0x48,
  kOrX = 0x4c,
  kJsetX = 0x4d,
  kLdIndB = 0x50,
  kAndK = 0x54,
  kAndX = 0x5c,
  kLdMem = 0x60,   // A = M[k]
  kLdxMem = 0x61,  // X = M[k]
  kLshK = 0x64,
  kLshX = 0x6c,  // the count is masked with 31, also for kRshX
  kRshK = 0x74,
  kRshX = 0x7c,
  kLdLen = 0x80,   // A = packet length; 64 under seccomp
  kLdxLen = 0x81,  // X = packet length; 64 under seccomp
  kNeg = 0x84,
  kTxa = 0x87,  // A = X
  kModK = 0x94,
  kModX = 0x9c,
  kXorK = 0xa4,
  kXorX = 0xac,
  kLdxMsh = 0xb1  // X = 4 * (byte[k] & 15)
};

inline constexpr uint32_t kScratchWords = 16;  // BPF_MEMWORDS

// True for the opcodes with two targets, jt and jf.
constexpr bool is_conditional_jump(uint16_t code) {
  switch (code) {
    case kJeqK:
    case kJeqX:
    case kJgtK:
    case kJgtX:
    case kJgeK:
    case kJgeX:
    case kJsetK:
    case kJsetX:
      return true;
    default:
      return false;
  }
}

constexpr bool is_return(uint16_t code) { return code == kRetK || code == kRetA; }

}  // namespace srun::bpf
