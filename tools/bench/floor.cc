#include "bench/floor.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/scope_exit.h"
#include "base/unique_fd.h"

// Newer than the headers of Debian 12 (Linux 6.1).
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

namespace srun::bench {
namespace {

constexpr uint64_t kSyncWakeUp = 1;  // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
// First argument of the looper's last getppid: the loop ends. RECV alone would block for ever on old kernels once the
// looper is gone.
constexpr uint64_t kLastCall = 0x6c617374;

Result<UniqueFd> install_listener() {
  sock_filter code[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getppid},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  sock_fprog program{4, code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_failure(errno, "prctl(PR_SET_NO_NEW_PRIVS)");
  for (const unsigned long flags :
       {SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_FILTER_FLAG_NEW_LISTENER}) {
    const long fd = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EINVAL) break;  // EINVAL: a kernel before 5.19 does not know the second flag
  }
  return errno_failure(errno, "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)");
}

union RightsBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// `error` is 0 with a descriptor, else an errno and no descriptor.
void send_descriptor(BorrowedFd socket, int error, BorrowedFd descriptor) {
  iovec data{&error, sizeof error};
  RightsBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = descriptor.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  // A failure shows at the other end as end of file.
  [[maybe_unused]] const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

Result<UniqueFd> receive_descriptor(BorrowedFd socket) {
  int error = EPIPE;
  iovec data{&error, sizeof error};
  RightsBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno_failure(errno, "recvmsg");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return errno_failure(error, "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

Result<void> pin(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  if (::sched_setaffinity(0, sizeof mask, &mask) != 0) return errno_failure(errno, "sched_setaffinity");
  return {};
}

[[noreturn]] void be_looper(const FloorPlan& floor, const LooperPlan& plan, BorrowedFd socket, BorrowedFd output) {
  if (floor.looper_cpu && !pin(*floor.looper_cpu)) ::_exit(1);
  {
    const Result<UniqueFd> listener = install_listener();
    if (!listener) {
      send_descriptor(socket, listener.error().code, BorrowedFd());
      ::_exit(1);
    }
    send_descriptor(socket, 0, listener->borrow());
    // Ours is closed here: the supervisor's end alone keeps the listener open.
  }
  const std::string line = to_line(loop(plan));
  const bool written = ::write(output.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::syscall(SYS_getppid, kLastCall);
  ::_exit(written ? 0 : 1);
}

Result<void> serve(BorrowedFd listener, FloorPlan::Answer answer) {
  seccomp_notif request;
  seccomp_notif_resp response;
  while (true) {
    std::memset(&request, 0, sizeof request);  // the kernel refuses a request that is not zeroed
    if (::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
      if (errno == EINTR) continue;
      if (errno == ENOENT) {
        // A signal took the question away, or the looper is gone without its last call: POLLHUP tells which.
        pollfd state{listener.get(), 0, 0};
        if (::poll(&state, 1, 0) == 1 && (state.revents & POLLHUP) != 0) {
          return failure(Error::from_text("serve the looper", "", "it died"));
        }
        continue;
      }
      return errno_failure(errno, "ioctl(SECCOMP_IOCTL_NOTIF_RECV)");
    }
    response = {};
    response.id = request.id;
    if (answer == FloorPlan::Answer::kContinue) {
      response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else {
      response.error = -ENOSYS;
    }
    if (::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) != 0 && errno != ENOENT) {
      return errno_failure(errno, "ioctl(SECCOMP_IOCTL_NOTIF_SEND)");
    }
    if (request.data.args[0] == kLastCall) return {};
  }
}

}  // namespace

Result<LooperFigures> run_floor(const FloorPlan& floor, const LooperPlan& looper) {
  int pair[2];
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return errno_failure(errno, "socketpair");
  const UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_failure(errno, "pipe2");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);

  cpu_set_t own_mask;
  if (::sched_getaffinity(0, sizeof own_mask, &own_mask) != 0) return errno_failure(errno, "sched_getaffinity");
  const pid_t child = ::fork();
  if (child < 0) return errno_failure(errno, "fork");
  if (child == 0) be_looper(floor, looper, theirs.borrow(), writer.borrow());
  const ScopeExit reap([&] {
    ::kill(child, SIGKILL);  // it has ended unless something failed
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    ::sched_setaffinity(0, sizeof own_mask, &own_mask);
  });
  theirs.reset();
  writer.reset();

  const Result<UniqueFd> listener = receive_descriptor(ours.borrow());
  if (!listener) return failure(listener.error());
  if (floor.sync_wake && ::ioctl(listener->get(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, kSyncWakeUp) != 0) {
    return errno_failure(errno, "ioctl(SECCOMP_IOCTL_NOTIF_SET_FLAGS)");
  }
  if (floor.supervisor_cpu) {
    if (Result<void> pinned = pin(*floor.supervisor_cpu); !pinned) return failure(pinned.error());
  }
  if (Result<void> served = serve(listener->borrow(), floor.answer); !served) return failure(served.error());
  char line[256] = {};
  if (::read(reader.get(), line, sizeof line - 1) <= 0) {
    return failure(Error::from_text("read the looper's figures", "", "it ended without any"));
  }
  return from_line(line);
}

}  // namespace srun::bench
