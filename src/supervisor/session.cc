#include "supervisor/session.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <thread>

#include "base/scope_exit.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

// Interrupts a blocked RECV. The handler is empty and without SA_RESTART: EINTR is the message.
void interrupt(int) {}

// True once the program's descriptor table is no longer ours, which it is until its execve (H24): the listener, which
// is close-on-exec, has then gone from it. A program that can't be looked at (set-user-id, unreadable) never says so.
bool has_own_descriptors(pid_t target, BorrowedFd listener) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", target, listener.get());
  char ignored;
  return readlink(path.data(), &ignored, 1) < 0 && errno == ENOENT;
}

}  // namespace

Result<SessionResult> run_session(const policy::Enforcement& enforcement, const SessionOptions& options,
                                  const GuardLink& guard, Target target, const ControlPlane::OnEvent& on_event,
                                  const std::function<void()>& on_tick) {
  // However this function ends, nothing of the run outlives it (I2).
  const ScopeExit end_tree([] { end_all(); });
  EventRing ring;
  Result<std::unique_ptr<ControlPlane>> control = ControlPlane::create(options.control, guard, target.pid, ring);
  if (!control) return failure(control.error());
  ServiceLoop loop(enforcement, options.service, target.listener.borrow(), (*control)->wake(),
                   Membership(getpid(), guard.guard), ring);

  const int poke_signal = SIGRTMAX;
  struct sigaction action {};
  action.sa_handler = interrupt;
  if (sigaction(poke_signal, &action, nullptr) != 0) return errno_failure(errno, "sigaction");
  std::thread service;
  try {
    service = std::thread([&] {
      pthread_setname_np(pthread_self(), "srun-service");
      sigset_t only_poke;
      sigemptyset(&only_poke);
      sigaddset(&only_poke, poke_signal);
      pthread_sigmask(SIG_UNBLOCK, &only_poke, nullptr);
      loop.run(target.pid);
    });
  } catch (const std::system_error& error) {
    return errno_failure(error.code().value(), "start the service thread");
  }

  SessionResult result;
  bool released = false;
  constexpr int kLooks = 500;  // ten seconds' worth of ticks: a first execve that takes longer is given up on
  int looks = 0;
  const auto tick = [&] {
    on_tick();
    if (!released && has_own_descriptors(target.pid, target.listener.borrow())) {
      release_inherited(options.inherited);
      released = true;
    }
    return !released && ++looks < kLooks;
  };
  result.run = (*control)->run(
      loop, [&] { pthread_kill(service.native_handle(), poke_signal); }, on_event, tick);
  service.join();
  result.dropped_events = ring.dropped();
  result.internal_errors = loop.internal_errors();
  result.served = loop.served();
  return result;
}

}  // namespace srun::supervisor
