#pragma once
// The files sections of a stack → which calls are asked about, the matcher that answers, and what the kernel enforces.
// Where kernel_files.h can't say a section exactly, every call that names or changes a file is served on behalf, and
// Landlock enforces what has no such form: executing (lists exactly; below them, around denied paths that are or hold
// programs at load), and the names of sockets.
#include "base/error.h"
#include "policy/enforcement.h"
#include "policy/kernel_files.h"
#include "policy/lowering_options.h"
#include "policy/model.h"
#include "policy/policy_error.h"
#include "policy/stack.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

bool restricts_files(const PolicyStack& stack);

// What the guard layer gets on top where files are restricted: Check::kFile for each call that names or changes a file,
// and refusals of what would go past that. `logs`: some entry records, so calls that only look are asked about as well.
// Under --audit only the questions. What the kernel enforces by itself is asked about only to name what it refuses.
std::vector<Rule> file_rules(const PolicyStack& stack, const KernelFiles& kernel, const LoweringOptions& options);

// Fills `out.files` and `out.landlock`. The layers are numbered as in out.layers: the guard is 0, stack.layers[i] is i
// + 1.
[[nodiscard]] Result<void, PolicyError> lower_files(const PolicyStack& stack,
                                                    const std::shared_ptr<const KernelFiles>& kernel,
                                                    const LoweringOptions& options, VerdictTableBuilder& verdicts,
                                                    Enforcement& out);

}  // namespace srun::policy
