#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/zeroed_array.h"
#include "report/event.h"

namespace srun::supervisor {

// Bounded ring with one producer (the service thread) and one consumer (the control plane). Never blocks: what does not
// fit is dropped and counted.
class EventRing {
 public:
  static constexpr size_t kCapacity = 8192;  // power of two; about 1 MiB

  // Producer. False if the ring was full; the drop is counted.
  bool push(const report::Event& event) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kCapacity) {
      dropped_.fetch_add(event.repeats, std::memory_order_relaxed);
      return false;
    }
    slots_[tail % kCapacity] = event;
    // seq_cst, paired with prepare_to_wait(): either the producer sees the waiter or the consumer sees the event.
    tail_.store(tail + 1, std::memory_order_seq_cst);
    return true;
  }
  // Producer: more than half full, the consumer does not keep up.
  bool crowded() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed) > kCapacity / 2;
  }
  // Producer, after push: true once if the consumer sleeps and must be woken by its eventfd.
  bool take_wake_request() {
    return waiting_.load(std::memory_order_seq_cst) && waiting_.exchange(false, std::memory_order_seq_cst);
  }

  // Consumer.
  bool pop(report::Event& event) {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    event = slots_[head % kCapacity];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  // Consumer: announces that it will sleep until woken. False if events arrived meanwhile: drain first.
  bool prepare_to_wait() {
    waiting_.store(true, std::memory_order_seq_cst);
    if (head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_seq_cst)) return true;
    waiting_.store(false, std::memory_order_seq_cst);
    return false;
  }
  // Consumer: will not sleep after all.
  void cancel_wait() { waiting_.store(false, std::memory_order_seq_cst); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  ZeroedArray<report::Event> slots_{kCapacity};  // read only where push() wrote
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<bool> waiting_{false};
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace srun::supervisor
