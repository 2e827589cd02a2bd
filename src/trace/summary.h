#pragma once
// -c, -C: how often each call was made and what it cost (R38).
#include <array>
#include <cstdint>
#include <string>

#include "trace/call.h"

namespace srun::trace {

class Summary {
 public:
  void count(const Call& call, uint64_t nanoseconds);
  // The table, as strace prints it; `sort` as in -S.
  std::string text(const std::string& sort) const;
  std::string json() const;

 private:
  struct Row {
    uint64_t calls = 0, errors = 0, nanoseconds = 0;
  };
  std::array<Row, 1024> rows_{};  // by row of the syscall table; the last one is for unknown numbers
};

}  // namespace srun::trace
