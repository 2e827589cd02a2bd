#pragma once
#include <optional>

#include "policy/oci.h"

namespace srun::policy {

// Fills `calls`, `newest_call` and notes from `rules` and `arch`. An error: rules that libseccomp refuses.
std::optional<PolicyError> resolve_oci(OciProfile& profile);

// Adds notes about what is legal and is regretted (reference case 4, moby/moby#40205).
void review_oci(OciProfile& profile);

}  // namespace srun::policy
