#pragma once
// Typed system calls that glibc 2.36 has no wrapper for, and ABI constants newer than Debian 12's headers (6.1).
// Every wrapper returns a Result with the errno of the call; none retries on EINTR unless it says so. Thread-safe.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

// seccomp_unotify(2); include/uapi/linux/seccomp.h, Linux 5.19 and 6.6. Bit 4 is TSYNC_ESRCH, a different thing.
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

namespace srun::kernel {

// pidfd_open(2), Linux 5.3. The descriptor is always O_CLOEXEC.
[[nodiscard]] Result<UniqueFd> pidfd_open(pid_t pid);
// pidfd_send_signal(2), Linux 5.1, as kill(2) does it (no siginfo of our own).
[[nodiscard]] Result<void> pidfd_send_signal(BorrowedFd pidfd, int signal);
// True once the process behind `pidfd` has ended (it may still be a zombie).
bool pidfd_ended(BorrowedFd pidfd);

// landlock(7). The ABI version, 0 where Landlock is absent or disabled at boot.
int landlock_abi();
inline constexpr uint64_t kLandlockScopeAbstractUnix = 1u << 0;  // ABI 6, Linux 6.12
inline constexpr uint64_t kLandlockScopeSignal = 1u << 1;        // ABI 6, Linux 6.12
// A ruleset without rules yet: what it handles is denied until a rule grants it. With scopes alone signals and ptrace
// stay inside the domain.
[[nodiscard]] Result<UniqueFd> landlock_ruleset(uint64_t handled_fs, uint64_t handled_net, uint64_t scopes);
// Grants `rights` below the directory `object`, or on the file; rights that a file can't have are left out then. `path`
// is for messages.
[[nodiscard]] Result<void> landlock_grant(BorrowedFd ruleset, BorrowedFd object, bool directory,
                                          const std::string& path, uint64_t rights);
[[nodiscard]] Result<void> landlock_grant_port(BorrowedFd ruleset, uint16_t port, uint64_t rights);

// A thread's affinity mask, up to 1024 CPUs. `tid` 0 is the caller.
[[nodiscard]] Result<cpu_set_t> get_affinity(pid_t tid);
[[nodiscard]] Result<void> set_affinity(pid_t tid, const cpu_set_t& mask);

// The CPU clock of a whole process (clock_getcpuclockid(3)); nanoseconds. For another process's *thread* the kernel
// offers no clock id (kernel/time/posix-cpu-timers.c, pid_for_clock), so callers use the process.
std::optional<uint64_t> process_cpu_ns(pid_t tgid);
// CLOCK_MONOTONIC / CLOCK_REALTIME in nanoseconds.
uint64_t monotonic_ns();
uint64_t realtime_ns();

}  // namespace srun::kernel
