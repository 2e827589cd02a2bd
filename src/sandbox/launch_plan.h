#pragma once
// Everything that will be done to the child before it becomes the program, as data: made once, printed by `--check`,
// put into force by launcher.h. Owned by main; must outlive launch().
#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bpf/instruction.h"
#include "policy/files.h"
#include "policy/landlock_plan.h"

namespace srun::sandbox {

struct LaunchPlan {
  std::string program;                  // what execve gets
  std::vector<std::string> arguments;   // argv, argv[0] as the user wrote it
  std::vector<std::string> environment; // "NAME=VALUE", complete
  std::string directory;                // --chdir; empty: stay
  std::vector<int> kept_descriptors;    // beyond 0-2
  sigset_t signal_mask{};               // the caller's, restored before exec
  policy::LandlockPlan landlock;        // files and ports
  bool scope_signals = false;           // Landlock domain with the signal scope (ABI 6)
  bool private_mounts = false;          // root: masked /proc and /sys (H7)
  std::vector<std::string> control_mounts;  // made read-only then: the same files, mounted elsewhere
  std::vector<policy::Mask> masks;      // covered in the private mount namespace
  bool user_namespace = false;          // it comes with a user namespace, for callers without CAP_SYS_ADMIN
  bool restrict_capabilities = false;   // root (H7)
  uint64_t capabilities = 0;            // what is kept then
  bool wait_killable = true;            // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV; dropped on EINVAL
  std::vector<bpf::Instruction> filter; // the kernel's program

  // One line per step, in the order of execution.
  std::vector<std::string> describe() const;
};

}  // namespace srun::sandbox
