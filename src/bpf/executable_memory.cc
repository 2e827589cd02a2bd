#include "bpf/executable_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace srun::bpf {

Result<ExecutableMemory> ExecutableMemory::make(std::span<const uint8_t> code) {
  void* memory = ::mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_failure(errno, "mmap", "machine code");
  ExecutableMemory result(memory, code.size());
  std::memcpy(memory, code.data(), code.size());
  if (::mprotect(memory, code.size(), PROT_READ | PROT_EXEC) != 0) {
    return errno_failure(errno, "mprotect(PROT_EXEC)", "machine code");
  }
  return result;
}

ExecutableMemory::ExecutableMemory(ExecutableMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}

ExecutableMemory& ExecutableMemory::operator=(ExecutableMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

ExecutableMemory::~ExecutableMemory() {
  // Nothing can be done about a failure, and none is possible for a mapping of our own.
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

}  // namespace srun::bpf
