#include "trace/cpu_share.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "kernel/sys.h"

namespace srun::trace {
namespace {

constexpr uint64_t kQuickNs = 400'000;    // a task that computes longer between its calls is left alone
constexpr uint32_t kQuickStops = 8;
constexpr uint64_t kIdleNs = 3'000'000;   // no stop for so long: the pin goes back
constexpr auto kReaperPause = std::chrono::milliseconds(2);

}  // namespace

CpuShare::CpuShare(bool enabled) : enabled_(enabled && ::sysconf(_SC_NPROCESSORS_ONLN) > 1), tracer_(::gettid()) {
  CPU_ZERO(&tracer_mask_);
}

CpuShare::~CpuShare() {
  stop_ = true;
  if (reaper_.joinable()) reaper_.join();
  for (const auto& [tid, pin] : pins_) unpin(tid, pin);
}

void CpuShare::unpin(pid_t tid, const Pin& pin) {
  // A mask that somebody changed meanwhile is not ours to undo.
  const auto now = kernel::get_affinity(tid);
  if (now && CPU_COUNT(&*now) == 1 && CPU_ISSET(cpu_, &*now)) (void)kernel::set_affinity(tid, pin.mask);
}

void CpuShare::stopped(pid_t tid, State& state) {
  if (!enabled_) return;
  const uint64_t now = kernel::monotonic_ns();
  const bool quick = state.last_resume_ns != 0 && now - state.last_resume_ns < kQuickNs;
  if (state.pinned) {
    const std::lock_guard lock(mutex_);
    const auto at = pins_.find(tid);
    if (at == pins_.end()) {
      state.pinned = false;  // the reaper took it
      state.quick = 0;
    } else {
      at->second.resumed_ns = 0;
    }
    return;
  }
  state.quick = quick ? state.quick + 1 : 0;
  if (state.quick < kQuickStops || state.own_mask) return;
  const auto mask = kernel::get_affinity(tid);
  if (!mask || CPU_COUNT(&*mask) < 2) {
    state.own_mask = true;
    return;
  }
  const std::lock_guard lock(mutex_);
  // A second hot task is gathered only beside one: with more there is parallel work to lose.
  if (pins_.size() >= 2) return;
  if (!tracer_pinned_) {
    const auto own = kernel::get_affinity(tracer_);
    if (!own) return;
    tracer_mask_ = *own;
    cpu_ = ::sched_getcpu();
    if (cpu_ < 0 || !CPU_ISSET(cpu_, &*mask)) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    if (!kernel::set_affinity(tracer_, one)) return;
    tracer_pinned_ = true;
  }
  if (!CPU_ISSET(cpu_, &*mask)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu_, &one);
  if (!kernel::set_affinity(tid, one)) {
    state.own_mask = true;
    return;
  }
  pins_[tid] = {*mask, 0, &state};
  state.pinned = true;
  if (!reaper_.joinable()) reaper_ = std::thread([this] { reap(); });
}

void CpuShare::resuming(pid_t tid, State& state) {
  if (!enabled_) return;
  state.last_resume_ns = kernel::monotonic_ns();
  if (!state.pinned) return;
  const std::lock_guard lock(mutex_);
  const auto at = pins_.find(tid);
  if (at != pins_.end()) at->second.resumed_ns = state.last_resume_ns;
}

void CpuShare::release(pid_t tid, State& state) {
  if (!state.pinned) return;
  const std::lock_guard lock(mutex_);
  const auto at = pins_.find(tid);
  if (at != pins_.end()) {
    unpin(tid, at->second);
    pins_.erase(at);
  }
  state.pinned = false;
  state.quick = 0;
}

void CpuShare::forget(pid_t tid) {
  const std::lock_guard lock(mutex_);
  pins_.erase(tid);
}

bool CpuShare::own_mask(pid_t tid, cpu_set_t& mask) {
  const std::lock_guard lock(mutex_);
  const auto at = pins_.find(tid);
  if (at == pins_.end()) return false;
  mask = at->second.mask;
  return true;
}

void CpuShare::reap() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stop_) {
    std::this_thread::sleep_for(kReaperPause);
    const std::lock_guard lock(mutex_);
    const uint64_t now = kernel::monotonic_ns();
    for (auto at = pins_.begin(); at != pins_.end();) {
      if (at->second.resumed_ns != 0 && now > at->second.resumed_ns && now - at->second.resumed_ns > kIdleNs) {
        unpin(at->first, at->second);
        at = pins_.erase(at);
      } else {
        ++at;
      }
    }
    if (pins_.empty() && tracer_pinned_) {
      (void)kernel::set_affinity(tracer_, tracer_mask_);
      tracer_pinned_ = false;
    }
  }
}

}  // namespace srun::trace
