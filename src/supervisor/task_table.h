#pragma once
#include <sched.h>
#include <sys/types.h>

#include <cstdint>

#include "base/zeroed_array.h"
#include "report/event.h"

namespace srun::supervisor {

// What the service thread remembers of one asking task. Nothing here decides anything: a thread id can be reused, so
// all of it is advisory (comm for reports, figures for scheduling).
struct TaskRecord {
  int32_t tid = 0;  // 0: free
  int32_t tgid = 0;
  uint64_t last_ns = 0;      // CLOCK_MONOTONIC of its last notification
  uint64_t identity_ns = 0;  // when comm and tgid were read
  char comm[16] = {};

  // Scheduling (affinity.h).
  uint32_t notifications = 0;  // since the sample
  uint64_t sample_wall_ns = 0;
  uint64_t sample_cpu_ns = 0;
  uint32_t cpu_per_notification_ns = 0;  // 0: not known yet
  uint64_t cheap_since_ns = 0;           // since when it has stayed below the threshold, 0: it has not
  bool leased = false;
  bool own_mask = false;  // it set its affinity itself: never moved again
  cpu_set_t mask;         // its mask without our pin; valid while leased

  // Coalescing of equal events.
  report::Event held;  // repeats == 0: nothing held
  uint64_t held_since_ns = 0;
};

// Fixed size, set-associative by thread id, so that the service path never allocates. An evicted task is only
// forgotten.
class TaskTable {
 public:
  static constexpr size_t kSets = 512;
  static constexpr size_t kWays = 4;

  // The record of `tid`, made or recycled if need be; `evict(record)` is called before another task's is recycled.
  template <typename Evict>
  TaskRecord& get(int32_t tid, Evict&& evict) {
    TaskRecord* const set = &records_[(static_cast<uint32_t>(tid) * 2654435761u >> 23) % kSets * kWays];
    TaskRecord* oldest = set;
    for (size_t way = 0; way < kWays; ++way) {
      if (set[way].tid == tid) return set[way];
      if (set[way].tid == 0) {
        oldest = &set[way];
        break;
      }
      if (set[way].last_ns < oldest->last_ns) oldest = &set[way];
    }
    if (oldest->tid != 0) evict(*oldest);
    *oldest = TaskRecord{};
    oldest->held.repeats = 0;
    oldest->tid = tid;
    return *oldest;
  }
  TaskRecord* find(int32_t tid) {
    TaskRecord* const set = &records_[(static_cast<uint32_t>(tid) * 2654435761u >> 23) % kSets * kWays];
    for (size_t way = 0; way < kWays; ++way)
      if (set[way].tid == tid) return &set[way];
    return nullptr;
  }
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (size_t i = 0; i < kSets * kWays; ++i)
      if (records_[i].tid != 0) visit(records_[i]);
  }

 private:
  ZeroedArray<TaskRecord> records_{kSets * kWays};  // tid 0: free, and nothing else of it is read
};

}  // namespace srun::supervisor
