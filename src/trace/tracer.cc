#include "trace/tracer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "kernel/remote_memory.h"
#include "kernel/sys.h"
#include "trace/call_arguments.h"
#include "trace/seccomp_stops.h"

namespace srun::trace {
namespace {

// glibc's enum and the kernel's macros name the same requests; the enum's type is what ptrace() takes.
long trace_call(int request, pid_t tid, uintptr_t address, uintptr_t data) {
  return ::ptrace(static_cast<__ptrace_request>(request), tid, address, data);
}

constexpr int kEventStop = 128;  // PTRACE_EVENT_STOP
constexpr int kSyscallStop = SIGTRAP | 0x80;

}  // namespace

volatile int Tracer::stop_requested_ = 0;

Tracer::Tracer(const Options& options, std::shared_ptr<Stream> shared, OpenStream open_own)
    : options_(options),
      shared_(std::move(shared)),
      open_own_(std::move(open_own)),
      decoder_(options.decode),
      printer_(options, decoder_),
      share_(options.share_cpu) {
  ptrace_options_ = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
  if (options.follow) ptrace_options_ |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
  if (options.seccomp) ptrace_options_ |= PTRACE_O_TRACESECCOMP;
  // What we started dies with us; what was attached goes on (strace does the same).
  if (!options.program.empty()) ptrace_options_ |= PTRACE_O_EXITKILL;
  printer_.set_to_file(!options.output.empty());
}

Tracer::Traced& Tracer::task_for(pid_t tid) {
  const auto [at, is_new] = tasks_.try_emplace(tid);
  Traced& task = at->second;
  if (is_new) {
    task.tid = tid;
    task.stream = options_.separate ? open_own_(tid) : shared_;
    task.inject_counts.resize(options_.injections.size());
    printer_.set_task_count(tasks_.size());
  }
  return task;
}

Result<void> Tracer::start(const std::string& path, char* const* argv, char* const* envp,
                           std::function<int()> prepare_child) {
  int gate[2];
  if (::pipe2(gate, O_CLOEXEC) != 0) return errno_failure(errno, "pipe2");
  UniqueFd read_end(gate[0]), write_end(gate[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno_failure(errno, "fork");
  if (child == 0) {
    char byte = 0;
    write_end.reset();
    // An end of file means that nobody traces us: then nothing is executed.
    if (::read(read_end.get(), &byte, 1) != 1) ::_exit(1);
    if (prepare_child() != 0) ::_exit(1);
    ::execve(path.c_str(), argv, envp);
    const int failed = errno;
    ::dprintf(2, "%s: exec: %s\n", program_invocation_short_name, ::strerror(failed));
    ::_exit(1);
  }
  if (trace_call(PTRACE_SEIZE, child, 0, static_cast<uintptr_t>(ptrace_options_)) != 0 ||
      trace_call(PTRACE_INTERRUPT, child, 0, 0) != 0) {
    const int failed = errno;
    write_end.reset();
    ::waitpid(child, nullptr, 0);
    return errno_failure(failed, "PTRACE_SEIZE");
  }
  Traced& task = task_for(child);
  task.known = true;
  task.hidden = true;
  program_ = child;
  const char byte = 0;
  // The interrupt stops it inside read(); it goes on when run() answers that stop.
  if (::write(write_end.get(), &byte, 1) != 1) return errno_failure(errno, "write");
  return {};
}

Result<void> Tracer::attach(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/task";
  size_t found = 0;
  int failed = ESRCH;
  // Threads made meanwhile are found by going round until a round brings nothing new.
  for (bool more = true; more;) {
    more = false;
    DIR* const open = ::opendir(directory.c_str());
    if (open == nullptr) break;
    while (const dirent* const entry = ::readdir(open)) {
      const pid_t tid = ::atoi(entry->d_name);
      if (tid <= 0 || tasks_.count(tid) != 0 || (!options_.follow && tid != pid)) continue;
      if (trace_call(PTRACE_SEIZE, tid, 0, static_cast<uintptr_t>(ptrace_options_)) != 0 ||
          trace_call(PTRACE_INTERRUPT, tid, 0, 0) != 0) {
        failed = errno;
        continue;
      }
      Traced& task = task_for(tid);
      task.known = true;
      task.attached = true;
      ++found;
      more = true;
    }
    ::closedir(open);
  }
  if (found == 0) return errno_failure(failed, "attach: ptrace(PTRACE_SEIZE, " + std::to_string(pid) + ")");
  if (program_ == 0) program_ = -1;
  if (options_.quiet == 0) {
    if (found > 1)
      ::dprintf(2, "%s: Process %d attached with %zu threads\n", program_invocation_short_name, pid, found);
    else
      announce(pid, "attached");
  }
  return {};
}

void Tracer::announce(pid_t tid, std::string_view what) {
  ::dprintf(2, "%s: Process %d %.*s\n", program_invocation_short_name, tid, static_cast<int>(what.size()), what.data());
}

int Tracer::run() {
  while (!tasks_.empty()) {
    if (stop_requested_ != 0) {
      detach_all();
      break;
    }
    int status = 0;
    const pid_t tid = ::waitpid(-1, &status, __WALL);
    if (tid < 0) {
      if (errno == EINTR) continue;
      break;
    }
    handle(tid, status);
  }
  return program_status_;
}

void Tracer::handle(pid_t tid, int status) {
  auto at = tasks_.find(tid);
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    if (at == tasks_.end()) return;
    if (tid == program_) program_status_ = status;
    share_.forget(tid);
    if (!at->second.hidden) printer_.ended(at->second, status);
    tasks_.erase(at);
    printer_.set_task_count(tasks_.size());
    return;
  }
  if (!WIFSTOPPED(status)) return;
  const int signal = WSTOPSIG(status);
  const auto event = static_cast<int>(static_cast<unsigned>(status) >> 16);
  if (at == tasks_.end()) {
    if (!options_.follow) return;
    Traced& born = task_for(tid);
    at = tasks_.find(tid);
    born.known = true;
    if (options_.quiet == 0) announce(tid, "attached");
  }
  Traced& task = at->second;
  share_.stopped(tid, task.share);
  switch (event) {
    case 0:
      break;
    case PTRACE_EVENT_EXEC:
      exec_event(tid);
      return;
    case PTRACE_EVENT_SECCOMP:
      syscall_stop(task, true);
      return;
    case kEventStop:
      if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
        printer_.stopped(task, signal);
        trace_call(PTRACE_LISTEN, tid, 0, 0);
        return;
      }
      resume(task, 0);
      return;
    default:
      resume(task, 0);
      return;  // fork, vfork, clone: the child reports itself
  }
  if (signal == kSyscallStop) {
    syscall_stop(task, false);
    return;
  }
  siginfo_t info{};
  const bool known = trace_call(PTRACE_GETSIGINFO, tid, 0, reinterpret_cast<uintptr_t>(&info)) == 0;
  if (!task.hidden) printer_.signal(task, signal, known ? &info : nullptr);
  resume(task, signal);
}

void Tracer::exec_event(pid_t tid) {
  unsigned long old_tid = 0;
  trace_call(PTRACE_GETEVENTMSG, tid, 0, reinterpret_cast<uintptr_t>(&old_tid));
  const auto old = static_cast<pid_t>(old_tid);
  if (old != tid && old != 0) {
    // R33: a thread that was not the leader takes the leader's id, the leader is gone.
    const auto leader = tasks_.find(tid);
    const auto executor = tasks_.find(old);
    share_.forget(old);
    share_.forget(tid);
    if (executor != tasks_.end()) {
      Traced moved = std::move(executor->second);
      if (leader != tasks_.end()) printer_.superseded(leader->second, old);
      if (!options_.separate && moved.stream->open == old) moved.stream->open = -1;
      if (options_.separate && leader != tasks_.end()) {
        printer_.pid_changed(moved, tid);
        moved.stream = leader->second.stream;
        moved.printed = 0;
      }
      tasks_.erase(old);
      moved.tid = tid;
      moved.call.tid = tid;
      moved.share = {};
      tasks_.insert_or_assign(tid, std::move(moved));
    }
    printer_.set_task_count(tasks_.size());
  }
  const auto at = tasks_.find(tid);
  if (at != tasks_.end()) resume(at->second, 0);
}

void Tracer::resume(Traced& task, int signal) {
  share_.resuming(task.tid, task.share);
  // With seccomp stops only a call that is being traced needs its exit; everything else runs free.
  const int request = options_.seccomp && !task.expects_exit && !task.hidden ? PTRACE_CONT : PTRACE_SYSCALL;
  trace_call(request, task.tid, 0, static_cast<uintptr_t>(signal));
}

void Tracer::syscall_stop(Traced& task, bool by_seccomp) {
  __ptrace_syscall_info info{};
  const long size = trace_call(PTRACE_GET_SYSCALL_INFO, task.tid, sizeof info, reinterpret_cast<uintptr_t>(&info));
  if (size <= 0) {
    resume(task, 0);  // killed meanwhile: its end comes next
    return;
  }
  const uint64_t now = options_.durations || options_.summary ? kernel::monotonic_ns() : 0;
  if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
    if (task.in_call) {
      task.call.result = info.exit.rval;
      task.call.failed = info.exit.is_error != 0;
      call_left(task);
    }
    task.in_call = false;
    task.expects_exit = false;
    resume(task, 0);
    return;
  }
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY && info.op != PTRACE_SYSCALL_INFO_SECCOMP) {
    resume(task, 0);
    return;
  }
  // A seccomp stop in a call whose entry was already seen (the program's first execve) is the same call.
  if (by_seccomp && task.in_call) {
    resume(task, 0);
    return;
  }
  Call& call = task.call;
  call.tid = task.tid;
  call.previous = call.row;
  call.number = info.entry.nr;
  std::copy_n(info.entry.args, 6, call.args.begin());
  call.instruction_pointer = info.instruction_pointer;
  call.stack_pointer = info.stack_pointer;
  const bool native = kernel::arch_from_audit(info.arch) == kernel::kNativeArch;
  call.row = native && info.entry.nr <= UINT32_MAX
                 ? kernel::find_syscall(kernel::kNativeArch, static_cast<uint32_t>(info.entry.nr))
                 : nullptr;
  call.result = 0;
  call.failed = false;
  if (task.hidden) {
    // Ours until it executes the program.
    if (call.row == nullptr || call.row->name != "execve") {
      resume(task, 0);
      return;
    }
    task.hidden = false;
  }
  task.in_call = true;
  task.expects_exit = true;
  task.entered_ns = now;
  call_entered(task);
  resume(task, 0);
}

void Tracer::call_entered(Traced& task) {
  Call& call = task.call;
  // Children inherit a mask, and who asks for one gets the truth: the pin goes first.
  if (task.share.pinned && call.row != nullptr && changes_affinity(call.row->name)) {
    if (call.row->name == "sched_setaffinity") task.share.own_mask = true;
    share_.release(task.tid, task.share);
  }
  if (call.row != nullptr && call.row->name == "sched_setaffinity") {
    // Whose mask it sets may be anybody's: all pins end.
    for (auto& [tid, other] : tasks_) {
      share_.release(tid, other.share);
      other.share.own_mask = true;
    }
  }
  task.injected.clear();
  task.inject_rule = 0;
  task.shown = passes(task);
  if (task.shown || !options_.injections.empty()) {
    task.line.clear();
    if (task.shown && !options_.summary_only) decoder_.entry(call, task.line);
    if (!options_.injections.empty()) inject_at_entry(task);
    printer_.entered(task);
  }
}

void Tracer::call_left(Traced& task) {
  if (task.inject_rule != 0) inject_at_exit(task);
  if (!task.shown) return;
  if (options_.summary)
    summary_.count(task.call, options_.wall_summary ? kernel::monotonic_ns() - task.entered_ns
                                                    : call_cpu_ns(task.tid, task.cpu_ns));
  if (options_.summary_only) return;
  decoder_.exit(task.call, task.line);
  printer_.left(task);
}

bool Tracer::passes(const Traced& task) {
  if (!options_.calls.has(task.call.row)) return false;
  if (options_.paths.empty() && options_.prefixes.empty()) return true;
  return path_matches(task);
}

bool Tracer::path_matches(const Traced& task) { return call_touches(task.call, options_.paths, options_.prefixes); }

void Tracer::inject_at_entry(Traced& task) {
  for (size_t i = 0; i < options_.injections.size(); ++i) {
    const Injection& rule = options_.injections[i];
    if (!rule.calls.has(task.call.row)) continue;
    const uint32_t count = ++task.inject_counts[i];
    if (count < rule.first || count > rule.last || (count - rule.first) % rule.step != 0) continue;
    task.inject_rule = static_cast<uint32_t>(i) + 1;
    // The number becomes -1, which the kernel answers with ENOSYS without doing anything; the result is set at exit.
    if ((rule.error || rule.retval) && !set_call_number(task.tid, -1)) task.inject_rule = 0;
    if (rule.signal) ::syscall(SYS_tgkill, thread_group(task.tid), task.tid, *rule.signal);
    if (rule.delay_enter_us != 0) ::usleep(static_cast<useconds_t>(rule.delay_enter_us));
    return;
  }
}

void Tracer::inject_at_exit(Traced& task) {
  const Injection& rule = options_.injections[task.inject_rule - 1];
  if (rule.error || rule.retval) {
    const int64_t result = rule.error ? -static_cast<int64_t>(*rule.error) : static_cast<int64_t>(*rule.retval);
    if (set_call_result(task.tid, result)) {
      task.call.failed = rule.error.has_value();
      task.call.result = result;
      task.injected = " (INJECTED)";
    }
  } else if (rule.signal) {
    task.injected = " (INJECTED)";
  }
  if (rule.delay_enter_us != 0 || rule.delay_exit_us != 0) task.injected += " (DELAYED)";
  if (rule.delay_exit_us != 0) ::usleep(static_cast<useconds_t>(rule.delay_exit_us));
}

void Tracer::detach_all() {
  // Each has to stop before it can be let go. Who ends meanwhile is waited for like ever.
  for (auto& [tid, task] : tasks_) {
    share_.release(tid, task.share);
    trace_call(PTRACE_INTERRUPT, tid, 0, 0);
  }
  while (!tasks_.empty()) {
    int status = 0;
    const pid_t tid = ::waitpid(-1, &status, __WALL);
    if (tid < 0) {
      if (errno == EINTR) continue;
      return;
    }
    const auto at = tasks_.find(tid);
    if (WIFSTOPPED(status)) {
      const int signal = WSTOPSIG(status);
      const bool delivers = (static_cast<unsigned>(status) >> 16) == 0 && signal != kSyscallStop;
      trace_call(PTRACE_DETACH, tid, 0, static_cast<uintptr_t>(delivers ? signal : 0));
      if (at != tasks_.end()) {
        printer_.detached(at->second);
        if (options_.quiet == 0) announce(tid, "detached");
      }
    }
    if (at != tasks_.end()) tasks_.erase(at);
  }
}

}  // namespace srun::trace
