#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/lowering_options.h"
#include "policy/model.h"
#include "policy/policy_error.h"

namespace srun::policy {

// A rule that allows by name what the guard refuses whenever the rule matches is an error, unless the policy lifts that
// part (H6). Calls that a group brings along stay closed without a word. Where lifting would not help (clone3, what
// protects the supervisor on this host) a note says that the call stays closed.
[[nodiscard]] Result<void, PolicyError> check_guard_conflicts(const Policy& policy, const LoweringOptions& options,
                                                              std::vector<std::string>& notes);

}  // namespace srun::policy
