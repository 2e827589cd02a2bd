#pragma once
// Everything that may take its time: child events, signals to pass on, the watch on the guard, and the events that the
// service thread hands over. Boost.Asio on the supervisor's main thread.
#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <memory>

#include "base/error.h"
#include "report/event.h"
#include "supervisor/event_ring.h"
#include "supervisor/guard.h"
#include "supervisor/service_loop.h"

namespace srun::supervisor {

struct ControlOptions {
  bool wait_for_all = false;  // --wait all: until the last process of the run has ended by itself
};

// How the run ended, for the exit status.
struct RunResult {
  int wait_status = 0;  // of the program's first process
  bool guard_died = false;
};

class ControlPlane {
 public:
  // Called on this thread for each event, and about every 100 ms while there is work and once at the end.
  using OnEvent = std::function<void(const report::Event&)>;
  // Returns whether it wants to be called again soon although nothing happens.
  using OnTick = std::function<bool()>;

  static Result<std::unique_ptr<ControlPlane>> create(const ControlOptions& options, const GuardLink& guard,
                                                      pid_t target, EventRing& ring);
  virtual ~ControlPlane() = default;

  // The eventfd by which the service thread wakes this one.
  virtual BorrowedFd wake() const = 0;
  // Blocks until the program has ended, the tree is dead and `service` has finished. `poke` interrupts the service
  // thread.
  virtual RunResult run(ServiceLoop& service, const std::function<void()>& poke, const OnEvent& on_event,
                        const OnTick& on_tick) = 0;
};

}  // namespace srun::supervisor
