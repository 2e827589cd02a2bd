#include "supervisor/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernel/sys.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

// A signal from the terminal (SI_KERNEL) went to the whole foreground group, so the program has its own copy. Only a
// session leader gets the hang-up alone.
bool is_for_the_program(const signalfd_siginfo& info) {
  switch (info.ssi_signo) {
    case SIGCHLD:
    case SIGPIPE:
    case SIGTTIN:
    case SIGTTOU:
      return false;
    case SIGCONT:
      return true;
    case SIGHUP:
      return info.ssi_code != SI_KERNEL || getsid(0) == getpid();
    default:
      return info.ssi_code != SI_KERNEL;
  }
}

class Guard {
 public:
  Guard(UniqueFd pidfd, UniqueFd socket, UniqueFd signals)
      : pidfd_(std::move(pidfd)), socket_(std::move(socket)), signals_(std::move(signals)) {}

  void loop() {
    pollfd entries[3] = {{pidfd_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    while (true) {
      if (poll(entries, 3, -1) < 0 && errno != EINTR) return;  // can't be; leaving kills the tree
      // The socket first: the supervisor's last word may still be in it.
      // Its end is readable too; while the dying supervisor is being taken apart nobody may spin on that.
      if (entries[2].revents != 0 && !on_message()) entries[2].fd = -1;
      if ((entries[1].revents & POLLIN) != 0) on_signal();
      if ((entries[0].revents & POLLIN) != 0) return;
    }
  }

 private:
  void on_signal() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    if (!is_for_the_program(info)) return;
    const GuardMessage message{GuardMessage::Kind::kSignal, static_cast<int32_t>(info.ssi_signo),
                               static_cast<int32_t>(info.ssi_pid)};
    // EAGAIN: hundreds of signals wait unread; like the kernel's own pending set, more of the same are one.
    static_cast<void>(send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  // False at the end: the supervisor is gone.
  bool on_message() {
    GuardMessage message;
    const ssize_t size = recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT);
    if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR);
    if (size != static_cast<ssize_t>(sizeof message)) return true;
    // SIGSTOP also for a program that stopped by SIGTSTP: ours is blocked, and the caller's shell treats both alike.
    if (message.kind == GuardMessage::Kind::kStopped) kill(getpid(), SIGSTOP);
    return true;
  }

  UniqueFd pidfd_;
  UniqueFd socket_;
  UniqueFd signals_;
};

}  // namespace

void release_inherited(std::span<const int> inherited) {
  const UniqueFd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return;  // out of descriptors or memory: the pipes then stay open until the end of the run
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) static_cast<void>(dup3(nothing.get(), fd, O_CLOEXEC));
  for (const int fd : inherited) close(fd);
}

Result<int> run_under_guard(const TerminalState& terminal, int failure_status, std::span<const int> inherited,
                            const std::function<int(GuardLink)>& supervise) {
  const std::vector<pid_t> strangers = own_children();
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return errno_failure(errno, "prctl(PR_SET_CHILD_SUBREAPER)");
  Result<UniqueFd> own_pidfd = kernel::pidfd_open(getpid());
  if (!own_pidfd) return failure(own_pidfd.error());
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return errno_failure(errno, "socketpair");
  UniqueFd guard_end(pair[0]);
  UniqueFd supervisor_end(pair[1]);

  sigset_t all;
  sigfillset(&all);
  // Faults of our own stay fatal.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, fault);
  sigset_t caller_mask;
  if (sigprocmask(SIG_BLOCK, &all, &caller_mask) != 0) return errno_failure(errno, "sigprocmask");
  // Not readable, traceable or openable by a program of the same user (H4); the child inherits it.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno_failure(errno, "prctl(PR_SET_DUMPABLE)");

  // Nothing buffered may be written twice.
  std::fflush(nullptr);
  const pid_t guard = getpid();
  const pid_t supervisor = fork();
  if (supervisor < 0) return errno_failure(errno, "fork");
  if (supervisor == 0) {
    guard_end.reset();
    // So that `pkill sandbox-run` reaches the guard, which passes the signal on, and not both (see control_plane.cc).
    prctl(PR_SET_NAME, "srun-supervisor", 0, 0, 0);
    int status = failure_status;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
      status = supervise(GuardLink{guard, std::move(*own_pidfd), std::move(supervisor_end), caller_mask});
    std::fflush(nullptr);
    _exit(status);
  }
  supervisor_end.reset();
  own_pidfd->reset();
  release_inherited(inherited);

  const auto end_everything = [&](const char* why) {
    kill(supervisor, SIGKILL);  // our unreaped child: its number can't have been reused
    while (waitpid(supervisor, nullptr, 0) < 0 && errno == EINTR) {
    }
    end_all_but(strangers);
    terminal.restore();
    return errno_failure(errno, why);
  };
  Result<UniqueFd> supervisor_pidfd = kernel::pidfd_open(supervisor);
  if (!supervisor_pidfd) return end_everything("watch the supervisor");
  UniqueFd signals(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return end_everything("signalfd");

  Guard(std::move(*supervisor_pidfd), std::move(guard_end), std::move(signals)).loop();

  int wait_status = 0;
  while (waitpid(supervisor, &wait_status, 0) < 0 && errno == EINTR) {
  }
  // Whatever the supervisor left is ours now. After an orderly end that is nothing.
  end_all_but(strangers);
  terminal.restore();
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  const std::string line = "sandbox-run: the supervisor was killed (signal " + std::to_string(WTERMSIG(wait_status)) +
                           "); everything that it ran was ended\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  return failure_status;
}

}  // namespace srun::supervisor
