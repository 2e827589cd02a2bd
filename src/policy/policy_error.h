#pragma once
#include <cstdint>
#include <string>

namespace srun::policy {

// What is wrong with a policy, where, and what was probably meant. Ends a run with 125; never downgraded.
struct PolicyError {
  std::string file;        // as shown to the user; empty: the command line or the stack as a whole
  uint32_t line = 0;       // 1-based; 0: the file as a whole
  std::string pointer;     // JSON pointer with "#": "#/syscalls/0/names/1"; "#" is the document; empty: not a place
  std::string message;     // "unknown system call \"opeant\""
  std::string suggestion;  // the nearest known name, without quotes; empty: none is near

  // ci.json:12 #/syscalls/0/names/1: unknown system call "opeant"; did you mean "openat"?
  // One line: file names and everything quoted from the file are escaped.
  std::string text() const;
};

}  // namespace srun::policy
