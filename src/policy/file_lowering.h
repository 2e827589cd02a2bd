#pragma once
// The files sections of a stack → which calls are asked about, the matcher that answers, and what Landlock adds. In this
// version every call that names or changes a file is served on behalf. Landlock enforces what has no such form: executing
// (lists exactly; below them, around denied paths that are or hold programs at load), and the names of sockets.
#include "base/error.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/model.h"
#include "policy/policy_error.h"
#include "policy/stack.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

bool restricts_files(const PolicyStack& stack);

// What the guard layer gets on top where files are restricted: Check::kFile for each call that names or changes a file, and
// refusals of what would go past that. `logs`: some entry records, so calls that only look are asked about as well.
// Under --audit only the questions.
std::vector<Rule> file_rules(const PolicyStack& stack, bool audit);

// Fills `out.files` and `out.landlock`. The layers are numbered as in out.layers: the guard is 0, stack.layers[i] is i + 1.
[[nodiscard]] Result<void, PolicyError> lower_files(const PolicyStack& stack, const LoweringOptions& options,
                                                    VerdictTableBuilder& verdicts, Enforcement& out);

}  // namespace srun::policy
