#include "kernel/remote_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"

namespace srun::kernel {
namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kFirstRead = 256;  // most paths are shorter

UniqueFd open_memory(pid_t tid, int mode) {
  std::array<char, 32> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/mem", tid);
  return UniqueFd(open(path.data(), mode | O_CLOEXEC));
}

// Container profiles refuse process_vm_* with EPERM or ENOSYS; a real EPERM is found again by the other way.
bool try_file(int error) { return error == ENOSYS || error == EPERM; }

}  // namespace

ssize_t read_memory(pid_t tid, uint64_t address, std::span<std::byte> to) {
  const iovec local{to.data(), to.size()};
  const iovec remote{reinterpret_cast<void*>(address), to.size()};
  const ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
  if (got >= 0) return got;
  if (!try_file(errno)) return -errno;
  const UniqueFd memory = open_memory(tid, O_RDONLY);
  if (!memory) return errno == ENOENT ? -ESRCH : -EPERM;
  const ssize_t bytes = pread(memory.get(), to.data(), to.size(), static_cast<off_t>(address));
  if (bytes < 0) return errno == EIO ? -EFAULT : -errno;
  return bytes == 0 && !to.empty() ? -ESRCH : bytes;  // an address space that is gone reads as empty
}

ssize_t write_memory(pid_t tid, uint64_t address, std::span<const std::byte> from) {
  const iovec local{const_cast<std::byte*>(from.data()), from.size()};
  const iovec remote{reinterpret_cast<void*>(address), from.size()};
  const ssize_t put = process_vm_writev(tid, &local, 1, &remote, 1, 0);
  if (put >= 0) return put;
  // Never by /proc/TID/mem: that writes to read-only pages too, which no system call of the target would (FOLL_FORCE).
  return -errno;
}

int read_string(pid_t tid, uint64_t address, std::span<char> buffer, std::string_view& text) {
  size_t length = 0;
  while (length < buffer.size()) {
    const uint64_t at = address + length;
    // Never across a page in one read: what follows the string may be unmapped.
    const size_t limit = length == 0 ? kFirstRead : kPage;
    const size_t size = std::min<uint64_t>({buffer.size() - length, kPage - at % kPage, limit});
    const ssize_t got = read_memory(tid, at, std::as_writable_bytes(buffer.subspan(length, size)));
    if (got <= 0) return got == 0 ? -EFAULT : static_cast<int>(got);
    const void* const end = std::memchr(buffer.data() + length, 0, static_cast<size_t>(got));
    if (end != nullptr) {
      text = std::string_view(buffer.data(), static_cast<size_t>(static_cast<const char*>(end) - buffer.data()));
      return 0;
    }
    length += static_cast<size_t>(got);
  }
  return -ENAMETOOLONG;
}

}  // namespace srun::kernel
