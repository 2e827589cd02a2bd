#pragma once
#include <array>
#include <cstdint>

#include "bpf/program.h"

namespace srun::bpf {

// Calls that the program allows whatever their arguments: the exact RET value 0x7fff0000|data, found by emulation.
// Our copy's constancy analysis; the kernel's own rule (bpf.md 1.6) is a separate function of the engine.
class AllowSet {
 public:
  static constexpr uint32_t kNumbers = 512;  // covers every assigned number; beyond it nothing is cached
  AllowSet() = default;
  AllowSet(const Program& program, uint32_t audit_arch);
  bool contains(uint32_t nr) const { return nr < kNumbers && ((bits_[nr / 64] >> (nr % 64)) & 1) != 0; }

 private:
  std::array<uint64_t, kNumbers / 64> bits_{};
};

// Per task: calls known to be allowed, keyed by the generation of the task's filter stack and the arch; cleared when
// either changes. Only argument-independent allows may enter. Not thread-safe: owned by the service thread.
class VerdictCache {
 public:
  // True only if `nr` was inserted under exactly this generation and arch since they last changed.
  bool known_allowed(uint64_t stack_generation, uint32_t audit_arch, uint32_t nr) const;
  void insert(uint64_t stack_generation, uint32_t audit_arch, uint32_t nr);
  void clear();

 private:
  uint64_t generation_ = 0;
  uint32_t arch_ = 0;
  std::array<uint64_t, AllowSet::kNumbers / 64> bits_{};
};

}  // namespace srun::bpf
