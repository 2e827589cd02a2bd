#pragma once
// What happens to calls that no rule of a layer in our language matches.
#include "kernel/syscall_table.h"
#include "policy/model.h"

namespace srun::policy {

// Calls whose callers fall back on ENOSYS and on nothing else: they get it where `default` refuses by errno (H22).
// nullptr is a number that the table does not know, newer or a hole.
bool answers_enosys_by_default(const kernel::Syscall* call);

// exit, exit_group, rt_sigreturn, restart_syscall: a process that cannot do these cannot even fail (pitfalls 5.28).
bool untouched_by_default(const kernel::Syscall& call);

// True if a policy without `syscalls` allows the call: it is in @baseline.
bool in_baseline(const kernel::Syscall& call);

// The verdict of `policy` for a call that none of its rules matches.
Verdict default_verdict(const Policy& policy, uint16_t layer, const kernel::Syscall* call);

}  // namespace srun::policy
