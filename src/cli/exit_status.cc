#include "cli/exit_status.h"

#include <sys/wait.h>

#include <cerrno>

namespace srun::cli {

int exit_status(const RunEnd& end, bool fail_on_denial) {
  if (end.killed_by_policy) return ExitCode::kKilledByPolicy;
  if (WIFSIGNALED(end.wait_status)) return ExitCode::kSignalBase + WTERMSIG(end.wait_status);
  if (fail_on_denial && end.denied) return ExitCode::kDenied;
  // Neither exited nor signalled (a stop): the caller asked too early, which must not look like success.
  if (!WIFEXITED(end.wait_status)) return ExitCode::kFailure;
  return WEXITSTATUS(end.wait_status);
}

int exec_failure_status(int error_number) {
  return error_number == ENOENT ? ExitCode::kNotFound : ExitCode::kNotExecutable;
}

}  // namespace srun::cli
