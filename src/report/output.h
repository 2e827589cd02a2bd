#pragma once
// Where lines for people and machines go: opened before the launch and never by path again (H14), written without ever
// stopping the control plane and without SIGPIPE.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace srun::report {

// Creates or empties `path` (mode 0600 less umask), never through a symbolic link. A FIFO must have its reader already.
// Call before launch and before the working directory changes.
Result<UniqueFd> open_output(const std::string& path);

// A CLOEXEC duplicate (3 or higher) of an inherited descriptor that can be written to.
Result<UniqueFd> adopt_output(int fd);

// Lines on their way to a descriptor. Owned by one thread. Memory is bounded by `limit` bytes: what a slow or dead
// reader leaves no room for is dropped by whole lines and counted.
class OutputSink {
 public:
  enum class Batching : uint8_t {
    kLineByLine,  // one write(2) per line, so that lines never interleave with what others write there
    kBlocks,      // as much as there is per write(2)
  };
  OutputSink(UniqueFd fd, Batching batching, size_t limit = size_t{4} << 20);

  // `line` is one line with its newline. Only queued; nothing is written here.
  void add(std::string_view line);

  // The same without regard to the limit, for the one line that says how much was dropped.
  void add_last(std::string_view line);

  // Writes what the descriptor takes without waiting: not for a full pipe or socket, nor for a stopped terminal.
  // Regular files are written as they are. Before Linux 6.4 a pipe that others fill at the same moment can make it wait
  // for its reader (no RWF_NOWAIT for pipes there).
  void flush();

  // flush(), waiting up to `patience` in all for a slow reader; what is left then is dropped and counted.
  void finish(std::chrono::milliseconds patience);

  size_t queued_bytes() const { return buffer_.size() - written_; }
  uint64_t lost_lines() const { return lost_lines_; }
  bool is_terminal() const;
  BorrowedFd fd() const { return fd_.borrow(); }

  // The first failure to write (EPIPE, ENOSPC …), once: later calls give nothing. ENOSPC and EDQUOT are tried again
  // with the next flush, any other ends the writing for good.
  std::optional<Error> take_failure();

 private:
  enum class Kind : uint8_t { kFile, kSocket, kStream };
  // Bytes written, or -errno; -EAGAIN if it would have to wait.
  ssize_t write_once(std::string_view bytes);
  void give_up();

  UniqueFd fd_;
  Batching batching_;
  Kind kind_ = Kind::kStream;
  bool nowait_works_ = true;
  bool dead_ = false;
  bool failure_told_ = false;
  size_t limit_;
  std::string buffer_;
  size_t written_ = 0;  // of buffer_
  uint64_t lost_lines_ = 0;
  std::optional<int> failure_;
};

// True while the terminal behind `fd` is in raw (non-canonical) mode, as editors and pagers set it; false for anything
// that is not a terminal.
bool terminal_is_raw(BorrowedFd fd);

}  // namespace srun::report
