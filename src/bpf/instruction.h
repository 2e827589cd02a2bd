#pragma once
// The classic BPF instruction and the opcodes this project uses, as in <linux/filter.h> and <linux/bpf_common.h>.
#include <cstddef>
#include <cstdint>

namespace srun::bpf {

struct Instruction {  // same layout as struct sock_filter
  uint16_t code = 0;
  uint8_t jt = 0;
  uint8_t jf = 0;
  uint32_t k = 0;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};
static_assert(sizeof(Instruction) == 8);

inline constexpr size_t kMaxInstructions = 4096;  // BPF_MAXINSNS

// struct seccomp_data, 64 bytes, native byte order.
struct CallData {
  int32_t nr = 0;
  uint32_t arch = 0;
  uint64_t instruction_pointer = 0;
  uint64_t args[6] = {};
};
static_assert(sizeof(CallData) == 64);

// SECCOMP_RET_*: the action is the upper 16 bits, compared as signed; the lowest wins (bpf.md 1.5).
inline constexpr uint32_t kRetKillProcess = 0x80000000;
inline constexpr uint32_t kRetKillThread = 0x00000000;
inline constexpr uint32_t kRetTrap = 0x00030000;
inline constexpr uint32_t kRetErrno = 0x00050000;
inline constexpr uint32_t kRetUserNotif = 0x7fc00000;
inline constexpr uint32_t kRetTrace = 0x7ff00000;
inline constexpr uint32_t kRetLog = 0x7ffc0000;
inline constexpr uint32_t kRetAllow = 0x7fff0000;
inline constexpr uint32_t kRetActionMask = 0xffff0000;
inline constexpr uint32_t kRetDataMask = 0x0000ffff;

// True if return value `a` beats `b` under the kernel's order (ties are decided by the caller: the newest layer wins).
constexpr bool stricter(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a & kRetActionMask) < static_cast<int32_t>(b & kRetActionMask);
}

}  // namespace srun::bpf
