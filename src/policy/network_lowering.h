#pragma once
// The network sections of a stack → rules on scalars, which calls are asked about, and the matcher that answers.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/policy_error.h"
#include "policy/stack.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

// A layer whose section restricts something.
bool restricts_network(const PolicyStack& stack);

// What a section says about system calls alone, as rules of its layer that come first: families and protocols (H13).
std::vector<Rule> network_layer_rules(const NetworkSection& section);

// What the guard layer gets on top: Check::kNetwork for each call that names an address, and refusals of what names one
// where nobody looks (fast open, source routes). Under --audit only the questions.
std::vector<Rule> network_rules(const PolicyStack& stack, bool audit);

// Fills `out.network` and the abstract-name scope of `out.landlock`.
[[nodiscard]] Result<void, PolicyError> lower_network(const PolicyStack& stack, const LoweringOptions& options,
                                                      VerdictTableBuilder& verdicts, Enforcement& out);

// The flag that allows `what` ("tcp:10.0.0.1:80"), tried on the stack; `binds`: for a bind or listen.
std::optional<std::string> suggested_network_fix(const PolicyStack& stack, const Verdict& verdict,
                                                 std::string_view what, bool binds);

}  // namespace srun::policy
