#include "supervisor/dispatcher.h"

#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kernel/arch.h"
#include "policy/lowering.h"

using namespace srun;
using namespace srun::supervisor;

namespace {

// The guard layer alone, as the supervisor has it: this process plays the supervisor, a child the program.
struct Bench {
  explicit Bench(const policy::LoweringOptions& options) : enforcement(*policy::lower(policy::PolicyStack{}, options)) {
    child = fork();
    if (child == 0) {
      while (true) pause();
    }
    task.tid = child;
  }
  ~Bench() {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  Answer ask(long nr, std::initializer_list<uint64_t> args, uint32_t arch = kernel::audit_arch(kernel::kNativeArch)) {
    Notification notification;
    notification.tid = child;
    bpf::CallData& call = notification.call;
    call.nr = static_cast<int32_t>(nr);
    call.arch = arch;
    std::copy(args.begin(), args.end(), std::begin(call.args));
    Affinity affinity(ServiceMode::kSync, false, cpu_set_t{}, BorrowedFd(), tasks);
    SlowCalls slow;
    return Dispatcher(enforcement, Membership(getpid(), getppid()), affinity, slow).decide(notification, task, 1);
  }

  policy::Enforcement enforcement;
  pid_t child = -1;
  TaskTable tasks;
  TaskRecord task;
};

policy::LoweringOptions without_landlock() {
  policy::LoweringOptions options;
  options.signal_scope = false;
  options.landlock_domain = false;
  return options;
}

uint64_t number(pid_t pid) { return static_cast<uint32_t>(pid); }

}  // namespace

TEST_CASE("dispatcher: a question about a call that the copy allows is refused as an internal error (H20)") {
  Bench bench{policy::LoweringOptions{}};
  const Answer answer = bench.ask(SYS_getpid, {});
  CHECK(answer.kind == Answer::Kind::kErrno);
  CHECK(answer.value == EPERM);
  CHECK(answer.internal_error);
}

TEST_CASE("dispatcher: prlimit64 acts on self and members, never on supervisor, guard, init or a thread of ours (H4)") {
  Bench bench{policy::LoweringOptions{}};
  CHECK(bench.ask(SYS_prlimit64, {number(bench.child), 0, 0x1000, 0}).kind == Answer::Kind::kContinue);
  for (const pid_t outsider : {getpid(), getppid(), gettid(), pid_t{1}}) {
    const Answer answer = bench.ask(SYS_prlimit64, {number(outsider), 0, 0x1000, 0});
    CHECK(answer.kind == Answer::Kind::kErrno);
    CHECK(answer.value == EPERM);
    CHECK_FALSE(answer.internal_error);
  }
  // A number that nobody has gets the kernel's own answer and is no denial.
  const Answer nobody = bench.ask(SYS_prlimit64, {0x3ffffff0, 0, 0x1000, 0});
  CHECK(nobody.value == ESRCH);
  CHECK_FALSE(nobody.report);
  // Garbage above bit 31 does not hide the supervisor's number: pid_t is 32 bits wide.
  CHECK(bench.ask(SYS_prlimit64, {0x5a5a5a5a00000000 | number(getpid()), 0, 0x1000, 0}).kind == Answer::Kind::kErrno);
}

TEST_CASE("dispatcher: setpriority passes for members and is refused for groups and users, which guard and supervisor share (H4)") {
  Bench bench{policy::LoweringOptions{}};
  CHECK(bench.ask(SYS_setpriority, {0, number(bench.child), 5}).kind == Answer::Kind::kContinue);
  CHECK(bench.ask(SYS_setpriority, {0, number(getpid()), 5}).value == EPERM);
  CHECK(bench.ask(SYS_setpriority, {1, 0, 5}).value == EPERM);
  CHECK(bench.ask(SYS_setpriority, {2, 0, 5}).value == EPERM);
  CHECK(bench.ask(SYS_ioprio_set, {1, number(bench.child), 0}).kind == Answer::Kind::kContinue);
  CHECK(bench.ask(SYS_ioprio_set, {2, 0, 0}).value == EPERM);
  CHECK(bench.ask(SYS_ioprio_set, {0, 0, 0}).value == EPERM);
}

TEST_CASE("dispatcher: the supervisor is nobody's tracer and nobody's tracee") {
  Bench bench{policy::LoweringOptions{}};
  CHECK(bench.ask(SYS_ptrace, {PTRACE_TRACEME}).value == EPERM);
  CHECK(bench.ask(SYS_ptrace, {PTRACE_ATTACH, number(getpid())}).value == EPERM);
  CHECK(bench.ask(SYS_ptrace, {PTRACE_SEIZE, number(getppid())}).value == EPERM);
}

TEST_CASE("dispatcher: without a signal scope, kill reaches members only, and 0 and -1 are carried out over members") {
  Bench bench{without_landlock()};
  CHECK(bench.ask(SYS_kill, {number(bench.child), SIGTERM}).kind == Answer::Kind::kContinue);
  CHECK(bench.ask(SYS_kill, {number(getpid()), SIGTERM}).value == EPERM);
  CHECK(bench.ask(SYS_tgkill, {number(getpid()), number(bench.child), SIGTERM}).value == EPERM);
  // kill(0, 0): the group has this process in it; the answer comes from here and no CONTINUE is given.
  const Answer group = bench.ask(SYS_kill, {0, 0});
  CHECK(group.kind == Answer::Kind::kValue);
  CHECK(group.value == 0);
  // kill(-1) leaves out the caller, and there is no other member.
  const Answer all = bench.ask(SYS_kill, {0xffffffff, SIGTERM});
  CHECK(all.kind == Answer::Kind::kErrno);
  CHECK(all.value == ESRCH);
  CHECK(bench.ask(SYS_kill, {0xffffffff, 999}).value == EINVAL);
  CHECK(bench.ask(SYS_fcntl, {0, 8, number(getpid())}).value == EPERM);
  CHECK(bench.ask(SYS_fcntl, {0, 8, number(-getpgrp())}).value == EPERM);
  CHECK(bench.ask(SYS_fcntl, {0, 8, number(bench.child)}).kind == Answer::Kind::kContinue);
}

TEST_CASE("dispatcher: every answer that lets a call run on has a reason") {
  Bench bench{policy::LoweringOptions{}};
  const Answer answer = bench.ask(SYS_prlimit64, {number(bench.child), 0, 0x1000, 0});
  CHECK(answer.reason != ContinueReason::kNone);
}

TEST_CASE("dispatcher: calls of another ABI and x32 numbers get ENOSYS and are reported") {
  Bench bench{policy::LoweringOptions{}};
  const Answer foreign = bench.ask(20, {}, kernel::kAuditI386);
  CHECK(foreign.value == ENOSYS);
  CHECK(foreign.report);
  if (kernel::kNativeArch == kernel::Arch::kX86_64) CHECK(bench.ask(static_cast<long>(kernel::kX32Bit | 39), {}).value == ENOSYS);
}
