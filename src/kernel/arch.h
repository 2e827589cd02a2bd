#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace srun::kernel {

// The processors the syscall table knows. x32 is not one of them: it is refused by number (bit 30), see kX32Bit.
enum class Arch : uint8_t { kX86_64, kI386, kAArch64 };
inline constexpr int kArchCount = 3;

// AUDIT_ARCH_* of <linux/audit.h>, the value of seccomp_data.arch.
inline constexpr uint32_t kAuditX86_64 = 0xc000003e;
inline constexpr uint32_t kAuditI386 = 0x40000003;
inline constexpr uint32_t kAuditAArch64 = 0xc00000b7;
inline constexpr uint32_t kX32Bit = 0x40000000;  // __X32_SYSCALL_BIT

constexpr uint32_t audit_arch(Arch arch) {
  return arch == Arch::kX86_64 ? kAuditX86_64 : arch == Arch::kI386 ? kAuditI386 : kAuditAArch64;
}
constexpr std::optional<Arch> arch_from_audit(uint32_t audit) {
  if (audit == kAuditX86_64) return Arch::kX86_64;
  if (audit == kAuditI386) return Arch::kI386;
  if (audit == kAuditAArch64) return Arch::kAArch64;
  return std::nullopt;
}
constexpr std::string_view arch_name(Arch arch) {
  return arch == Arch::kX86_64 ? "x86_64" : arch == Arch::kI386 ? "i386" : "aarch64";
}

#if defined(__x86_64__)
inline constexpr Arch kNativeArch = Arch::kX86_64;
#elif defined(__aarch64__)
inline constexpr Arch kNativeArch = Arch::kAArch64;
#else
#error "sandbox-run builds for x86-64 and aarch64"
#endif

}  // namespace srun::kernel
