#pragma once
// A filter that stops only the traced calls (--seccomp-bpf): everything else runs at full speed.
#include "base/error.h"
#include "trace/filter.h"

namespace srun::trace {

// Installs it in the calling process, which must be about to execute the program and whose tracer has
// PTRACE_O_TRACESECCOMP and PTRACE_O_EXITKILL: without a tracer RET_TRACE answers ENOSYS, it never allows.
// Async-signal-safe. 0 or an errno. Sets no_new_privs where the caller lacks CAP_SYS_ADMIN.
int install_seccomp_stops(const CallSet& calls);

}  // namespace srun::trace
