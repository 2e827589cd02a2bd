#pragma once
// The floor: the smallest supervisor that can answer a notification, a bare RECV/SEND loop without any policy.
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "bench/looper.h"

namespace srun::bench {

struct FloorPlan {
  enum class Answer : uint8_t { kContinue, kValue };
  Answer answer = Answer::kContinue;
  bool sync_wake = false;  // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6
  std::optional<int> supervisor_cpu;
  std::optional<int> looper_cpu;
};

// Forks a looper whose getppid calls are notified and answers them on the calling thread until it has finished.
// The calling thread's own affinity is restored. Errors: a listener cannot be had (EBUSY: somebody else's is in place),
// the sync flag is unknown to the kernel (EINVAL).
Result<LooperFigures> run_floor(const FloorPlan& floor, const LooperPlan& looper);

}  // namespace srun::bench
