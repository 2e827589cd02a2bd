#pragma once
// The names that a policy may use, and the nearest one to a name that it may not.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/json_document.h"
#include "policy/model.h"

namespace srun::policy {

std::string nearest_call(std::string_view name);   // calls only
std::string nearest_group(std::string_view name);  // with the "@"
std::string nearest_constant(std::string_view name);
std::string nearest_errno(std::string_view name);

struct NamedCalls {
  std::vector<RuleCall> calls;
  std::vector<std::string> warnings;  // names that no architecture has, in a rule that grants
  bool elsewhere = false;             // some name is a call of an architecture that the table does not have
};

// The `names` of a rule: calls, groups ("@file-system"), and names taken out of what stands before them ("!ptrace",
// "!@clock"). An unknown name is an error, except in a rule that grants (allow, log): there it is a warning, because a
// newer program may know calls that this one does not (reference case 8). A call of another architecture is silent.
// Errors: not an array of strings, an empty list or name, "!" that takes nothing out, nothing left.
[[nodiscard]] Result<NamedCalls, PolicyError> resolve_names(const Node& names, bool grants);

// A number as a policy writes it: a JSON integer, "0x…", decimal text, or constants joined with "|" ("O_RDWR|O_CREAT").
struct PolicyNumber {
  uint64_t bits = 0;      // two's complement
  bool negative = false;  // written as or standing for a negative number (AT_FDCWD)
};
[[nodiscard]] Result<PolicyNumber, PolicyError> parse_number(const Node& node);

}  // namespace srun::policy
