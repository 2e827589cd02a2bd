#pragma once
// An array of zero bytes whose pages exist only once they are touched: for tables that are sized for the worst case and
// hardly filled by a short run. Filling them at start was a quarter of what a start costs.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace srun {

// The elements are not constructed: all their bytes are zero, whatever T's member initialisers say. calloc() creates
// them implicitly (C++20, [intro.object]), for which T has to be an aggregate; large blocks come from the kernel, which
// has them zero already. Throws std::bad_alloc.
template <typename T>
class ZeroedArray {
 public:
  static_assert(std::is_aggregate_v<T> && std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  explicit ZeroedArray(size_t count) : elements_(static_cast<T*>(std::calloc(count, sizeof(T)))) {
    if (elements_ == nullptr) throw std::bad_alloc();
  }
  T& operator[](size_t index) { return elements_.get()[index]; }
  const T& operator[](size_t index) const { return elements_.get()[index]; }

 private:
  struct Free {
    void operator()(T* elements) const { std::free(elements); }
  };
  std::unique_ptr<T[], Free> elements_;
};

}  // namespace srun
