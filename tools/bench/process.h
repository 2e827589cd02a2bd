#pragma once
// Starting programs and measuring what they say. Single-threaded; nothing here runs between fork and exec but
// posix_spawn.
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace srun::bench {

// This very binary, and the sandbox-run beside it (else the one on PATH; empty if there is none).
std::string own_binary();
std::string product_binary();
// Absolute path of a program on PATH, or empty.
std::string find_program(std::string_view name);

// A private folder with files in it, removed with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }
  // Writes `text` to a file of mode 0644 and returns its path.
  Result<std::string> write(std::string_view name, std::string_view text) const;

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// What a program wrote to standard output. It is an error if it does not exit with 0 within `limit` (then it is
// killed); the error's detail holds the end of its standard error.
Result<std::string> capture(const std::vector<std::string>& argv, std::chrono::seconds limit);

// Wall time in ns from before the start of a program to the end of its wait(2), standard streams on /dev/null. An error
// if it does not exit with 0.
Result<double> time_run(const std::vector<std::string>& argv);

}  // namespace srun::bench
