#pragma once
#include <sys/random.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace srun::bpf::jit {

// Random words for blinding, from the kernel's generator. Not thread-safe.
class BlindingKeys {
 public:
  uint32_t next() {
    if (at_ == keys_.size()) refill();
    return keys_[at_++];
  }
  // True once getrandom(2) has failed; what next() gives then is not random.
  bool failed() const { return failed_; }

 private:
  void refill() {
    // Up to 256 bytes come in one piece and are never interrupted (getrandom(2)).
    failed_ |= ::getrandom(keys_.data(), sizeof keys_, 0) != static_cast<ssize_t>(sizeof keys_);
    at_ = 0;
  }

  std::array<uint32_t, 64> keys_{};
  size_t at_ = keys_.size();
  bool failed_ = false;
};

}  // namespace srun::bpf::jit
