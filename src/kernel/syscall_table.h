#pragma once
// The one table of system calls: number per architecture, name, argument kinds and widths, groups. Complete up to
// Linux 6.18. Everything that needs a number, a name, an argument's width or a group takes it from here; adding a call
// is adding a row (src/kernel/syscalls.def).
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernel/arch.h"

namespace srun::kernel {

// At which width the kernel reads an argument. int-typed arguments are cut to 32 bits before use, so a rule that
// compares more is a bypass or a false refusal (pitfalls 5.13).
enum class Width : uint8_t { kU32, kS32, kU64, kS64 };

// What an argument is: selects the decoder, and tells which calls carry paths, descriptors, addresses.
enum class ArgKind : uint16_t {
#define SRUN_ARG_KIND(name, width) name,
#include "kernel/arg_kinds.def"
#undef SRUN_ARG_KIND
};
Width default_width(ArgKind kind);

struct ArgSpec {
  ArgKind kind;
  Width width;
};
struct ArgList {
  uint8_t count;
  std::array<ArgSpec, 6> args;  // meaningless from `count` on
};
// The bits that decide what the kernel does; a rule must ignore the others or it can be bypassed with them. Usually the
// width, but 16 bits for file modes (umode_t), i386's old user and group ids, and the operation of i386's ipc().
uint64_t significant_bits(ArgSpec argument);

struct Syscall {
  std::string_view name;
  std::array<int16_t, kArchCount> numbers;  // indexed by Arch; -1: this architecture does not have it
  uint8_t arg_count;  // here and in `args`: as on x86-64 (i386 where only that has the call); see arguments()
  std::array<ArgSpec, 6> args;
  uint64_t groups;  // ask in_group() and never_notified()

  std::optional<uint32_t> number(Arch arch) const {
    const int16_t nr = numbers[static_cast<size_t>(arch)];
    return nr < 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(nr));
  }
};

// The arguments on one architecture. i386 reads each at 32 bits and has its own forms of some calls (mmap, clone,
// 64-bit positions in two halves, 16-bit ids); aarch64 orders clone's differently.
ArgList arguments(const Syscall& call, Arch arch);

// All rows, sorted by name. Static storage.
std::span<const Syscall> syscalls();
// nullptr if no architecture of the table has a call of that name.
const Syscall* find_syscall(std::string_view name);
// nullptr if the number is not assigned there. O(1).
const Syscall* find_syscall(Arch arch, uint32_t nr);
// The first number that is not in the table because it is newer (6.18: 470 on x86-64; the uretprobe/uprobe numbers do
// not count).
uint32_t first_unknown_number(Arch arch);

// Groups carry systemd's names ("@file-system") and ours ("@baseline"); `name` includes the "@".
struct Group {
  std::string_view name;
  std::string_view description;
};
std::span<const Group> groups();
std::optional<size_t> find_group(std::string_view name);
bool in_group(const Syscall& call, size_t group);

// Calls that must never be notified because nobody retries them when a signal takes the question away (H19): close,
// dup*, the fork family, exit*, rt_sigreturn, restart_syscall, set*id.
bool never_notified(const Syscall& call);

}  // namespace srun::kernel
