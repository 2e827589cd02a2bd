#include "sandbox/child.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "kernel/sys.h"
#include "sandbox/capabilities.h"
#include "sandbox/masks.h"
#include "sandbox/mounts.h"

namespace srun::sandbox {
namespace {

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
constexpr unsigned kCloseRangeCloexec = 1u << 2;  // CLOSE_RANGE_CLOEXEC, Linux 5.11

[[noreturn]] void fail(HandOver& page, Step step, int error, const char* subject = nullptr) {
  page.error.store(error, std::memory_order_relaxed);
  page.subject.store(subject, std::memory_order_relaxed);
  page.failed_step.store(static_cast<int>(step), std::memory_order_release);
  // The filter may deny any of these (an OCI profile without exit_group): the last one needs no system call.
  while (true) {
    syscall(SYS_exit_group, 125);
    syscall(SYS_exit, 125);
    __builtin_trap();
  }
}

int set_close_on_exec_from_3() {
  if (syscall(SYS_close_range, 3u, ~0u, kCloseRangeCloexec) == 0) return 0;
  if (errno != ENOSYS && errno != EINVAL) return errno;
  // Before Linux 5.11. Ours are all close-on-exec from birth and take_inherited_descriptors() marked the rest, so this
  // is the second line of defence only.
  for (int fd = 3; fd < 1024; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  return 0;
}

bool has_ended(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) != 0;  // an error counts as ended
}

}  // namespace

void run_child(const ChildArguments& arguments) {
  const LaunchPlan& plan = *arguments.plan;
  HandOver& page = *arguments.hand_over;

  // The parent may have died before the request was in place: then nobody would send the signal (bubblewrap#633).
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(page, Step::kParent, errno);
  if (getppid() != arguments.supervisor || has_ended(arguments.guard_pidfd)) fail(page, Step::kParent, ESRCH);

  if (!plan.directory.empty() && chdir(plan.directory.c_str()) != 0) fail(page, Step::kChdir, errno);

  if (plan.user_namespace) {
    if (const int error = enter_user_namespace(getuid(), getgid())) fail(page, Step::kUserNamespace, error);
    // Cleared by the change of credentials.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(page, Step::kParent, errno);
    if (getppid() != arguments.supervisor || has_ended(arguments.guard_pidfd)) fail(page, Step::kParent, ESRCH);
  }
  if (plan.private_mounts || plan.user_namespace) {
    const char* path = nullptr;
    if (plan.private_mounts) {
      if (const int error = enter_private_mounts(plan.control_mounts, &path)) fail(page, Step::kMounts, error, path);
    }
    if (const int error = cover_paths(plan.masks, &path)) fail(page, Step::kMasks, error, path);
    // The working directory is still on the old mounts of the same tree; walk to it again in the new namespace so that
    // a directory below a covered path is seen as covered. A directory that can't be re-entered stays as it is.
    char buffer[4096];
    const bool known = getcwd(buffer, sizeof buffer) != nullptr && buffer[0] == '/';
    // With paths covered, the old directory could be one of them, seen as it was before.
    if ((!known || chdir(buffer) != 0) && !plan.masks.empty()) fail(page, Step::kDirectory, known ? errno : ENOENT);
  }
  if (plan.restrict_capabilities || plan.user_namespace) {
    if (const int error = restrict_capabilities(plan.capabilities)) fail(page, Step::kCapabilities, error);
  }

  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(page, Step::kNoNewPrivs, errno);
  if (arguments.landlock_ruleset >= 0 && syscall(SYS_landlock_restrict_self, arguments.landlock_ruleset, 0) != 0)
    fail(page, Step::kLandlock, errno);

  // Only the flag is set, never a descriptor closed: the table is the supervisor's too until execve unshares it.
  if (const int error = set_close_on_exec_from_3()) fail(page, Step::kDescriptors, error);
  for (const int fd : plan.kept_descriptors)
    if (fcntl(fd, F_SETFD, 0) != 0) fail(page, Step::kDescriptors, errno);

  // The supervisor reads the path of the first execve too, and a copy of an undumpable process is as unreadable as that
  // is. Nothing that could profit runs yet, and what this process becomes is dumpable or not by its own file.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) fail(page, Step::kParent, errno);

  // A refused execve is reported under the program's name, not under ours.
  prctl(PR_SET_NAME, arguments.name, 0, 0, 0);
  if (has_ended(arguments.guard_pidfd)) fail(page, Step::kParent, ESRCH);
  // Pending signals are delivered here, as they would be to a program started without a sandbox.
  if (sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr) != 0) fail(page, Step::kParent, errno);

  const sock_fprog program{static_cast<unsigned short>(plan.filter.size()),
                           reinterpret_cast<sock_filter*>(const_cast<bpf::Instruction*>(plan.filter.data()))};
  unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  if (plan.wait_killable) flags |= SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (listener < 0 && errno == EINVAL && plan.wait_killable) {
    flags &= ~SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  }
  if (listener < 0) fail(page, Step::kSeccomp, errno);

  // From here on every system call of this process is filtered. The hand-over is a store (nono#1208: a send deadlocks).
  page.wait_killable.store((flags & SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) != 0, std::memory_order_relaxed);
  page.listener.store(static_cast<int>(listener), std::memory_order_release);
  syscall(SYS_execve, plan.program.c_str(), arguments.argv, arguments.envp);
  fail(page, Step::kExec, errno);
}

}  // namespace srun::sandbox
