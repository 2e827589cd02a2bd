#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/policy_error.h"
#include "policy/stack.h"

namespace srun::policy {

// Policies → everything that is enforced, as data. Deterministic, no system calls. Fails where a policy says what
// cannot be carried out: a guarded call allowed without its "unsafe" entry, an answer that a call cannot get, too many
// verdicts or instructions.
[[nodiscard]] Result<Enforcement, PolicyError> lower(const PolicyStack& stack, const LoweringOptions& options);

// The parts of the guard that this stack lifts: those that every policy of it in our own language lifts, since the
// strictest layer wins. A stack without one lifts nothing.
std::vector<std::string> lifted_parts(const PolicyStack& stack);

}  // namespace srun::policy
