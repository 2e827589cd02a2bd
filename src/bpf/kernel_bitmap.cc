#include "bpf/kernel_bitmap.h"

#include <algorithm>

#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

void clear_unless_allowed(std::vector<bool>& bits, const Program& filter, const KernelBitmapRules& rules,
                          uint32_t audit_arch) {
  for (uint32_t nr = 0; nr < bits.size(); ++nr) {
    if (bits[nr] && !kernel_sees_allow(filter.code(), rules, audit_arch, nr)) bits[nr] = false;
  }
}

}  // namespace

bool kernel_sees_allow(std::span<const Instruction> code, const KernelBitmapRules& rules, uint32_t audit_arch,
                       uint32_t nr) {
  if (audit_arch == rules.native_arch &&
      std::find(rules.always_pass.begin(), rules.always_pass.end(), nr) != rules.always_pass.end()) {
    return true;
  }
  uint32_t a = 0;
  for (size_t pc = 0; pc < code.size(); ++pc) {
    const Instruction& insn = code[pc];
    switch (insn.code) {
      case kLdAbsW:
        if (insn.k == 0) {
          a = nr;
        } else if (insn.k == 4) {
          a = audit_arch;
        } else {
          return false;
        }
        break;
      case kRetK:
        return insn.k == kRetAllow;
      case kJa:
        pc += insn.k;
        break;
      case kJeqK:
        pc += a == insn.k ? insn.jt : insn.jf;
        break;
      case kJgeK:
        pc += a >= insn.k ? insn.jt : insn.jf;
        break;
      case kJgtK:
        pc += a > insn.k ? insn.jt : insn.jf;
        break;
      case kJsetK:
        pc += (a & insn.k) != 0 ? insn.jt : insn.jf;
        break;
      case kAndK:
        a &= insn.k;
        break;
      default:
        return false;
    }
  }
  return false;
}

KernelBitmap::KernelBitmap(KernelBitmapRules rules)
    : rules_(std::move(rules)), native_(rules_.native_numbers, true), compat_(rules_.compat_numbers, true) {}

void KernelBitmap::push(const Program& filter) {
  clear_unless_allowed(native_, filter, rules_, rules_.native_arch);
  clear_unless_allowed(compat_, filter, rules_, rules_.compat_arch);
}

bool KernelBitmap::passes(uint32_t audit_arch, uint32_t nr) const {
  if (audit_arch == rules_.native_arch) return nr < native_.size() && native_[nr];
  if (rules_.compat_arch != 0 && audit_arch == rules_.compat_arch) return nr < compat_.size() && compat_[nr];
  return false;
}

}  // namespace srun::bpf
