#pragma once
// The front process. It forks the supervisor, and whichever of the two remains ends the whole tree (H3): both are
// subreapers and hold each other's pidfd. It stays in the caller's process group and is what the caller waits for,
// signals and stops; it serves no notification and parses nothing.
#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/unique_fd.h"
#include "supervisor/terminal.h"

namespace srun::supervisor {

// What guard and supervisor say to each other over a SOCK_SEQPACKET pair.
struct GuardMessage {
  enum class Kind : int32_t {
    kSignal,   // guard → supervisor: `value` arrived from process `sender`; pass it on to the program
    kStopped,  // supervisor → guard: the program was stopped; stop too, so that the caller's shell sees it
  } kind = Kind::kSignal;
  int32_t value = 0;
  int32_t sender = 0;
};

// The supervisor's end.
struct GuardLink {
  pid_t guard = -1;
  UniqueFd guard_pidfd;  // readable once the guard is dead
  UniqueFd socket;
  sigset_t caller_mask{};  // the mask to give to the program; everything is blocked here
};

// Lets go of the caller's pipes, which are the program's: standard input and output become /dev/null, `inherited` is
// closed. Otherwise a reader of the program's output would wait for the end of the run. Standard error stays, for
// denials.
void release_inherited(std::span<const int> inherited);

// Forks; `supervise` runs in the child, which exits with what it returns. Returns the exit status for the caller: the
// supervisor's, or `failure_status` with a line on standard error if it died. Must be called while single-threaded.
// `inherited` are released in the guard at once; the supervisor does it when the program has its own copies.
[[nodiscard]] Result<int> run_under_guard(const TerminalState& terminal, int failure_status,
                                          std::span<const int> inherited,
                                          const std::function<int(GuardLink)>& supervise);

}  // namespace srun::supervisor
