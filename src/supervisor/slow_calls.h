#pragma once
// Calls that may take their time: opening a FIFO, connecting, looking up names. They leave the service loop for threads
// of their own, at most kMaxSlowCalls of them; one more is refused by the caller of take() (pitfalls 5.20).
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "supervisor/answer.h"
#include "supervisor/notification.h"

namespace srun::supervisor {

inline constexpr size_t kMaxSlowCalls = 64;

// What a slow call asks when a blocking system call of its own returned EINTR.
enum class Interruption : uint8_t {
  kNone,    // go on
  kSignal,  // the task has a signal to take: answer kRestart (H27)
  kGone,    // the task was killed or the run ends: nobody waits for an answer
};
// ERESTARTSYS: the kernel restarts the call or answers EINTR, as after any interrupted call. Only with a signal
// pending; otherwise the task would see the number (H27).
inline constexpr int kRestart = 512;

class SlowCall {
 public:
  virtual ~SlowCall() = default;
  // On a thread of its own, whose blocking system calls are interrupted (EINTR, again and again) once `interruption` is
  // no longer kNone. Never kContinue.
  virtual Answer run(const Notification& notification, const std::atomic<Interruption>& interruption) = 0;
};

// True if `tid` has a signal that it will take as soon as it leaves the kernel. False if that is not certain: a signal
// for the whole process may be taken by another thread, unless this is the first or only one.
bool has_deliverable_signal(pid_t tid);

class SlowCalls {
 public:
  SlowCalls() = default;
  ~SlowCalls() { stop(); }
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // Service thread. False if too many run already or no thread can be had: the caller refuses.
  [[nodiscard]] bool take(const Notification& notification, std::unique_ptr<SlowCall> call);
  // Cancels and joins all; the listener must still be open. Idempotent.
  void stop();

 private:
  struct Running {
    Notification notification;
    std::unique_ptr<SlowCall> call;
    std::atomic<Interruption> interruption{Interruption::kNone};
    bool finished = false;  // under mutex_
    std::thread thread;
  };
  void watch();
  void reap_finished();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Running> running_;
  std::thread watcher_;
  bool stopping_ = false;
};

}  // namespace srun::supervisor
