#pragma once
// Lines in strace's format (R1-R39), or the same events as JSON lines.
#include <sys/types.h>

#include <memory>
#include <string>

#include "trace/call.h"
#include "trace/options.h"
#include "trace/sink.h"

namespace srun::trace {

// What is written to one place: lines of several tasks share it unless -ff gives each its own.
struct Stream {
  explicit Stream(std::unique_ptr<Sink> to) : sink(std::move(to)) {}
  std::unique_ptr<Sink> sink;
  pid_t open = 0;      // whose call has no end yet on the current line
  size_t column = 0;   // of the current line
};

// One traced thread as the printer needs it.
struct Task {
  pid_t tid = 0;
  std::shared_ptr<Stream> stream;
  Call call;
  Line line;
  bool in_call = false;
  bool shown = false;        // its call passed the filters
  bool deferred = false;     // nothing printed before the result is known
  bool separated = false;    // the comma before the next argument is out
  size_t printed = 0;        // bytes of line.text that are out
  uint64_t entered_ns = 0;   // CLOCK_MONOTONIC
  std::string injected;      // " (INJECTED)" and the like
};

class Printer {
 public:
  Printer(const Options& options, Decoder& decoder) : options_(options), decoder_(decoder) { text_.reserve(8192); }

  // How many tasks are traced: decides whether a pid is shown on standard error (R3).
  void set_task_count(size_t count) { many_ = count > 1; }
  void set_to_file(bool on) { to_file_ = on; }

  void entered(Task& task);
  void left(Task& task);
  void signal(Task& task, int number, const void* siginfo);  // siginfo may be null
  void stopped(Task& task, int signal);
  void ended(Task& task, int wait_status);
  void superseded(Task& task, pid_t by_old_tid);
  void detached(Task& task);
  void pid_changed(Task& task, pid_t to);  // -ff: its lines go on in another file

 private:
  void begin_line(Task& task, Stream& stream);
  void close_open(Stream& stream);
  void put_name(Task& task);
  void put_result(Task& task, Stream& stream);
  void flush_text(Stream& stream);
  void finish_line(Stream& stream);
  bool wanted(const Task& task) const;
  void json_call(Task& task, bool finished);
  void json_line(Task& task, std::string_view event, std::string_view fields);

  const Options& options_;
  Decoder& decoder_;
  std::string text_;
  bool many_ = false;
  bool to_file_ = false;
  uint64_t last_ns_ = 0;
};

}  // namespace srun::trace
