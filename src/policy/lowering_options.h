#pragma once
#include <cstdint>

#include "kernel/arch.h"

namespace srun::policy {

enum class Denials : uint8_t { kAuto, kAll, kNone };

// What this run and this host give the lowering.
struct LoweringOptions {
  kernel::Arch arch = kernel::kNativeArch;
  bool signal_scope = true;     // Landlock ABI 6: signals stay inside the domain
  bool landlock_domain = true;  // any domain: the kernel's ptrace access checks keep the target off outsiders
  int landlock_abi = 7;         // 0: none
  bool masks = false;           // a private mount namespace can be had, in which paths are covered (Linux 5.12)
  bool virtual_affinity = false;  // sched_*affinity is answered by the supervisor (leases, pinning)
  bool audit = false;           // --audit: only the guard layer is enforced
  Denials denials = Denials::kAuto;  // kNone: no refusal is notified for the report's sake
};

}  // namespace srun::policy
