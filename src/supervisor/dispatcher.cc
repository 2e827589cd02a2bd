#include "supervisor/dispatcher.h"

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "kernel/arch.h"
#include "kernel/sys.h"
#include "kernel/syscall_table.h"

namespace srun::supervisor {
namespace {

uint64_t pid_namespace_inode(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Dispatcher::Dispatcher(const policy::Enforcement& enforcement, Membership membership, Affinity& affinity,
                       SlowCalls& slow, const bpf::RunnerOptions& engine)
    : enforcement_(enforcement),
      verdicts_(enforcement.programs->copy, kernel::audit_arch(kernel::kNativeArch), engine),
      membership_(membership),
      affinity_(affinity),
      files_(enforcement.files.present ? std::make_unique<FileBroker>(enforcement.files, membership, slow) : nullptr),
      network_(enforcement.network.present
                   ? std::make_unique<NetworkBroker>(enforcement.network, enforcement.files, membership, slow)
                   : nullptr),
      own_pid_namespace_(pid_namespace_inode("/proc/self/ns/pid")) {}

Answer Dispatcher::decide(const Notification& notification, TaskRecord& task, uint64_t now) {
  const bpf::CallData& call = notification.call;
  const uint32_t result = verdicts_.evaluate(call);
  const uint16_t id = result & bpf::kRetDataMask;
  Answer answer;
  if (id >= enforcement_.verdicts.size() || enforcement_.returns[id].copy_return != result ||
      enforcement_.returns[id].kernel_return != bpf::kRetUserNotif) {
    // The kernel asked about a call for which the copy knows no reason to ask. One of the two is wrong: refuse (H20).
    answer = Answer::refuse(EPERM);
    answer.internal_error = true;
    answer.verdict = id < enforcement_.verdicts.size() ? id : 0;
    return answer;
  }
  const policy::Verdict& verdict = enforcement_.verdicts[id];
  switch (verdict.action) {
    case policy::Action::kErrno:
      answer = Answer::refuse(verdict.value);
      break;
    case policy::Action::kReturn:
      answer.kind = Answer::Kind::kValue;
      answer.value = verdict.value;
      answer.report = true;
      answer.outcome = report::Outcome::kReturned;
      break;
    case policy::Action::kLog:
      answer = Answer::go_on(ContinueReason::kRuleOnScalars);
      answer.report = true;
      answer.outcome = verdict.audited == policy::Action::kAllow ? report::Outcome::kLogged : report::Outcome::kAudited;
      answer.value = verdict.value;
      break;
    case policy::Action::kCheck:
      answer = check(verdict, notification, task, now);
      // A broker names the rule that decided; a check on processes is its own rule.
      if (verdict.check == policy::Check::kFile || verdict.check == policy::Check::kNetwork) {
        // Refused without a rule of a section: the check itself is the reason. Verdict 0 is the guard's, never a
        // section's.
        if (answer.report && answer.verdict == 0) answer.verdict = id;
        if (answer.report && answer.verdict < enforcement_.verdicts.size() &&
            enforcement_.verdicts[answer.verdict].quiet)
          answer.report = false;
        return answer;
      }
      break;
    case policy::Action::kAllow:
    case policy::Action::kTrap:
    case policy::Action::kKill:
      // Decided in the kernel; project() never makes a notification of them.
      answer = Answer::refuse(EPERM);
      answer.internal_error = true;
      break;
  }
  if (verdict.quiet) answer.report = false;
  answer.verdict = id;
  return answer;
}

bool Dispatcher::foreign_pid_namespace(pid_t tid) const {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/ns/pid", tid);
  return pid_namespace_inode(path.data()) != own_pid_namespace_;
}

Answer Dispatcher::check(const policy::Verdict& verdict, const Notification& notification, TaskRecord& task,
                         uint64_t now) {
  if (verdict.check == policy::Check::kFile && files_ != nullptr) return files_->serve(notification);
  if (verdict.check == policy::Check::kNetwork && network_ != nullptr) return network_->serve(notification);
  return check_process(verdict.check, notification.call, task, now);
}

Answer Dispatcher::check_process(policy::Check check, const bpf::CallData& call, TaskRecord& task, uint64_t now) {
  // In another pid namespace ("unsafe": namespaces) the numbers in the registers are not ours to look up.
  if (foreign_pid_namespace(task.tid)) return Answer::refuse(EPERM);
  const auto argument = [&](int index) { return static_cast<int32_t>(call.args[index]); };
  switch (check) {
    case policy::Check::kNone:
    case policy::Check::kFile:
    case policy::Check::kNetwork:
      break;  // without a broker: an internal error
    case policy::Check::kPidArgument0:
      return check_pid(argument(0), task);
    case policy::Check::kTgidTid: {
      const Answer group = check_pid(argument(0), task);
      return group.kind == Answer::Kind::kContinue ? check_pid(argument(1), task) : group;
    }
    case policy::Check::kPriority:
      return check_priority(call, task);
    case policy::Check::kPtrace:
      return check_ptrace(call, task);
    case policy::Check::kKill:
      return check_kill(argument(0), argument(1), task);
    case policy::Check::kOwnerArgument2: {
      const int32_t owner = argument(2);
      if (owner > 0) return check_pid(owner, task);
      // A group: only its own, and only if no outsider is in it; guard and supervisor share the first group (H23).
      return Answer::refuse(EPERM);
    }
    case policy::Check::kAffinity: {
      const kernel::Syscall* const row = kernel::find_syscall(kernel::kNativeArch, static_cast<uint32_t>(call.nr));
      const bool sets = row != nullptr && row->name == "sched_setaffinity";
      const int32_t pid = argument(0);
      if (pid != 0) {
        const Answer member = check_pid(pid, task);
        if (member.kind != Answer::Kind::kContinue) {
          // Reading an outsider's mask changes nothing and it is never pinned; only setting it is an act on it.
          return sets ? member : Answer::go_on(ContinueReason::kAffinityOfMember);
        }
      }
      affinity_.before_affinity_call(task, pid, sets, now);
      return Answer::go_on(ContinueReason::kAffinityOfMember);
    }
  }
  Answer answer = Answer::refuse(EPERM);
  answer.internal_error = true;
  return answer;
}

Answer Dispatcher::check_pid(int32_t pid, TaskRecord& task) {
  if (pid == 0 || pid == task.tid) return Answer::go_on(ContinueReason::kSelf);
  if (pid < 0) return Answer::refuse(EINVAL);
  if (membership_.is_member(pid)) return Answer::go_on(ContinueReason::kMemberProcess);
  Answer answer = Answer::refuse(EPERM);
  if (kill(pid, 0) != 0 && errno == ESRCH) {
    // It does not exist: the kernel's own answer, and nothing was refused.
    answer.value = ESRCH;
    answer.report = false;
  }
  return answer;
}

// Without a signal scope in the kernel: 0, -1 and groups would reach guard, supervisor and outsiders, so they are
// carried out here, one member after the other.
Answer Dispatcher::check_kill(int32_t pid, int32_t signal, TaskRecord& task) {
  if (pid > 0) return check_pid(pid, task);
  if (signal < 0 || signal > SIGRTMAX) {
    Answer answer = Answer::refuse(EINVAL);
    answer.report = false;
    return answer;
  }
  const std::optional<TaskStatus> caller = task_status(task.tid);
  if (!caller) return Answer::refuse(ESRCH);
  const pid_t group = pid == 0 ? getpgid(caller->tgid) : pid == -1 ? 0 : -pid;
  Answer answer;
  answer.kind = Answer::Kind::kErrno;
  answer.value = ESRCH;
  bool self = false;
  for (const pid_t member : descendants(membership_.supervisor())) {
    if (group != 0 && getpgid(member) != group) continue;
    if (member == caller->tgid) {
      self = pid != -1;  // kill(2): -1 leaves out the caller
      continue;
    }
    const Result<UniqueFd> pidfd = kernel::pidfd_open(member);
    if (!pidfd || !membership_.is_member(member)) continue;
    const Result<void> sent = kernel::pidfd_send_signal(pidfd->borrow(), signal);
    if (sent) {
      answer.kind = Answer::Kind::kValue;
      answer.value = 0;
    } else if (answer.kind == Answer::Kind::kErrno && sent.error().code == EPERM) {
      answer.value = EPERM;
    }
  }
  // The caller last: the signal may end it before the answer.
  if (self) {
    const Result<UniqueFd> pidfd = kernel::pidfd_open(caller->tgid);
    if (pidfd && kernel::pidfd_send_signal(pidfd->borrow(), signal)) {
      answer.kind = Answer::Kind::kValue;
      answer.value = 0;
    }
  }
  return answer;
}

Answer Dispatcher::check_priority(const bpf::CallData& call, TaskRecord& task) {
  // setpriority(which, who, …) and ioprio_set(which, who, …) number `which` differently: PRIO_PROCESS is 0, and
  // IOPRIO_WHO_PROCESS is 1 (ioprio_set(2)). Groups and users reach guard and supervisor, which share both.
  const kernel::Syscall* const row = kernel::find_syscall(kernel::kNativeArch, static_cast<uint32_t>(call.nr));
  const int32_t process = row != nullptr && row->name == "ioprio_set" ? 1 : PRIO_PROCESS;
  if (static_cast<int32_t>(call.args[0]) != process) return Answer::refuse(EPERM);
  return check_pid(static_cast<int32_t>(call.args[1]), task);
}

Answer Dispatcher::check_ptrace(const bpf::CallData& call, TaskRecord& task) {
  if (call.args[0] == PTRACE_TRACEME) {
    // It would make the parent the tracer: fine between members, but the supervisor is nobody's debugger.
    const std::optional<TaskStatus> status = task_status(task.tid);
    if (!status || status->ppid == membership_.supervisor() || status->ppid == membership_.guard())
      return Answer::refuse(EPERM);
    return Answer::go_on(ContinueReason::kMemberProcess);
  }
  const auto pid = static_cast<int32_t>(call.args[1]);
  if (pid <= 0) {
    Answer answer = Answer::refuse(ESRCH);
    answer.report = false;
    return answer;
  }
  return check_pid(pid, task);
}

}  // namespace srun::supervisor
