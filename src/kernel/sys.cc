#include "kernel/sys.h"

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

namespace srun::kernel {

Result<UniqueFd> pidfd_open(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return errno_failure(errno, "pidfd_open", std::to_string(pid));
  return UniqueFd(static_cast<int>(fd));
}

Result<void> pidfd_send_signal(BorrowedFd pidfd, int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0)
    return errno_failure(errno, "pidfd_send_signal", std::to_string(signal));
  return {};
}

bool pidfd_ended(BorrowedFd pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  int ready;
  do {
    ready = poll(&entry, 1, 0);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

int landlock_abi() {
  constexpr uint32_t kVersionFlag = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kVersionFlag);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

Result<UniqueFd> landlock_ruleset(uint64_t handled_fs, uint64_t handled_net, uint64_t scopes) {
  // struct landlock_ruleset_attr of ABI 6; Debian 12's header ends after the first member. Older kernels take the
  // longer struct as long as what they do not know is zero (landlock(7)).
  struct {
    uint64_t handled_access_fs = 0;
    uint64_t handled_access_net = 0;
    uint64_t scoped = 0;
  } attributes;
  attributes.handled_access_fs = handled_fs;
  attributes.handled_access_net = handled_net;
  attributes.scoped = scopes;
  const long fd = syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  if (fd < 0) return errno_failure(errno, "landlock_create_ruleset");
  return UniqueFd(static_cast<int>(fd));
}

namespace {
constexpr int kLandlockAddRule = 445;
constexpr int kRulePathBeneath = 1;  // LANDLOCK_RULE_PATH_BENEATH
constexpr int kRuleNetPort = 2;      // LANDLOCK_RULE_NET_PORT, ABI 4
// EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE, IOCTL_DEV: the rights that a file can have.
constexpr uint64_t kFileRights = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;
}  // namespace

Result<void> landlock_grant(BorrowedFd ruleset, BorrowedFd object, bool directory, const std::string& path,
                            uint64_t rights) {
  struct __attribute__((packed)) {
    uint64_t allowed_access;
    int32_t parent_fd;
  } rule{directory ? rights : rights & kFileRights, object.get()};
  if (rule.allowed_access == 0) return {};
  if (syscall(kLandlockAddRule, ruleset.get(), kRulePathBeneath, &rule, 0) != 0)
    return errno_failure(errno, "landlock_add_rule", path);
  return {};
}

Result<void> landlock_grant_port(BorrowedFd ruleset, uint16_t port, uint64_t rights) {
  struct {
    uint64_t allowed_access;
    uint64_t port;
  } rule{rights, port};
  if (syscall(kLandlockAddRule, ruleset.get(), kRuleNetPort, &rule, 0) != 0)
    return errno_failure(errno, "landlock_add_rule", std::to_string(port));
  return {};
}

Result<cpu_set_t> get_affinity(pid_t tid) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(tid, sizeof mask, &mask) != 0)
    return errno_failure(errno, "sched_getaffinity", std::to_string(tid));
  return mask;
}

Result<void> set_affinity(pid_t tid, const cpu_set_t& mask) {
  if (sched_setaffinity(tid, sizeof mask, &mask) != 0)
    return errno_failure(errno, "sched_setaffinity", std::to_string(tid));
  return {};
}

namespace {
uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);  // cannot fail for the two clocks it is used with
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
}  // namespace

std::optional<uint64_t> process_cpu_ns(pid_t tgid) {
  // MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED): what clock_getcpuclockid(3) computes, without its probing call.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tgid) << 3) | 2u);
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return std::nullopt;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

}  // namespace srun::kernel
