#include "supervisor/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace srun::supervisor {

TerminalState TerminalState::capture() {
  TerminalState state;
  UniqueFd tty(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!tty || tcgetattr(tty.get(), &state.settings_) != 0) return state;
  state.foreground_ = tcgetpgrp(tty.get());
  state.was_foreground_ = state.foreground_ == getpgrp();
  state.tty_ = std::move(tty);
  return state;
}

void TerminalState::restore() const {
  // A background job never owned the terminal, so there is nothing of ours to undo.
  if (!tty_ || !was_foreground_) return;
  const pid_t now = tcgetpgrp(tty_.get());
  if (now != foreground_ && now >= 0) {
    // The group that has it may be a shell of the caller's that took it back meanwhile: only a group that is empty, or
    // was made by the run and is therefore dead by now, is replaced.
    if (now == 0 || (kill(-now, 0) != 0 && errno == ESRCH))
      tcsetpgrp(tty_.get(), foreground_);
    else
      return;
  }
  termios current{};
  if (tcgetattr(tty_.get(), &current) == 0 && std::memcmp(&current, &settings_, sizeof current) != 0)
    tcsetattr(tty_.get(), TCSANOW, &settings_);
}

}  // namespace srun::supervisor
