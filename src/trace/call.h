#pragma once
// One system call as the tracer saw it, and the line that is made of it. The same line is printed as text and as JSON.
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernel/syscall_table.h"

namespace srun::trace {

struct Call {
  pid_t tid = 0;
  const kernel::Syscall* row = nullptr;  // nullptr: a number that is not in the table
  const kernel::Syscall* previous = nullptr;  // the task's call before this one, for restart_syscall (R35)
  uint64_t number = 0;
  std::array<uint64_t, 6> args{};
  uint64_t stack_pointer = 0, instruction_pointer = 0;
  int64_t result = 0;
  bool failed = false;  // result is a negative errno
};

// The arguments as text: `text` is everything between the parentheses so far.
struct Line {
  std::string text;
  std::array<uint32_t, 8> ends{};  // where the text of each argument ends; names like "flags=" are part of it
  std::array<uint32_t, 8> starts{};
  std::array<int8_t, 8> registers{};  // which of the six registers it shows; -1: none
  uint8_t count = 0;
  bool more_follows = false;  // at entry: an argument that is only known at exit comes next
  std::string remark;         // R10: behind the result, without the parentheses
  bool hex_result = false;
  bool octal_result = false;
  bool fd_result = false;
  bool no_result = false;     // "?"
  std::string result_text;    // instead of the number

  void clear() {
    text.clear();
    count = 0;
    more_follows = false;
    remark.clear();
    hex_result = octal_result = fd_result = no_result = false;
    result_text.clear();
  }
  void begin(int register_index) {
    if (count != 0) text += ", ";
    if (count < starts.size()) {
      starts[count] = static_cast<uint32_t>(text.size());
      registers[count] = static_cast<int8_t>(register_index);
    }
  }
  void end() {
    if (count < ends.size()) ends[count++] = static_cast<uint32_t>(text.size());
  }
};

}  // namespace srun::trace
