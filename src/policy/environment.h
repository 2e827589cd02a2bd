#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/enforcement.h"

namespace srun::policy {

// Patterns of variable names that carry keys and tokens: the group "@secrets" of the environment section.
std::span<const std::string_view> secret_variable_patterns();

// `*` is any run of characters, `?` one character; everything else is itself, case included.
bool matches_variable_pattern(std::string_view pattern, std::string_view name);

// The environment ("NAME=VALUE" each, order kept) after every layer's rules, in order. Entries without "=" are dropped
// where anything is restricted: no rule can name them. Pure.
std::vector<std::string> apply_environment(std::vector<std::string> environment,
                                           std::span<const EnvironmentRules> layers);

}  // namespace srun::policy
