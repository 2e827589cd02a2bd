#include "supervisor/control_plane.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "kernel/sys.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

constexpr milliseconds kTick{20};  // how often the ring is drained while events come
constexpr int kIdleTicks = 10;     // then sleep until woken
constexpr uint64_t kGroupSignalNs = 200'000'000;

class AsioControlPlane final : public ControlPlane {
 public:
  AsioControlPlane(const ControlOptions& options, const GuardLink& guard, pid_t target, EventRing& ring,
                   UniqueFd signals, UniqueFd wake, UniqueFd guard_pidfd, UniqueFd guard_socket)
      : options_(options),
        guard_(guard.guard),
        target_(target),
        ring_(ring),
        wake_fd_(wake.get()),
        signals_(context_, signals.release()),
        wake_(context_, wake.release()),
        guard_pidfd_(context_, guard_pidfd.release()),
        guard_socket_(context_, guard_socket.release()),
        timer_(context_) {}

  BorrowedFd wake() const override { return BorrowedFd(wake_fd_); }

  RunResult run(ServiceLoop& service, const std::function<void()>& poke, const OnEvent& on_event,
                const OnTick& on_tick) override {
    service_ = &service;
    poke_ = poke;
    on_event_ = on_event;
    on_tick_ = on_tick;
    watch_signals();
    watch_wake();
    watch_guard();
    watch_guard_socket();
    arm_timer();
    reap();  // what ended before the watch began
    context_.run();

    // The tree is dead; what the service thread still has in hand comes with its end.
    for (useconds_t nap = 20; !service.finished(); nap = std::min<useconds_t>(2 * nap, 500)) {
      service.stop();
      poke_();
      ::usleep(nap);
      drain();
    }
    drain();
    on_tick_();
    return result_;
  }

 private:
  using Descriptor = asio::posix::stream_descriptor;

  void watch_signals() {
    signals_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error || ended_) return;
      read_signals();
      watch_signals();
    });
  }

  void read_signals() {
    bool child = false;
    signalfd_siginfo info{};
    while (::read(signals_.native_handle(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGCHLD)
        child = true;
      else
        direct_[info.ssi_signo % direct_.size()] = Direct{static_cast<int32_t>(info.ssi_pid), kernel::monotonic_ns()};
    }
    if (child) reap();
  }

  void watch_wake() {
    wake_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error || ended_) return;
      uint64_t count = 0;
      static_cast<void>(!::read(wake_fd_, &count, sizeof count));  // EAGAIN: a spurious wake-up
      drain();
      arm_timer();
      finish_if_done();
      if (!ended_) watch_wake();
    });
  }

  void watch_guard() {
    guard_pidfd_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error || ended_) return;
      result_.guard_died = true;
      end_tree();
    });
  }

  void watch_guard_socket() {
    guard_socket_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error || ended_) return;
      GuardMessage message;
      const ssize_t got = ::recv(guard_socket_.native_handle(), &message, sizeof message, MSG_DONTWAIT);
      if (got == 0) return;  // closed: the guard's pidfd says the rest
      if (got == static_cast<ssize_t>(sizeof message) && message.kind == GuardMessage::Kind::kSignal) pass_on(message);
      watch_guard_socket();
    });
  }

  // A signal that the guard got by kill(2). If this process, which is in the same group, got the same signal from the
  // same sender, it was sent to the group and the program has its copy already.
  void pass_on(const GuardMessage& message) {
    read_signals();
    const Direct& direct = direct_[static_cast<size_t>(message.value) % direct_.size()];
    if (message.value != SIGCONT && direct.sender == message.sender && direct.sender != 0 &&
        kernel::monotonic_ns() - direct.at_ns < kGroupSignalNs)
      return;
    if (!main_ended_) {
      ::kill(target_, message.value);  // our unreaped child: the number is its own
      return;
    }
    // --wait all after the program's end: the signal is for whoever is left, or nothing short of SIGKILL would end the
    // run.
    const Membership membership(::getpid(), guard_);
    for (const pid_t member : descendants(::getpid())) {
      const Result<UniqueFd> pidfd = kernel::pidfd_open(member);
      if (pidfd && membership.is_member(member))
        static_cast<void>(kernel::pidfd_send_signal(pidfd->borrow(), message.value));
    }
  }

  void reap() {
    while (true) {
      siginfo_t info{};
      // WNOWAIT first would cost a call; the number of the main process is remembered as ended instead.
      if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | __WALL) != 0) {
        if (errno == EINTR) continue;
        if (errno == ECHILD) no_children_ = true;
        break;
      }
      if (info.si_pid == 0) break;
      on_child(info);
    }
    if (main_ended_ && (!options_.wait_for_all || no_children_)) end_tree();
  }

  void on_child(const siginfo_t& info) {
    if (info.si_pid != target_) return;
    switch (info.si_code) {
      case CLD_EXITED:
        main_end(info.si_status << 8);
        break;
      case CLD_KILLED:
        main_end(info.si_status);
        break;
      case CLD_DUMPED:
        main_end(info.si_status | 0x80);
        break;
      case CLD_STOPPED: {
        const GuardMessage message{GuardMessage::Kind::kStopped, info.si_status, 0};
        static_cast<void>(::send(guard_socket_.native_handle(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT));
        break;
      }
      default:
        break;
    }
  }

  void main_end(int wait_status) {
    main_ended_ = true;
    result_.wait_status = wait_status;
  }

  // Kills and reaps whatever is left. The service thread goes on meanwhile, so that nobody hangs in a question.
  void end_tree() {
    if (tree_ended_) return;
    tree_ended_ = true;
    int status = 0;
    end_all(main_ended_ ? -1 : target_, &status);
    if (!main_ended_) main_end(status);
    finish_if_done();
    // Newer kernels tell the service thread that nobody is left; on older ones its RECV blocks for ever (bpf.md).
    if (!ended_) arm_timer();
  }

  void finish_if_done() {
    if (!tree_ended_ || ended_) return;
    ended_ = true;
    context_.stop();
  }

  void drain() {
    report::Event event;
    size_t count = 0;
    while (ring_.pop(event)) {
      on_event_(event);
      ++count;
    }
    if (count > 0) idle_ticks_ = 0;
  }

  void arm_timer() {
    if (timer_armed_ || ended_) return;
    timer_armed_ = true;
    timer_.expires_after(service_ != nullptr && service_->has_leases() ? milliseconds(2) : kTick);
    timer_.async_wait([this](const boost::system::error_code& error) {
      timer_armed_ = false;
      if (error || ended_) return;
      ++idle_ticks_;
      drain();
      if (on_tick_()) idle_ticks_ = 0;
      if (service_->has_leases() || (service_->wants_poke() && ++poke_ticks_ >= 6)) {
        poke_ticks_ = 0;
        poke_();
        idle_ticks_ = 0;
      }
      // Sleep when nothing comes. The wish is read after the announcement, so that the service thread either sees the
      // sleeper or is seen.
      const bool asleep = idle_ticks_ >= kIdleTicks && ring_.prepare_to_wait();
      if (asleep && !service_->wants_poke()) return;
      if (asleep) ring_.cancel_wait();
      arm_timer();
    });
  }

  struct Direct {
    int32_t sender = 0;
    uint64_t at_ns = 0;
  };

  ControlOptions options_;
  pid_t guard_;
  pid_t target_;
  EventRing& ring_;
  asio::io_context context_{1};
  int wake_fd_;
  Descriptor signals_;
  Descriptor wake_;
  Descriptor guard_pidfd_;
  Descriptor guard_socket_;
  asio::steady_timer timer_;
  ServiceLoop* service_ = nullptr;
  std::function<void()> poke_;
  OnEvent on_event_;
  OnTick on_tick_;
  RunResult result_;
  std::array<Direct, 65> direct_{};
  int idle_ticks_ = 0;
  int poke_ticks_ = 0;
  bool timer_armed_ = false;
  bool main_ended_ = false;
  bool no_children_ = false;
  bool tree_ended_ = false;
  bool ended_ = false;
};

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(const ControlOptions& options, const GuardLink& guard,
                                                           pid_t target, EventRing& ring) {
  sigset_t handled;
  sigfillset(&handled);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&handled, fault);
  UniqueFd signals(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return errno_failure(errno, "signalfd");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_failure(errno, "eventfd");
  // Asio owns what it watches: give it duplicates.
  UniqueFd pidfd(fcntl(guard.guard_pidfd.get(), F_DUPFD_CLOEXEC, 3));
  UniqueFd socket(fcntl(guard.socket.get(), F_DUPFD_CLOEXEC, 3));
  if (!pidfd || !socket) return errno_failure(errno, "fcntl(F_DUPFD_CLOEXEC)");
  try {
    return std::make_unique<AsioControlPlane>(options, guard, target, ring, std::move(signals), std::move(wake),
                                              std::move(pidfd), std::move(socket));
  } catch (const std::exception& error) {
    return failure(Error::from_text("control plane", "", error.what()));
  }
}

}  // namespace srun::supervisor
