// sandbox-run: parse → load → lower → launch → supervise → report.
#include <sys/auxv.h>

#include <cstdio>
#include <exception>

#include "base/log.h"
#include "cli/options.h"
#include "cli/run.h"
#include "kernel/features.h"
#include "sandbox/descriptors.h"

namespace {

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : srun::cli::ExitCode::kFailure;
}

template <typename Error>
int refuse(const Error& error, int status) {
  srun::cli::complain(error);
  return status;
}

int run(int argc, char** argv) {
  using namespace srun;
  // A set-user-id sandbox-run would load the caller's policies with somebody else's rights (pitfalls 5.34).
  if (getauxval(AT_SECURE) != 0)
    return refuse(std::string("refuses to run set-user-id, set-group-id or with file capabilities"),
                  cli::ExitCode::kFailure);
  // Before anything is opened: what we inherited is either the program's or nobody's.
  const Result<std::vector<int>> inherited = sandbox::take_inherited_descriptors();
  if (!inherited) return refuse(inherited.error().message(), cli::ExitCode::kFailure);

  const Result<cli::Options, cli::UsageError> options = cli::parse_options(argc, argv);
  if (!options) return refuse(options.error().message, options.error().status);
  if (options->mode == cli::Mode::kHelp) return print(std::string(cli::help_text()));
  if (options->mode == cli::Mode::kVersion) return print(cli::version_text());
  if (options->debug) enable_debug_log();

  const Result<kernel::Features> features = kernel::probe_features(options->pretend_missing);
  if (!features) return refuse(features.error().message(), options->failure_status);
  if (options->mode == cli::Mode::kCheckHost) return print(cli::host_check_text(*features));

  const Result<cli::Loaded, cli::RunError> loaded = cli::load(*options, *features);
  if (!loaded) return refuse(loaded.error().message, loaded.error().status);

  std::optional<sandbox::LaunchPlan> plan;
  if (!options->program.empty()) {
    Result<sandbox::LaunchPlan, cli::RunError> made =
        cli::plan_launch(*options, *features, loaded->enforcement, *inherited);
    if (!made) return refuse(made.error().message, made.error().status);
    plan = std::move(*made);
  }
  if (options->mode == cli::Mode::kCheck) return print(cli::check_text(*options, *features, *loaded, plan));

  Result<cli::Outputs, cli::RunError> outputs = cli::open_outputs(*options);
  if (!outputs) return refuse(outputs.error().message, outputs.error().status);
  return cli::supervise(*options, *features, *loaded, *plan, *inherited, std::move(*outputs));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    // Only memory and the standard library throw here; the guard is not running yet, so nothing is left behind.
    srun::cli::complain(error.what());
    return srun::cli::ExitCode::kFailure;
  }
}
