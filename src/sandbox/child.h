#pragma once
// The child's side of the launch. Between clone and execve: only system calls, no allocation, no logger, no lock. The
// descriptor table is shared with the supervisor until execve, so nothing here may close a descriptor (H24).
#include <atomic>
#include <cstdint>

#include "sandbox/launch_plan.h"

namespace srun::sandbox {

// Steps that can fail, for the message.
enum class Step : int {
  kNone,
  kParent,
  kChdir,
  kUserNamespace,
  kMounts,
  kMasks,
  kDirectory,
  kCapabilities,
  kNoNewPrivs,
  kLandlock,
  kDescriptors,
  kSeccomp,
  kExec
};

// One MAP_SHARED page. The child only stores; the supervisor polls. It vanishes from the program's view at execve.
struct HandOver {
  std::atomic<int> listener{-1};              // number in the shared descriptor table, once the filter is in place
  std::atomic<int> failed_step{0};            // Step
  std::atomic<int> error{0};                  // errno of the failed step; stored before failed_step
  std::atomic<const char*> subject{nullptr};  // a string with static storage, or nullptr
  std::atomic<bool> wait_killable{false};     // what the kernel accepted
};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

// Arguments prepared before the clone, so that the child allocates nothing.
struct ChildArguments {
  const LaunchPlan* plan;
  HandOver* hand_over;
  char* const* argv;
  char* const* envp;
  const char* name;      // comm until execve sets it: the program's base name
  int landlock_ruleset;  // -1: none
  int guard_pidfd;
  pid_t supervisor;
};

[[noreturn]] void run_child(const ChildArguments& arguments);

}  // namespace srun::sandbox
