#pragma once
// Takes an input apart, front to back; what is missing reads as 0.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace srun::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  template <typename T>
  T take() {
    T value{};
    const size_t length = left_ < sizeof value ? left_ : sizeof value;
    if (length > 0) std::memcpy(static_cast<void*>(&value), data_, length);
    data_ += length;
    left_ -= length;
    return value;
  }
  size_t left() const { return left_; }
  const uint8_t* rest() const { return data_; }

 private:
  const uint8_t* data_;
  size_t left_;
};

// A property that does not hold ends the process: libFuzzer then keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace srun::fuzz
