#pragma once
// The kernel's own allow bitmap (5.11+, kernel/seccomp.c: seccomp_cache_prepare), modelled exactly: which calls does it
// let pass without running a filter? Tells the cost of a call, never the verdict: our own analysis is constancy.h.
#include <cstdint>
#include <span>
#include <vector>

#include "bpf/program.h"

namespace srun::bpf {

// The kernel and processor that run the filters. Numbers at or above the counts, x32 numbers and any other arch are
// never in the bitmap.
struct KernelBitmapRules {
  uint32_t native_arch = 0;
  uint32_t native_numbers = 0;  // NR_syscalls
  uint32_t compat_arch = 0;     // 0: the kernel has none
  uint32_t compat_numbers = 0;  // IA32_NR_syscalls
  // Native numbers that pass whatever the filters say. x86-64 since 6.14 (and in stable kernels): 335, uretprobe;
  // later also 336, uprobe. So a filter cannot refuse them there.
  std::vector<uint32_t> always_pass;
};

// seccomp_is_const_allow: does the kernel's emulator see that `code` allows this call whatever its arguments?
bool kernel_sees_allow(std::span<const Instruction> code, const KernelBitmapRules& rules, uint32_t audit_arch,
                       uint32_t nr);

// The bitmap of a stack of filters. A filter can only clear bits of the one that it was put upon.
class KernelBitmap {
 public:
  explicit KernelBitmap(KernelBitmapRules rules);  // no filter yet: every bit is set
  void push(const Program& filter);
  // True if the kernel lets the call pass without running a filter.
  bool passes(uint32_t audit_arch, uint32_t nr) const;

 private:
  KernelBitmapRules rules_;
  std::vector<bool> native_;
  std::vector<bool> compat_;
};

}  // namespace srun::bpf
