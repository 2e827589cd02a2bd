#pragma once
// Reading and writing another task's memory: hostile, changing under the reader, perhaps gone. Copies once; whoever
// decides something decides on the copy (pitfalls 5.1). No allocation; thread-safe.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace srun::kernel {

// process_vm_readv(2), or /proc/TID/mem where that is missing or refused (pitfalls 5.29). Bytes copied, fewer than
// asked for if unmapped memory follows; a negative errno if there is nothing: -EFAULT, -ESRCH, -EPERM.
ssize_t read_memory(pid_t tid, uint64_t address, std::span<std::byte> to);
ssize_t write_memory(pid_t tid, uint64_t address, std::span<const std::byte> from);

// A string as the kernel would read it for a path: up to its NUL, at most `buffer.size() - 1` bytes. Returns 0 and sets
// `text` (a view of `buffer`, which holds the NUL as well); -ENAMETOOLONG if no NUL is among the first buffer.size()
// bytes; -EFAULT, -ESRCH, -EPERM.
int read_string(pid_t tid, uint64_t address, std::span<char> buffer, std::string_view& text);

}  // namespace srun::kernel
