#include "report/output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace srun::report {
namespace {

// write(2) on a pipe without a reader sends SIGPIPE to the writing thread. Ignoring it process-wide would be handed
// down to the target (case 65), so it is held back around the write and a new one is swallowed.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    // Cannot fail with these arguments; were it to, the write below would merely be unprotected.
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;
  ~SigpipeGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  void swallow() {
    if (was_pending_) return;
    const timespec now{0, 0};
    // EAGAIN: there was none, as when the caller ignores SIGPIPE.
    while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

bool tried_again(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

}  // namespace

Result<UniqueFd> open_output(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that nobody reads must fail (ENXIO) rather than wait for ever; on regular files it means
  // nothing.
  UniqueFd fd{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600)};
  if (fd) return fd;
  const int error_number = errno;
  std::string detail;
  if (error_number == ELOOP) detail = "it is a symbolic link, which is not followed; a descriptor is written fd:N";
  if (error_number == ENXIO) detail = "a FIFO without a reader";
  return errno_failure(error_number, "open", path, detail);
}

Result<UniqueFd> adopt_output(int fd) {
  const std::string subject = "fd:" + std::to_string(fd);
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno_failure(errno, "use", subject, "no such descriptor was inherited");
  // O_PATH descriptors report O_RDONLY access and cannot be written either.
  if ((flags & O_ACCMODE) == O_RDONLY) return errno_failure(EBADF, "use", subject, "it is not open for writing");
  UniqueFd copy{fcntl(fd, F_DUPFD_CLOEXEC, 3)};
  if (!copy) return errno_failure(errno, "fcntl(F_DUPFD_CLOEXEC)", subject);
  return copy;
}

OutputSink::OutputSink(UniqueFd fd, Batching batching, size_t limit)
    : fd_(std::move(fd)), batching_(batching), limit_(limit) {
  struct stat status {};
  if (fstat(fd_.get(), &status) == 0) {
    if (S_ISREG(status.st_mode)) kind_ = Kind::kFile;
    if (S_ISSOCK(status.st_mode)) kind_ = Kind::kSocket;
  }
}

void OutputSink::add(std::string_view line) {
  if (dead_ || queued_bytes() + line.size() > limit_) {
    ++lost_lines_;
    return;
  }
  buffer_ += line;
}

void OutputSink::add_last(std::string_view line) {
  if (dead_)
    ++lost_lines_;
  else
    buffer_ += line;
}

ssize_t OutputSink::write_once(std::string_view bytes) {
  if (kind_ == Kind::kSocket) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
  }
  if (kind_ == Kind::kFile) {
    const ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
    return done < 0 ? -errno : done;
  }
  SigpipeGuard guard;
  ssize_t done = -1;
  int error_number = 0;
  if (nowait_works_) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    // Pipes know RWF_NOWAIT since 6.4; offset -1 is "the current position". The flag belongs to this call: O_NONBLOCK
    // would change the open file description under everybody else who holds it.
    done = ::pwritev2(fd_.get(), &part, 1, -1, RWF_NOWAIT);
    error_number = done < 0 ? errno : 0;
    // Terminals and older pipes do not know the flag, some emulated kernels not the call.
    if (error_number == EOPNOTSUPP || error_number == EINVAL || error_number == ENOSYS) nowait_works_ = false;
  }
  if (!nowait_works_) {
    pollfd ready{fd_.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return -EAGAIN;
    // A pipe that polls writable has room for one page, a terminal for a few hundred bytes.
    done = ::write(fd_.get(), bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    error_number = done < 0 ? errno : 0;
  }
  if (error_number == EPIPE) guard.swallow();
  return done < 0 ? -error_number : done;
}

void OutputSink::flush() {
  while (!dead_ && written_ < buffer_.size()) {
    std::string_view rest = std::string_view(buffer_).substr(written_);
    if (batching_ == Batching::kLineByLine) rest = rest.substr(0, rest.find('\n') + 1);
    const ssize_t done = write_once(rest);
    if (done == -EINTR) continue;
    if (done == -EAGAIN) break;
    if (done < 0) {
      if (!failure_) failure_ = static_cast<int>(-done);
      if (tried_again(static_cast<int>(-done))) break;
      give_up();
      break;
    }
    written_ += static_cast<size_t>(done);
  }
  if (written_ == buffer_.size()) {
    buffer_.clear();
    written_ = 0;
  } else if (written_ > limit_ / 2) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
}

void OutputSink::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    flush();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (dead_ || queued_bytes() == 0) return;
    if (left.count() <= 0) break;
    pollfd ready{fd_.get(), POLLOUT, 0};
    // Woken at least every 20 ms: a full disk polls writable, and a pipe that others fill may do so for a moment.
    ::poll(&ready, 1, static_cast<int>(std::min<long long>(left.count(), 20)));
    if (failure_ && tried_again(*failure_)) ::poll(nullptr, 0, static_cast<int>(std::min<long long>(left.count(), 20)));
  }
  give_up();
}

void OutputSink::give_up() {
  dead_ = true;
  lost_lines_ +=
      static_cast<uint64_t>(std::count(buffer_.begin() + static_cast<std::ptrdiff_t>(written_), buffer_.end(), '\n'));
  buffer_.clear();
  written_ = 0;
}

std::optional<Error> OutputSink::take_failure() {
  if (!failure_ || failure_told_) return std::nullopt;
  failure_told_ = true;
  return Error::from_errno(*failure_, "write");
}

bool OutputSink::is_terminal() const { return isatty(fd_.get()) == 1; }

bool terminal_is_raw(BorrowedFd fd) {
  termios mode{};
  return tcgetattr(fd.get(), &mode) == 0 && (mode.c_lflag & static_cast<tcflag_t>(ICANON)) == 0;
}

}  // namespace srun::report
