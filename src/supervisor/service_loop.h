#pragma once
// The loop that everything waits for: receive → decide → answer. One thread; no allocation, no lock, no formatting on
// the path of a notification whose task is known, but for the one with which a call number has become frequent.
#include <atomic>
#include <cstdint>

#include "base/unique_fd.h"
#include "policy/enforcement.h"
#include "supervisor/affinity.h"
#include "supervisor/dispatcher.h"
#include "supervisor/event_ring.h"
#include "supervisor/slow_calls.h"
#include "supervisor/task_table.h"

namespace srun::supervisor {

struct ServiceOptions {
  ServiceMode mode = ServiceMode::kAuto;
  bool sync_available = true;
  bool every_event = false;   // --events: one event a decision, counted repeats only when the ring fills up
  bpf::RunnerOptions engine;  // --no-jit: the interpreter
  cpu_set_t root_mask{};
};

class ServiceLoop {
 public:
  // All references are borrowed and must outlive run(). `wake` is the consumer's eventfd.
  ServiceLoop(const policy::Enforcement& enforcement, const ServiceOptions& options, BorrowedFd listener,
              BorrowedFd wake, Membership membership, EventRing& ring);

  // Runs until the last task under the filter is gone or stop() was called. `target`: the program's first process.
  void run(pid_t target);

  // From the control plane.
  void stop() { stopping_.store(true, std::memory_order_relaxed); }
  // Whether the loop, if idle, wants to be interrupted (by a signal) so that it can end leases or hand out held events.
  bool wants_poke() const { return wants_poke_.load(std::memory_order_relaxed); }
  // Leases are being held: the poke is wanted every 2 ms.
  bool has_leases() const { return has_leases_.load(std::memory_order_relaxed); }
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  uint64_t internal_errors() const { return internal_errors_.load(std::memory_order_relaxed); }
  uint64_t served() const { return served_.load(std::memory_order_relaxed); }

 private:
  void report(const Answer& answer, const bpf::CallData& call, TaskRecord& task, uint64_t now);
  void push(const report::Event& event);
  void flush_held(TaskRecord& task);
  void announce_wishes();
  void wake_consumer();
  void housekeeping(uint64_t now, bool all);

  const policy::Enforcement& enforcement_;
  ServiceOptions options_;
  BorrowedFd listener_;
  BorrowedFd wake_;
  EventRing& ring_;
  TaskTable tasks_;
  Affinity affinity_;
  SlowCalls slow_;
  Dispatcher dispatcher_;
  uint32_t held_ = 0;  // records with a held event
  std::atomic<bool> stopping_{false};
  std::atomic<bool> finished_{false};
  std::atomic<bool> wants_poke_{false};
  std::atomic<bool> has_leases_{false};
  std::atomic<uint64_t> internal_errors_{0};
  std::atomic<uint64_t> served_{0};
};

}  // namespace srun::supervisor
