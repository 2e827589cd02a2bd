#pragma once
#include <sys/types.h>
#include <termios.h>

#include "base/unique_fd.h"

namespace srun::supervisor {

// The controlling terminal as it was at the start; restored at the end (I8), also when the program was killed in raw
// mode or left the foreground to a group that is gone (bubblewrap#147). Does nothing if there is none.
class TerminalState {
 public:
  static TerminalState capture();
  bool present() const { return static_cast<bool>(tty_); }
  // SIGTTOU must be blocked by the caller: it runs in a background group at that moment.
  void restore() const;

 private:
  UniqueFd tty_;
  termios settings_{};
  pid_t foreground_ = -1;
  bool was_foreground_ = false;
};

}  // namespace srun::supervisor
