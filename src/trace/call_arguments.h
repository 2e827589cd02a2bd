#pragma once
// What the tracer needs to know or change about one stopped task. No state; errors are booleans because the only cause
// is that the task is gone.
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/call.h"

namespace srun::trace {

// Fork family and sched_*affinity.
bool changes_affinity(std::string_view call);
// Replaces the number of the call that the task is entering.
bool set_call_number(pid_t tid, int64_t number);
// Replaces the result of the call that it is leaving; a negative errno for an error.
bool set_call_result(pid_t tid, int64_t result);
pid_t thread_group(pid_t tid);
// System CPU time of the thread since the last question, in nanoseconds; `last` is that state.
uint64_t call_cpu_ns(pid_t tid, uint64_t& last);
// Whether a path argument or the target of a descriptor argument is one of `paths` (as strace's -P compares: text and
// targets), or lies below one of `prefixes` once made absolute against the descriptor or directory it starts from.
bool call_touches(const Call& call, const std::vector<std::string>& paths, const std::vector<std::string>& prefixes);

}  // namespace srun::trace
