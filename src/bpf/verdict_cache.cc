#include "bpf/verdict_cache.h"

#include <algorithm>

#include "bpf/constancy.h"

namespace srun::bpf {

AllowSet::AllowSet(const Program& program, uint32_t audit_arch) {
  for (const ConstancyRange& range : find_constant_calls(program, audit_arch)) {
    if (!range.always_allow) continue;
    for (uint32_t nr = range.first; nr <= range.last && nr < kNumbers; ++nr) bits_[nr / 64] |= uint64_t{1} << (nr % 64);
  }
}

bool VerdictCache::known_allowed(uint64_t stack_generation, uint32_t audit_arch, uint32_t nr) const {
  if (stack_generation != generation_ || audit_arch != arch_ || nr >= AllowSet::kNumbers) return false;
  return ((bits_[nr / 64] >> (nr % 64)) & 1) != 0;
}

void VerdictCache::insert(uint64_t stack_generation, uint32_t audit_arch, uint32_t nr) {
  if (stack_generation != generation_ || audit_arch != arch_) {
    clear();
    generation_ = stack_generation;
    arch_ = audit_arch;
  }
  if (nr < AllowSet::kNumbers) bits_[nr / 64] |= uint64_t{1} << (nr % 64);
}

void VerdictCache::clear() { bits_.fill(0); }

}  // namespace srun::bpf
