#pragma once
// Where lines go. Writing is kept off the stops of the traced program: lines gather in a buffer that is written when it
// is full, a few milliseconds after its first line, or at once where the reader shares a terminal with the program.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace srun::trace {

class Sink;

// Writes what is waiting in any of its sinks, from a thread of its own that sleeps while nothing waits.
class Flusher {
 public:
  ~Flusher();
  void add(const std::shared_ptr<Sink>& sink);
  void mark();  // something waits; starts the thread on first use, so never between fork and exec

 private:
  void loop();
  std::atomic<int> state_{0};  // 0 clean, 1 dirty, 2 stop
  std::mutex mutex_;           // guards sinks_
  std::vector<std::weak_ptr<Sink>> sinks_;
  std::thread thread_;
};

class Sink {
 public:
  // `flusher` may be null: then every append is written at once. It outlives the sink.
  Sink(UniqueFd fd, Flusher* flusher) : fd_(std::move(fd)), flusher_(flusher) {}
  ~Sink() { flush(); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Both thread-safe.
  void append(std::string_view text);
  void flush();
  void close();  // writes what is left; a reader of a pipe sees its end

 private:
  static constexpr size_t kFull = 64 * 1024;
  void write_all();

  std::mutex mutex_;
  std::string text_;
  UniqueFd fd_;
  Flusher* flusher_;
  bool failed_ = false;  // a write failed for good; what comes later is dropped
};

}  // namespace srun::trace
