#pragma once
// The supervisor's life from the hand-over of the listener to the end of the tree.
#include <sys/types.h>

#include <functional>
#include <vector>

#include "base/error.h"
#include "policy/enforcement.h"
#include "supervisor/control_plane.h"
#include "supervisor/guard.h"
#include "supervisor/service_loop.h"

namespace srun::supervisor {

struct SessionOptions {
  std::vector<int> inherited;  // descriptors of the caller, released once the program has its own copies
  ServiceOptions service;
  ControlOptions control;
};

// What launching gave: the program's first process, a child of the caller, and the listener on its filter.
struct Target {
  pid_t pid = -1;
  UniqueFd listener;
};

struct SessionResult {
  RunResult run;
  uint64_t dropped_events = 0;
  uint64_t internal_errors = 0;  // copy and kernel disagreed; each was refused (H20)
  uint64_t served = 0;
};

// Serves until nothing of the run is left; on an error nothing is left either. `on_event` and `on_tick` are called on
// the calling thread.
[[nodiscard]] Result<SessionResult> run_session(const policy::Enforcement& enforcement, const SessionOptions& options,
                                                const GuardLink& guard, Target target,
                                                const ControlPlane::OnEvent& on_event,
                                                const std::function<void()>& on_tick);

}  // namespace srun::supervisor
