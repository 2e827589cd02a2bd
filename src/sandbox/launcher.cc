#include "sandbox/launcher.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <vector>

#include "kernel/sys.h"
#include "sandbox/child.h"
#include "sandbox/landlock.h"

namespace srun::sandbox {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// /proc/self/status is the only witness of filters that an outer sandbox put on us.
std::string outer_filters() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.rfind("Seccomp_filters:", 0) == 0) return line.substr(line.find_first_of("0123456789", 16));
  return "an unknown number of";
}

Error seccomp_error(int error) {
  if (error == EBUSY)
    return Error::from_errno(
        error, "seccomp listener", "",
        "an outer sandbox or container runtime already listens on this process (it has " + outer_filters() +
            " seccomp filters), and the kernel allows one listener per process; run sandbox-run outside it, or "
            "start the container without a notify profile (WSL2: outside the mirrored network mode)");
  if (error == EACCES) return Error::from_errno(error, "seccomp", "", "no_new_privs could not be set");
  return Error::from_errno(error, "seccomp(SECCOMP_SET_MODE_FILTER)");
}

}  // namespace

Result<LaunchStatus> LaunchStatus::create() {
  void* const page = mmap(nullptr, sizeof(HandOver), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return errno_failure(errno, "mmap", "hand-over page");
  return LaunchStatus(new (page) HandOver);
}

LaunchStatus::LaunchStatus(LaunchStatus&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
LaunchStatus::~LaunchStatus() {
  if (page_ != nullptr) munmap(page_, sizeof(HandOver));
}

std::optional<Error> LaunchStatus::failure_of_child(const LaunchPlan& plan) const {
  const auto step = static_cast<Step>(page_->failed_step.load(std::memory_order_acquire));
  const int error = page_->error.load(std::memory_order_relaxed);
  const char* const subject = page_->subject.load(std::memory_order_relaxed);
  switch (step) {
    case Step::kNone:
      return std::nullopt;
    case Step::kParent:
      return Error::from_errno(error, "launch", "", "the supervisor or the guard ended meanwhile");
    case Step::kChdir:
      return Error::from_errno(error, "chdir", plan.directory);
    case Step::kMounts:
      return Error::from_errno(
          error, "private mount namespace", subject != nullptr ? subject : "",
          "as root the kernel's control files must be masked; run as an ordinary user, or where mount namespaces work");
    case Step::kUserNamespace:
      return Error::from_errno(error, "user namespace", "",
                               "the policy takes paths away by covering them; without user namespaces give "
                               "--pretend-missing user-namespace");
    case Step::kMasks:
      return Error::from_errno(error, "cover what the policy takes away", subject != nullptr ? subject : "");
    case Step::kDirectory:
      return Error::from_errno(error, "enter the working directory again", "", "the policy may have covered it");
    case Step::kCapabilities:
      return Error::from_errno(error, "restrict capabilities");
    case Step::kNoNewPrivs:
      return Error::from_errno(error, "prctl(PR_SET_NO_NEW_PRIVS)");
    case Step::kLandlock:
      return Error::from_errno(error, "landlock_restrict_self");
    case Step::kDescriptors:
      return Error::from_errno(error, "mark descriptors close-on-exec");
    case Step::kSeccomp:
      return seccomp_error(error);
    case Step::kExec:
      return Error::from_errno(error, "run", plan.program);
  }
  return Error::from_text("launch", "", "the child reported an unknown step");
}

Result<Launched> launch(const LaunchPlan& plan, const LaunchStatus& status, BorrowedFd guard_pidfd) {
  UniqueFd ruleset;
  if (plan.scope_signals || !plan.landlock.empty()) {
    Result<UniqueFd> made = make_ruleset(plan.landlock, plan.scope_signals ? kernel::kLandlockScopeSignal : 0);
    if (!made) return failure(made.error());
    ruleset = std::move(*made);
  }
  std::vector<char*> argv = pointers(plan.arguments);
  std::vector<char*> envp = pointers(plan.environment);
  const size_t slash = plan.program.rfind('/');
  const ChildArguments arguments{&plan,
                                 &status.page(),
                                 argv.data(),
                                 envp.data(),
                                 plan.program.c_str() + (slash == std::string::npos ? 0 : slash + 1),
                                 ruleset.get(),
                                 guard_pidfd.get(),
                                 getpid()};

  // A shared descriptor table makes the listener's number valid here the moment the child has it, with no call of the
  // filtered child and no pidfd_getfd, which Docker's default profile refuses.
  int pidfd = -1;
  clone_args clone_arguments{};
  clone_arguments.flags = CLONE_FILES | CLONE_PIDFD;
  clone_arguments.exit_signal = SIGCHLD;
  clone_arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  long pid = syscall(SYS_clone3, &clone_arguments, sizeof clone_arguments);
  if (pid < 0 && (errno == ENOSYS || errno == EPERM)) {
    // Docker's default profile hides clone3. The old call has the same meaning; its pidfd pointer is the parent_tid.
#if defined(__x86_64__)
    pid = syscall(SYS_clone, CLONE_FILES | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
#else
    pid = syscall(SYS_clone, CLONE_FILES | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
#endif
  }
  if (pid < 0) return errno_failure(errno, "clone");
  if (pid == 0) run_child(arguments);

  Launched launched;
  launched.pid = static_cast<pid_t>(pid);
  launched.pidfd = UniqueFd(pidfd);
  HandOver& page = status.page();
  for (unsigned round = 0;; ++round) {
    const int listener = page.listener.load(std::memory_order_acquire);
    if (listener >= 0) {
      launched.listener = UniqueFd(listener);
      launched.wait_killable = page.wait_killable.load(std::memory_order_relaxed);
      return launched;
    }
    if (page.failed_step.load(std::memory_order_acquire) != 0 || kernel::pidfd_ended(launched.pidfd.borrow())) break;
    // Short naps: the child needs a CPU more than we do; the whole set-up takes some hundred microseconds.
    const timespec nap{0, round < 20 ? 20'000 : 200'000};
    nanosleep(&nap, nullptr);
  }
  // A child that ended right after storing its listener (a pending signal at the mask's restoration) is a launched one.
  if (const int listener = page.listener.load(std::memory_order_acquire); listener >= 0) {
    launched.listener = UniqueFd(listener);
    launched.wait_killable = page.wait_killable.load(std::memory_order_relaxed);
    return launched;
  }
  int wait_status = 0;
  kill(launched.pid, SIGKILL);  // it may hang in a denied exit; ESRCH is impossible, it is our unreaped child
  while (waitpid(launched.pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (std::optional<Error> error = status.failure_of_child(plan)) return failure(*error);
  return failure(
      Error::from_text("launch", "",
                       WIFSIGNALED(wait_status)
                           ? "killed by signal " + std::to_string(WTERMSIG(wait_status)) + " before the program started"
                           : "the child ended before the program started"));
}

}  // namespace srun::sandbox
