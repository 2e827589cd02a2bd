#pragma once
// A system call as one readable text, from its scalars alone: what is behind a pointer is not looked at, since it may
// have changed since the decision. Pure; thread-safe.
#include <cstdint>
#include <string>

namespace srun::report {

// "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0)", "openat(AT_FDCWD, …, O_RDONLY)", "i386:ptrace(PTRACE_ATTACH, 4711,
// …)", "syscall_500(0x1, 0x2, 0x0, 0x0, 0x0, 0x0)" for a number that the table does not have. Pointers are "…" or NULL
// and several in a row at the end are told by a single "…"; zeros at the end that mean "none" are left out. Values are
// cut to the width at which the kernel reads them. ASCII but for "…".
std::string call_text(uint32_t audit_arch, uint32_t nr, const uint64_t (&args)[6]);

// "socket", "i386:ptrace", "x32:getpid", "syscall_500".
std::string call_name(uint32_t audit_arch, uint32_t nr);

// Equal for calls that a reader would call the same: call and symbolic arguments (flags, families, commands, signals),
// without process ids, descriptors, sizes and addresses, which a loop can change at will.
std::string call_identity(uint32_t audit_arch, uint32_t nr, const uint64_t (&args)[6]);

}  // namespace srun::report
