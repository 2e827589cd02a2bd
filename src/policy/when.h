#pragma once
// Conditions on arguments: JSON → tests at the width at which the kernel reads the argument (pitfalls 5.13).
#include <span>
#include <vector>

#include "base/error.h"
#include "policy/json_document.h"
#include "policy/model.h"

namespace srun::policy {

// The `when` list of a rule for `calls`. A value that the argument can never have, an argument that a call does not
// have, calls whose argument has different widths, and conditions that exclude each other are errors.
[[nodiscard]] Result<std::vector<bpf::ArgTest>, PolicyError> parse_when(const Node& when,
                                                                        std::span<const RuleCall> calls);

// False if no six arguments pass all tests, so far as that can be told: exact for comparisons and lists; of masks only
// pairs that demand different values of one bit are found.
bool satisfiable(std::span<const bpf::ArgTest> tests);

}  // namespace srun::policy
