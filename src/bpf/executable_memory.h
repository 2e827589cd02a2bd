#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace srun::bpf {

// Machine code in pages of its own. Written while the pages are writable and not executable, then made executable and
// not writable; never both at once. Owns the pages.
class ExecutableMemory {
 public:
  // Errors: mmap or mprotect refused (a host or an outer sandbox that forbids new code).
  static Result<ExecutableMemory> make(std::span<const uint8_t> code);

  ExecutableMemory(ExecutableMemory&& other) noexcept;
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept;
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;
  ~ExecutableMemory();

  const void* entry() const { return memory_; }
  size_t size() const { return size_; }

 private:
  ExecutableMemory(void* memory, size_t size) : memory_(memory), size_(size) {}
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace srun::bpf
