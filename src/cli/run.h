#pragma once
// The steps of a run, one function each, in the order in which main() takes them.
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "kernel/features.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/stack.h"
#include "report/output.h"
#include "sandbox/launch_plan.h"

namespace srun::cli {

// What ends a run before or instead of the program: a message and the exit status.
struct RunError {
  std::string message;
  int status = ExitCode::kFailure;
};

// Everything opened before the launch, since nothing is opened by path after it (H14).
struct Outputs {
  UniqueFd standard_error;
  UniqueFd events;   // absent: not asked for
  UniqueFd denials;  // --denials-to FILE; absent: standard error
};

// The stack of policies that the options name, and the environment and the host it is lowered for.
struct Loaded {
  policy::PolicyStack stack;
  policy::LoweringOptions lowering;
  policy::Enforcement enforcement;
};

Result<Loaded, RunError> load(const Options& options, const kernel::Features& features);
Result<sandbox::LaunchPlan, RunError> plan_launch(const Options& options, const kernel::Features& features,
                                                  const policy::Enforcement& enforcement,
                                                  const std::vector<int>& inherited);
Result<Outputs, RunError> open_outputs(const Options& options);
// Everything from the fork of the guard to the exit status.
int supervise(const Options& options, const kernel::Features& features, const Loaded& loaded,
              const sandbox::LaunchPlan& plan, const std::vector<int>& inherited, Outputs outputs);

// The text of --check, with and without a program.
std::string check_text(const Options& options, const kernel::Features& features, const Loaded& loaded,
                       const std::optional<sandbox::LaunchPlan>& plan);
std::string host_check_text(const kernel::Features& features);

// One line on standard error: "sandbox-run: …".
void complain(const std::string& message);

}  // namespace srun::cli
