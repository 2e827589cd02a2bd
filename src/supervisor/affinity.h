#pragma once
// Same-CPU service: a notification costs one context-switch pair when the asking task and the service thread share a
// CPU and 10 to 20 times that when they do not. All of this runs on the service thread.
#include <sched.h>
#include <sys/types.h>

#include <array>
#include <cstdint>

#include "base/unique_fd.h"
#include "supervisor/task_table.h"

namespace srun::supervisor {

enum class ServiceMode : uint8_t {
  kAsync,   // nothing: the baseline
  kSync,    // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP always on (Linux 6.6)
  kPinned,  // service thread and the whole tree on one CPU
  kAuto,    // the sync flag switched by load; without it, leases
};

// True if sched_getaffinity/sched_setaffinity have to be notified in this mode, because tasks may be pinned.
bool needs_virtual_affinity(ServiceMode mode, bool sync_available);

class Affinity {
 public:
  // `root_mask`: the mask the program was started with. `listener` is borrowed for the object's life.
  Affinity(ServiceMode mode, bool sync_available, const cpu_set_t& root_mask, BorrowedFd listener, TaskTable& tasks);

  // On the service thread, before the first RECV. `target`: the program's first process.
  void start(pid_t target);
  // After RECV, before the answer: the task is asleep in the kernel. `now` is CLOCK_MONOTONIC.
  void on_notification(TaskRecord& task, uint64_t now);
  // Before a sched_getaffinity or sched_setaffinity of `asked` (0: the caller) is let through: the task gets back its
  // own mask, so that the kernel's answer is the one it would have given without us. `sets`: it is about to choose one
  // itself.
  void before_affinity_call(TaskRecord& caller, pid_t asked, bool sets, uint64_t now);
  // Ends leases of tasks that went quiet and frees children that inherited a pin. Cheap when there is nothing to do.
  void reap(uint64_t now);
  // The record is about to be recycled.
  void forget(TaskRecord& task);
  // Whether reap() wants to be called again within 2 ms.
  bool busy() const { return leases_ > 0 || (mode_ == ServiceMode::kPinned && unpinned_); }

 private:
  struct Active {
    int32_t tid = 0;
    uint64_t last_ns = 0;
  };

  void set_sync(bool on);
  void sample(TaskRecord& task, uint64_t now);
  void decide_sync(TaskRecord& task, uint64_t now);
  void decide_lease(TaskRecord& task, uint64_t now);
  void pin(TaskRecord& task);
  void release(TaskRecord& task);
  void free_children(const TaskRecord& task);
  cpu_set_t virtual_mask(pid_t tid);

  ServiceMode mode_;
  bool sync_available_;
  bool sync_on_ = false;
  bool unpinned_ = false;
  BorrowedFd listener_;
  TaskTable& tasks_;
  cpu_set_t root_mask_;
  cpu_set_t lane_{};
  cpu_set_t service_mask_{};
  int leases_ = 0;
  std::array<Active, 16> active_{};
};

}  // namespace srun::supervisor
