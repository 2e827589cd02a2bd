#pragma once
// What sandbox-run's own exit status says. No status is unambiguous (a program may exit with any of them), so whoever
// must know reads the last line of --events.

namespace srun::cli {

// The numbers of env(1), chroot(1), timeout(1) and docker-run(1) where they have one.
struct ExitCode {
  static constexpr int kDenied = 123;          // --fail-on-denial, and something was denied
  static constexpr int kLimit = 124;           // a limit ended the program
  static constexpr int kFailure = 125;         // sandbox-run itself failed; --failure-status replaces it
  static constexpr int kNotExecutable = 126;   // the program was found and could not be executed
  static constexpr int kNotFound = 127;        // the program was not found
  static constexpr int kSignalBase = 128;      // 128+N: it died of signal N
  static constexpr int kKilledByPolicy = 159;  // 128+SIGSYS, whichever signal the supervisor used (H33)
};

// How a run that reached the program ended.
struct RunEnd {
  int wait_status = 0;            // of the program, as waitpid(2) gives it; a stopped status is not an end
  bool killed_by_policy = false;  // the program itself, not only one of its children
  bool denied = false;            // anything was denied, or would have been under --audit; quiet rules do not count
};

// The status of sandbox-run after such a run. --fail-on-denial replaces any status that the program exited with, 0 or
// not, so that 123 can be relied upon; a death by signal or by the policy says more and stays.
int exit_status(const RunEnd& end, bool fail_on_denial);

// The status when execve(2) failed with `error_number`: 127 for ENOENT, else 126, as env(1) does. The file that is
// missing may be the interpreter of a script.
int exec_failure_status(int error_number);

}  // namespace srun::cli
