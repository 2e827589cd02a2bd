#include "supervisor/session.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <system_error>
#include <thread>

#include "base/scope_exit.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

// Interrupts a blocked RECV. The handler is empty and without SA_RESTART: EINTR is the message.
void interrupt(int) {}

}  // namespace

Result<SessionResult> run_session(const policy::Enforcement& enforcement, const SessionOptions& options, const GuardLink& guard,
                                  Target target, const ControlPlane::OnEvent& on_event, const ControlPlane::OnTick& on_tick) {
  // However this function ends, nothing of the run outlives it (I2).
  const ScopeExit end_tree([] { end_all(); });
  EventRing ring;
  Result<std::unique_ptr<ControlPlane>> control = ControlPlane::create(options.control, guard, target.pid, ring);
  if (!control) return failure(control.error());
  ServiceLoop loop(enforcement, options.service, target.listener.borrow(), (*control)->wake(), Membership(getpid(), guard.guard), ring);

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
  result.run = (*control)->run(loop, [&] { pthread_kill(service.native_handle(), poke_signal); }, on_event, on_tick);
  service.join();
  result.dropped_events = ring.dropped();
  result.internal_errors = loop.internal_errors();
  result.served = loop.served();
  return result;
}

}  // namespace srun::supervisor
