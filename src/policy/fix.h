#pragma once
#include <optional>
#include <string>

#include "bpf/instruction.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/stack.h"

namespace srun::policy {

// One change to one file, or one option left out, with which the stack lets `call` pass: as text for the end of a
// denial line, starting with "to allow: " or, where a rule refuses it, "deliberate: ". Nullopt: no single change does.
// Every candidate is tried on the stack before it is named. `enforcement` is what lower(stack, options) made.
std::optional<std::string> suggested_fix(const PolicyStack& stack, const LoweringOptions& options,
                                         const Enforcement& enforcement, const bpf::CallData& call);

}  // namespace srun::policy
