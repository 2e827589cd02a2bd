#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/enforcement.h"
#include "policy/kernel_files.h"
#include "policy/lowering_options.h"
#include "policy/policy_error.h"
#include "policy/stack.h"

namespace srun::policy {

// Policies → everything that is enforced, as data. Deterministic; looks at the file system only where files are
// restricted (kernel_files.h). Fails where a policy says what cannot be carried out: a guarded call allowed without its
// "unsafe" entry, an answer that a call cannot get, too many verdicts or instructions.
[[nodiscard]] Result<Enforcement, PolicyError> lower(const PolicyStack& stack, const LoweringOptions& options);

// The parts of the guard that this stack lifts: those that every policy of it in our own language lifts, since the
// strictest layer wins. A stack without one lifts nothing.
std::vector<std::string> lifted_parts(const PolicyStack& stack);

// The guard layer of a run under `stack`: guard_policy() and what the sections on files add. `kernel_files` gets what
// of those the kernel enforces; may be null.
Policy guard_layer(const PolicyStack& stack, const LoweringOptions& options, KernelFiles* kernel_files = nullptr);

}  // namespace srun::policy
