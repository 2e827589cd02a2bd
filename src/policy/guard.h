#pragma once
// The guard layer: always first, in every mode, whatever the policies say (I6, H6, H4).
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/lowering_options.h"
#include "policy/model.h"

namespace srun::policy {

inline constexpr std::string_view kGuardName = "(guard layer)";

struct GuardPart {
  std::string_view name;    // as in "unsafe": ["ptrace"]
  std::string_view reason;  // why it is closed
  std::string_view lifted;  // what lifting it gives away: the loud note
  bool liftable = true;
};
std::span<const GuardPart> guard_parts();
const GuardPart* find_guard_part(std::string_view name);

// What every layer answers to calls of an ABI that it has no rules for, x32 numbers included: ENOSYS, told as the
// guard's doing whichever layer says it.
Verdict foreign_abi_verdict();
// The same for the number -1, which a tracer or a signal leaves behind (pitfalls 5.26): not reported.
Verdict no_call_verdict();
inline constexpr uint32_t kNoCall = 0xffffffff;
// Whatever errno or value a policy gives clone3, the answer is this ENOSYS: C libraries fall back to clone on that
// alone, and on EPERM no thread can be started (moby/moby#42680). A kill stays a kill.
Verdict clone3_verdict();

// The guard as rules over names, for any architecture: an open-ended layer whose rules' place.pointer is the part.
// `lifted` are parts that are left out. Foreign ABIs and x32 are not names: lowering closes them.
Policy guard_policy(const LoweringOptions& options, std::span<const std::string> lifted);

}  // namespace srun::policy
