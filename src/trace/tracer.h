#pragma once
// Follows threads with ptrace(2): one thread does everything, since only the attaching thread may. Lines are made at
// the stops and written elsewhere (Sink). While a traced task makes calls faster than the machine can switch
// processors, it shares the tracer's CPU (CpuShare).
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "trace/cpu_share.h"
#include "trace/decoder.h"
#include "trace/options.h"
#include "trace/printer.h"
#include "trace/summary.h"

namespace srun::trace {

class Tracer {
 public:
  // Opens a task's own stream for -ff.
  using OpenStream = std::function<std::shared_ptr<Stream>(pid_t tid)>;
  Tracer(const Options& options, std::shared_ptr<Stream> shared, OpenStream open_own);

  // Starts the program; the errno of what failed. Lines begin with its execve.
  [[nodiscard]] Result<void> start(const std::string& path, char* const* argv, char* const* envp,
                                   std::function<int()> prepare_child);
  // Every thread of the process, and its descendants with -f from then on.
  [[nodiscard]] Result<void> attach(pid_t pid);
  // Until the last task is gone or stop() was called (then everything is detached). The wait status of the program.
  int run();
  // Async-signal-safe.
  static void request_stop() { stop_requested_ = 1; }

  const Summary& summary() const { return summary_; }
  size_t task_count() const { return tasks_.size(); }
  bool had_stop_request() const { return stop_requested_ != 0; }

 private:
  struct Traced : Task {
    bool known = false;         // its first stop was seen
    bool hidden = false;        // before the first execve of the program
    bool attached = false;      // by -p
    bool expects_exit = false;  // the next syscall stop ends a call
    uint64_t cpu_ns = 0;
    uint32_t inject_rule = 0;  // 1 + index of the injection in effect
    std::vector<uint32_t> inject_counts;
    CpuShare::State share;
  };

  Traced& task_for(pid_t tid);
  void handle(pid_t tid, int status);
  void syscall_stop(Traced& task, bool by_seccomp);
  void call_entered(Traced& task);
  void call_left(Traced& task);
  void exec_event(pid_t tid);
  void resume(Traced& task, int signal);
  bool passes(const Traced& task);
  bool path_matches(const Traced& task);
  void inject_at_entry(Traced& task);
  void inject_at_exit(Traced& task);
  void detach_all();
  void announce(pid_t tid, std::string_view what);
  int seccomp_filter() const;

  const Options& options_;
  std::shared_ptr<Stream> shared_;
  OpenStream open_own_;
  Decoder decoder_;
  Printer printer_;
  Summary summary_;
  CpuShare share_;
  std::unordered_map<pid_t, Traced> tasks_;
  std::unordered_map<pid_t, int> early_;  // stops of children that came before their parent's event
  pid_t program_ = 0;
  int program_status_ = 0;
  long ptrace_options_ = 0;
  static volatile int stop_requested_;
};

}  // namespace srun::trace
