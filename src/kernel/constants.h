#pragma once
// Symbolic constants of the ABI that policies may name: O_*, AF_*, CLONE_*, errno names, signals, ioctl requests …
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernel/arch.h"

namespace srun::kernel {

struct Constant {
  std::string_view name;
  uint64_t value;  // as the x86-64 kernel ABI has it; negative ones (AT_FDCWD) sign-extended to 64 bits
};
// Sorted by name. Static storage.
std::span<const Constant> constants();
std::optional<uint64_t> find_constant(std::string_view name);
// As the kernel of that architecture has it: aarch64 has other bits for O_DIRECT, O_DIRECTORY, O_NOFOLLOW, O_LARGEFILE.
std::optional<uint64_t> find_constant(std::string_view name, Arch arch);

// errno by name ("EPERM" → 1) and back; signals ("SIGSYS" → 31).
std::optional<int> find_errno(std::string_view name);
std::optional<int> find_signal(std::string_view name);

}  // namespace srun::kernel
