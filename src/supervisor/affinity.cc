#include "supervisor/affinity.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernel/sys.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {
namespace {

// Constants as measured for the lease (see README, "Service loop"): nanoseconds.
constexpr uint64_t kGap = 10'000'000;  // a longer pause starts a new sample
constexpr uint32_t kSampleEvery = 8;   // notifications
constexpr uint32_t kSampleEveryLeased = 32;
constexpr uint64_t kHotWall = 2'000'000;        // wall time per notification of a task worth a lease
constexpr uint32_t kHotCpu = 400'000;           // CPU time per notification up to which a lone task is leased
constexpr uint32_t kGatherCpu = 40'000;         // … and up to which tasks are gathered on one CPU
constexpr uint64_t kQuiet = 3'000'000;          // a lease ends after this pause
constexpr uint64_t kActiveWindow = 20'000'000;  // who counts as active for the sync flag
constexpr uint64_t kCheapFor = 50'000'000;      // how long all active ones must have been cheap

bool equal(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

}  // namespace

bool needs_virtual_affinity(ServiceMode mode, bool sync_available) {
  return mode == ServiceMode::kPinned || (mode == ServiceMode::kAuto && !sync_available);
}

Affinity::Affinity(ServiceMode mode, bool sync_available, const cpu_set_t& root_mask, BorrowedFd listener,
                   TaskTable& tasks)
    : mode_(mode), sync_available_(sync_available), listener_(listener), tasks_(tasks), root_mask_(root_mask) {
  CPU_ZERO(&lane_);
}

void Affinity::set_sync(bool on) {
  if (!sync_available_ || on == sync_on_) return;
  const unsigned long flags = on ? SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP : 0;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags) != 0) {
    sync_available_ = false;  // a kernel before 6.6 after all: every answer stays right, only slower
    return;
  }
  sync_on_ = on;
}

void Affinity::start(pid_t target) {
  if (const Result<cpu_set_t> mask = kernel::get_affinity(0))
    service_mask_ = *mask;
  else
    service_mask_ = root_mask_;
  switch (mode_) {
    case ServiceMode::kAsync:
      break;
    case ServiceMode::kSync:
    case ServiceMode::kAuto:
      set_sync(true);
      break;
    case ServiceMode::kPinned: {
      const int cpu = sched_getcpu();
      CPU_ZERO(&lane_);
      CPU_SET(static_cast<size_t>(cpu < 0 ? 0 : cpu), &lane_);
      // Failures leave the task where it is: slower, never wrong.
      static_cast<void>(kernel::set_affinity(0, lane_));
      static_cast<void>(kernel::set_affinity(target, lane_));
      break;
    }
  }
}

void Affinity::sample(TaskRecord& task, uint64_t now) {
  if (task.sample_wall_ns == 0 || now - task.last_ns > kGap) {
    task.sample_wall_ns = now;
    task.sample_cpu_ns = kernel::process_cpu_ns(task.tgid != 0 ? task.tgid : task.tid).value_or(0);
    task.notifications = 0;
    task.cheap_since_ns = 0;
    return;
  }
  ++task.notifications;
  if (task.notifications < (task.leased ? kSampleEveryLeased : kSampleEvery)) return;
  const std::optional<uint64_t> cpu = kernel::process_cpu_ns(task.tgid != 0 ? task.tgid : task.tid);
  if (!cpu) return;
  task.cpu_per_notification_ns =
      static_cast<uint32_t>(std::min<uint64_t>((*cpu - task.sample_cpu_ns) / task.notifications, 0xffffffffu));
  if (task.cpu_per_notification_ns >= kGatherCpu)
    task.cheap_since_ns = 0;
  else if (task.cheap_since_ns == 0)
    task.cheap_since_ns = task.sample_wall_ns;
  if (!sync_available_ && mode_ == ServiceMode::kAuto) decide_lease(task, now);
  task.sample_wall_ns = now;
  task.sample_cpu_ns = *cpu;
  task.notifications = 0;
}

// Synchronous wake-ups stack tasks that also compute on the CPU they share with us: two processes with 85 µs of work
// between opens took 538 ms instead of 397. So it is on for one asking task, or while all asking tasks are cheap.
void Affinity::decide_sync(TaskRecord& task, uint64_t now) {
  Active* mine = &active_[0];
  int others = 0;
  bool all_cheap = task.cheap_since_ns != 0 && now - task.cheap_since_ns >= kCheapFor;
  for (Active& entry : active_) {
    if (entry.tid == task.tid) {
      mine = &entry;
      continue;
    }
    if (mine->tid != task.tid && entry.last_ns < mine->last_ns) mine = &entry;
    if (entry.tid == 0 || now - entry.last_ns > kActiveWindow) continue;
    ++others;
    const TaskRecord* const other = tasks_.find(entry.tid);
    if (other != nullptr && (other->cheap_since_ns == 0 || now - other->cheap_since_ns < kCheapFor)) all_cheap = false;
  }
  *mine = Active{task.tid, now};
  set_sync(others == 0 || all_cheap);
}

void Affinity::on_notification(TaskRecord& task, uint64_t now) {
  switch (mode_) {
    case ServiceMode::kAsync:
    case ServiceMode::kSync:
      break;
    case ServiceMode::kPinned:
      if (!task.leased && !task.own_mask) {
        const Result<cpu_set_t> mask = kernel::get_affinity(task.tid);
        // A mask that is neither ours nor the root's was chosen by an ancestor of the task: it stays.
        if (mask && !equal(*mask, lane_) && !equal(*mask, root_mask_))
          task.own_mask = true;
        else
          pin(task);
      }
      break;
    case ServiceMode::kAuto:
      sample(task, now);
      if (sync_available_) decide_sync(task, now);
      break;
  }
  task.last_ns = now;
}

void Affinity::decide_lease(TaskRecord& task, uint64_t now) {
  const uint64_t wall = (now - task.sample_wall_ns) / task.notifications;
  const uint32_t threshold = leases_ > (task.leased ? 1 : 0) ? kGatherCpu : kHotCpu;
  if (task.leased) {
    if (task.cpu_per_notification_ns > 2 * threshold) release(task);
    return;
  }
  if (task.own_mask || wall >= kHotWall || task.cpu_per_notification_ns >= threshold) return;
  if (leases_ == 0) {
    const int cpu = sched_getcpu();
    if (cpu < 0) return;
    CPU_ZERO(&lane_);
    CPU_SET(static_cast<size_t>(cpu), &lane_);
    if (!kernel::set_affinity(0, lane_)) return;
  }
  pin(task);
}

void Affinity::pin(TaskRecord& task) {
  task.mask = virtual_mask(task.tid);
  if (!kernel::set_affinity(task.tid, lane_)) return;
  task.leased = true;
  if (mode_ != ServiceMode::kPinned) ++leases_;
}

void Affinity::release(TaskRecord& task) {
  if (!task.leased) return;
  task.leased = false;
  // ESRCH: it ended. EINVAL: the CPUs of its mask went offline; the kernel then widens the mask by itself.
  static_cast<void>(kernel::set_affinity(task.tid, task.mask));
  if (mode_ == ServiceMode::kPinned) {
    unpinned_ = true;
    return;
  }
  free_children(task);
  if (--leases_ == 0) static_cast<void>(kernel::set_affinity(0, service_mask_));
}

// A leased task may have forked: fork is never notified (H19), so children that inherited the pin are looked for.
void Affinity::free_children(const TaskRecord& task) {
  for (const pid_t child : descendants(task.tgid != 0 ? task.tgid : task.tid)) {
    TaskRecord* const record = tasks_.find(child);
    if (record != nullptr && (record->leased || record->own_mask)) continue;
    const Result<cpu_set_t> mask = kernel::get_affinity(child);
    if (mask && equal(*mask, lane_)) static_cast<void>(kernel::set_affinity(child, task.mask));
  }
}

// The mask a task would have without us. A lane mask was inherited from a pinned ancestor unless somebody in the line
// chose it.
cpu_set_t Affinity::virtual_mask(pid_t tid) {
  const Result<cpu_set_t> mask = kernel::get_affinity(tid);
  if (!mask) return root_mask_;
  if (!equal(*mask, lane_)) return *mask;
  pid_t at = tid;
  for (int depth = 0; depth < 64; ++depth) {
    if (TaskRecord* const record = tasks_.find(at)) {
      if (record->own_mask) return *mask;
      if (record->leased) return record->mask;
    }
    const std::optional<TaskStatus> status = task_status(at);
    if (!status || status->ppid <= 1) break;
    at = at != status->tgid ? status->tgid : status->ppid;
  }
  return root_mask_;
}

void Affinity::before_affinity_call(TaskRecord& caller, pid_t asked, bool sets, uint64_t now) {
  if (!needs_virtual_affinity(mode_, sync_available_)) return;
  const pid_t tid = asked == 0 ? caller.tid : asked;
  TaskRecord& task = tid == caller.tid ? caller : tasks_.get(tid, [this](TaskRecord& old) { forget(old); });
  if (task.leased) {
    release(task);
  } else if (!task.own_mask) {
    // Never asked before, but it may have inherited a pin.
    const cpu_set_t own = virtual_mask(tid);
    const Result<cpu_set_t> mask = kernel::get_affinity(tid);
    if (mask && !equal(*mask, own)) static_cast<void>(kernel::set_affinity(tid, own));
    unpinned_ = true;
  }
  if (sets) task.own_mask = true;
  task.last_ns = now;
}

void Affinity::reap(uint64_t now) {
  if (leases_ == 0) return;
  tasks_.for_each([&](TaskRecord& task) {
    if (!task.leased) return;
    if (now - task.last_ns > kQuiet)
      release(task);
    else
      free_children(task);
  });
}

void Affinity::forget(TaskRecord& task) { release(task); }

}  // namespace srun::supervisor
