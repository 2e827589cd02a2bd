#pragma once
// The seccomp filters of a running thread, as the kernel has them.
#include <sys/types.h>

#include <vector>

#include "base/error.h"
#include "bpf/instruction.h"

namespace srun::tool {

// Oldest first; empty: the thread has none. Stops the thread for as long as it takes (PTRACE_SEIZE, PTRACE_INTERRUPT,
// ptrace(2)) and lets it go on as it was. Errors name the remedy: the kernel wants CAP_SYS_ADMIN in the initial user
// namespace, a caller without filters of its own, and a thread that nobody traces.
[[nodiscard]] Result<std::vector<std::vector<bpf::Instruction>>> process_filters(pid_t tid);

// "sleep"; empty if there is no such process.
std::string process_name(pid_t tid);

}  // namespace srun::tool
