#pragma once
// Which calls, results and paths are shown: strace's -e trace=, -e status=, -z, -Z, -P, and what it lacks.
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/syscall_table.h"

namespace srun::trace {

// A set of calls by row of the syscall table.
class CallSet {
 public:
  static CallSet all();
  // "open,%file,!…": names, ?name, %class (also without %), /regex, @group, numbers, all, none; "!" in front
  // complements.
  [[nodiscard]] static Result<CallSet> parse(std::string_view expression);
  bool has(const kernel::Syscall* row) const { return row == nullptr ? unknown_ : rows_[index(row)]; }
  bool is_all() const { return unknown_ && rows_.count() == kernel::syscalls().size(); }
  void set_unknown(bool on) { unknown_ = on; }
  void add(const kernel::Syscall& row) { rows_.set(index(&row)); }

 private:
  static size_t index(const kernel::Syscall* row) { return static_cast<size_t>(row - kernel::syscalls().data()); }
  std::bitset<1024> rows_;
  bool unknown_ = false;
};

// A set of signals, as -e signal= and -e inject= have it.
[[nodiscard]] Result<uint64_t> parse_signal_set(std::string_view expression);
// "SIGINT", "INT", "2".
[[nodiscard]] Result<int> parse_signal(std::string_view text);

enum Status : uint8_t {
  kSuccessful = 1,
  kFailed = 2,
  kUnfinished = 4,
  kUnavailable = 8,
  kDetached = 16,
  kAllStatuses = 31
};
[[nodiscard]] Result<uint8_t> parse_status_set(std::string_view expression);

}  // namespace srun::trace
