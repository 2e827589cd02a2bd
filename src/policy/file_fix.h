#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "policy/enforcement.h"
#include "policy/stack.h"

namespace srun::policy {

// The same as suggested_fix() for a denial by a files section: one flag, or one change to one file, with which `access`
// to `path` (canonical) passes. Tried on the stack before it is named. `verdict` is the rule that refused.
std::optional<std::string> suggested_file_fix(const PolicyStack& stack, const Verdict& verdict, std::string_view path,
                                              FileAccess access);

}  // namespace srun::policy
