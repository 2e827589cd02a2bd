#pragma once
#include <string>
#include <vector>

#include "policy/model.h"

namespace srun::policy {

// One line for each rule that refuses a call by name while a call that does the same stays allowed (H41): a deny of
// open without openat and creat keeps nothing from being opened.
std::vector<std::string> sibling_warnings(const Policy& policy);

}  // namespace srun::policy
