#pragma once
// A policy::LandlockPlan put into a ruleset. By the launching process, before the child exists.
#include "base/error.h"
#include "base/unique_fd.h"
#include "policy/landlock_plan.h"

namespace srun::sandbox {

// `scopes` are added to the plan's. Paths that do not exist are not granted.
[[nodiscard]] Result<UniqueFd> make_ruleset(const policy::LandlockPlan& plan, uint64_t scopes);

}  // namespace srun::sandbox
