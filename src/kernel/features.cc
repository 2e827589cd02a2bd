#include "kernel/features.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "kernel/sys.h"

namespace srun::kernel {
namespace {

// With a null program the kernel checks the flags first: EINVAL for an unknown flag, EFAULT for a known one.
bool seccomp_flag_known(unsigned long flag) {
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flag, nullptr) == -1 && errno == EFAULT;
}

}  // namespace

KernelVersion parse_kernel_version(std::string_view release) {
  KernelVersion version;
  const char* const end = release.data() + release.size();
  const auto [dot, first_error] = std::from_chars(release.data(), end, version.major);
  if (first_error != std::errc{} || dot == end || *dot != '.') return {};
  const auto [rest, second_error] = std::from_chars(dot + 1, end, version.minor);
  if (second_error != std::errc{}) return {};
  return version;
}

Result<Features> probe_features(const PretendMissing& pretend_missing) {
  Features features;
  utsname names{};
  if (uname(&names) != 0) return errno_failure(errno, "uname");
  features.release = names.release;
  features.kernel = parse_kernel_version(features.release);
  features.root = geteuid() == 0;

  if (!pretend_missing.landlock) features.landlock_abi = landlock_abi();
  features.signal_scope = features.landlock_abi >= 6;
  features.sync_wake_up = features.kernel >= KernelVersion{6, 6} && !pretend_missing.sync_wake;
  if (!seccomp_flag_known(SECCOMP_FILTER_FLAG_NEW_LISTENER)) {
    const int error = errno;
    if (error == EPERM || error == EACCES || error == ENOSYS)
      return errno_failure(error, "seccomp user notification", "",
                           "an outer sandbox refuses listeners (inside sandbox-run: its guard layer); run outside it");
    return errno_failure(error, "seccomp user notification", "",
                         "this kernel does not offer it: Linux 5.0 with CONFIG_SECCOMP_FILTER is needed");
  }
  seccomp_notif_sizes sizes{};
  if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
    return errno_failure(errno, "seccomp(SECCOMP_GET_NOTIF_SIZES)");
  // The structures have not grown since 5.0; a kernel where they have would write beyond ours.
  if (sizes.seccomp_notif > sizeof(seccomp_notif) || sizes.seccomp_notif_resp > sizeof(seccomp_notif_resp) ||
      sizes.seccomp_data > sizeof(seccomp_data))
    return failure(
        Error::from_text("seccomp user notification", "",
                         "this kernel's structures are larger than this build knows; a newer sandbox-run is needed"));
  features.wait_killable = !pretend_missing.wait_killable && seccomp_flag_known(SECCOMP_FILTER_FLAG_NEW_LISTENER |
                                                                                SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return errno_failure(errno, "capget");
  features.effective_capabilities = data[0].effective | (static_cast<uint64_t>(data[1].effective) << 32);
  for (unsigned cap = 0; cap < 64; ++cap) {
    const int in_set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (in_set < 0) break;  // EINVAL: beyond the last capability this kernel knows
    if (in_set == 1) features.bounding_capabilities |= uint64_t{1} << cap;
  }
  features.mount_namespace =
      !pretend_missing.mount_namespace && (features.effective_capabilities & (uint64_t{1} << CAP_SYS_ADMIN)) != 0;
  return features;
}

bool probe_user_mounts() {
  const pid_t child = fork();
  if (child == 0) {
    // Propagation of a new user namespace's mounts is one-way: nothing of this is seen outside.
    const bool works = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                       mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k") == 0;
    _exit(works ? 0 : 1);
  }
  int status = 1;
  if (child > 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::optional<Error> probe_descriptor_duplication(const PretendMissing& pretend_missing) {
  const Result<UniqueFd> self = pidfd_open(getpid());
  if (!self) return self.error();
  // Of the pidfd itself, which is certainly open.
  const UniqueFd copy(static_cast<int>(syscall(SYS_pidfd_getfd, self->get(), self->get(), 0)));
  if (copy && !pretend_missing.pidfd_getfd) return std::nullopt;
  return Error::from_errno(copy ? EPERM : errno, "pidfd_getfd", "",
                           "rules on addresses need it; an outer sandbox that refuses it must allow it (docker run "
                           "--security-opt seccomp=…), "
                           "or start without a network section");
}

std::vector<std::string> Features::gaps() const {
  std::vector<std::string> lines;
  if (landlock_abi == 0)
    lines.push_back(
        "no Landlock: signals and ptrace to processes outside are decided by the supervisor; boot with lsm=landlock,… "
        "to have the kernel do it");
  else if (!signal_scope)
    lines.push_back("Landlock ABI " + std::to_string(landlock_abi) +
                    " has no signal scope (Linux 6.12): signals to processes outside are decided by the supervisor");
  if (!wait_killable)
    lines.push_back(
        "no killable wait (Linux 5.19): a signal can interrupt a call that is being decided; it is then asked again");
  if (!sync_wake_up)
    lines.push_back(
        "no synchronous wake-up (Linux 6.6): tasks that are often asked about share a CPU with the supervisor by "
        "affinity");
  if (root && !mount_namespace)
    lines.push_back(
        "running as root without CAP_SYS_ADMIN: /proc and /sys files that configure the kernel can't be masked; run as "
        "an ordinary user");
  return lines;
}

}  // namespace srun::kernel
