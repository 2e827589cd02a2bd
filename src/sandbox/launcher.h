#pragma once
// Starts the program in its jail. The caller must be single-threaded (H24) and non-dumpable if it does not want the
// child's early life to be inspected; it becomes the parent of the program.
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandbox/launch_plan.h"

namespace srun::sandbox {

struct HandOver;

// The page on which the child reports; kept after launch() because a failing execve is only known later.
class LaunchStatus {
 public:
  static Result<LaunchStatus> create();
  LaunchStatus(LaunchStatus&&) noexcept;
  LaunchStatus& operator=(LaunchStatus&&) = delete;
  ~LaunchStatus();

  HandOver& page() const { return *page_; }
  // What the child failed at, once it has ended; nullopt-like empty operation if it became the program.
  // Error code ENOENT or EACCES with operation "run" selects exit status 127 or 126.
  std::optional<Error> failure_of_child(const LaunchPlan& plan) const;

 private:
  explicit LaunchStatus(HandOver* page) : page_(page) {}
  HandOver* page_;
};

struct Launched {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd listener;
  bool wait_killable = false;
};

// Returns once the filter is in place and its listener is known; the child may still be in execve, whose notification
// the caller has to answer. On failure the child is dead and reaped.
[[nodiscard]] Result<Launched> launch(const LaunchPlan& plan, const LaunchStatus& status, BorrowedFd guard_pidfd);

}  // namespace srun::sandbox
