#include "supervisor/notification.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "kernel/remote_memory.h"
#include "supervisor/process_tree.h"

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)  // Linux 5.14
#endif

namespace srun::supervisor {
namespace {

UniqueFd pin(pid_t tid, const char* what) {
  std::array<char, 48> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/%s", tid, what);
  return UniqueFd(open(path.data(), O_PATH | O_CLOEXEC));
}

}  // namespace

bool Notification::valid() const {
  uint64_t copy = id;
  return ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &copy) == 0;
}

int Notification::read_string(uint64_t address, std::span<char> buffer, std::string_view& text) const {
  return kernel::read_string(tid, address, buffer, text);
}

int Notification::read(uint64_t address, std::span<std::byte> to) const {
  const ssize_t got = kernel::read_memory(tid, address, to);
  if (got < 0) return static_cast<int>(got);
  return static_cast<size_t>(got) == to.size() ? 0 : -EFAULT;
}

int Notification::write(uint64_t address, std::span<const std::byte> from) const {
  const ssize_t put = kernel::write_memory(tid, address, from);
  if (put < 0) return static_cast<int>(put);
  return static_cast<size_t>(put) == from.size() ? 0 : -EFAULT;
}

UniqueFd Notification::duplicate(int fd) const {
  // The thread's own descriptor table (PIDFD_THREAD, Linux 6.9). Before that a pidfd stands for a process, whose table
  // is that of all its threads but for CLONE_FILES games: then it is another socket, which is decided about and acted
  // on alike.
  if (const UniqueFd thread(static_cast<int>(syscall(SYS_pidfd_open, tid, O_EXCL))); thread)
    return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, thread.get(), fd, 0)));
  const std::optional<TaskStatus> status = task_status(tid);
  if (!status) {
    errno = ESRCH;
    return UniqueFd();
  }
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, status->tgid, 0)));
  if (!process) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

UniqueFd Notification::pin_descriptor(int fd) const {
  std::array<char, 24> name;
  std::snprintf(name.data(), name.size(), "fd/%d", fd);
  UniqueFd found = pin(tid, name.data());
  if (!found && errno == ENOENT) errno = EBADF;
  return found;
}

UniqueFd Notification::pin_working_directory() const { return pin(tid, "cwd"); }
UniqueFd Notification::pin_root() const { return pin(tid, "root"); }

int Notification::inject_and_answer(BorrowedFd fd, bool close_on_exec) const {
  seccomp_notif_addfd request{};
  request.id = id;
  request.flags = SECCOMP_ADDFD_FLAG_SEND;
  request.srcfd = static_cast<uint32_t>(fd.get());
  request.newfd_flags = close_on_exec ? O_CLOEXEC : 0;
  // The ioctl waits, interruptibly, until the task has taken the descriptor, but marks the notification as answered
  // with 0 before that (kernel/seccomp.c, seccomp_notify_addfd): interrupted, it would leave the task with descriptor 0
  // for an open that gave it none. So no signal of ours may come in between.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &request) >= 0 ? 0 : errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

bool Notification::send(const Answer& answer) const {
  seccomp_notif_resp response;
  std::memset(&response, 0, sizeof response);
  response.id = id;
  switch (answer.kind) {
    case Answer::Kind::kContinue:
      // The only CONTINUE of this program; answer.reason (answer.h) says why each is safe (I1).
      if (answer.reason != ContinueReason::kNone)
        response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      else
        response.error = -EPERM;
      break;
    case Answer::Kind::kErrno:
      response.error = static_cast<int32_t>(-answer.value);
      break;
    case Answer::Kind::kValue:
      response.val = answer.value;
      break;
    case Answer::Kind::kDone:
    case Answer::Kind::kLater:
      return true;
  }
  // ENOENT: the task died or took a signal after RECV; normal under load. EINPROGRESS can't be: nobody else answers.
  // After any other failure the task waits until the listener closes, and then gets ENOSYS: never "allow".
  return ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) == 0;
}

}  // namespace srun::supervisor
