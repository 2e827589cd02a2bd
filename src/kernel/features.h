#pragma once
// What this host can enforce. Probed by asking the kernel, not by reading versions, wherever asking has no side effect.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace srun::kernel {

struct KernelVersion {
  unsigned major = 0;
  unsigned minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};
// "6.18.44-fc" → {6, 18}; {0, 0} for text that has no two leading numbers.
KernelVersion parse_kernel_version(std::string_view release);

struct Features {
  KernelVersion kernel;
  std::string release;                 // uname -r
  int landlock_abi = 0;                // 0: absent
  bool signal_scope = false;           // Landlock ABI 6: signals and ptrace stay inside the target's domain
  bool sync_wake_up = false;           // Linux 6.6 by version; the service loop tries it on the real listener
  bool wait_killable = false;          // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
  bool mount_namespace = false;        // may unshare(CLONE_NEWNS) here
  uint64_t bounding_capabilities = 0;  // bit set of the caller's bounding set
  uint64_t effective_capabilities = 0;
  bool root = false;  // effective uid 0

  // One line per gap, with its remedy where there is one.
  std::vector<std::string> gaps() const;
};

// What the probes shall answer "absent" for, so that fallbacks can be tested on a host that has everything.
struct PretendMissing {
  bool landlock = false;
  bool sync_wake = false;
  bool wait_killable = false;
  bool mount_namespace = false;
  bool user_namespace = false;
  bool pidfd_getfd = false;
};
[[nodiscard]] Result<Features> probe_features(const PretendMissing& pretend_missing);

// Whether a process without privileges may make a user namespace here and mount in it (refused by sysctls, by AppArmor
// on Ubuntu, in containers). Forks a child that tries; asked only when a policy could use it. Single-threaded callers
// only.
bool probe_user_mounts();

// Whether pidfd_getfd(2) works here (Linux 5.6; Docker's default profile refuses it): nullopt, or why not.
std::optional<Error> probe_descriptor_duplication(const PretendMissing& pretend_missing);

}  // namespace srun::kernel
