#include "policy/defaults.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace srun::policy {

namespace {

constexpr std::array<std::string_view, 7> kFallBack = {"clone3", "close_range", "openat2", "faccessat2",
                                                       "fchmodat2", "statx", "rseq"};
// sigreturn is i386's and ARM's older rt_sigreturn.
constexpr std::array<std::string_view, 5> kUntouched = {"exit", "exit_group", "rt_sigreturn", "sigreturn",
                                                        "restart_syscall"};

RuleRef reference(const Place& place, uint16_t layer) {
  RuleRef rule;
  rule.layer = layer;
  rule.file = place.file;
  rule.line = place.line;
  rule.pointer = place.pointer;
  rule.is_default = true;
  return rule;
}

}  // namespace

bool answers_enosys_by_default(const kernel::Syscall* call) {
  return call == nullptr || call->name.starts_with("io_uring_") ||
         std::find(kFallBack.begin(), kFallBack.end(), call->name) != kFallBack.end();
}

bool untouched_by_default(const kernel::Syscall& call) {
  return std::find(kUntouched.begin(), kUntouched.end(), call.name) != kUntouched.end();
}

bool in_baseline(const kernel::Syscall& call) {
  static const std::optional<size_t> group = kernel::find_group("@baseline");
  return group && kernel::in_group(call, *group);
}

Verdict default_verdict(const Policy& policy, uint16_t layer, const kernel::Syscall* call) {
  Verdict verdict;
  verdict.rule = reference(policy.default_action ? policy.default_action->place : policy.syscalls_place, layer);
  if (policy.open_ended || (call != nullptr && untouched_by_default(*call))) return verdict;
  if (!policy.has_syscalls && call != nullptr && in_baseline(*call)) return verdict;
  const ActionSpec spec =
      policy.default_action ? policy.default_action->action : ActionSpec{Action::kErrno, EPERM, Check::kNone};
  verdict.action = spec.action;
  verdict.value = spec.value;
  if (spec.action == Action::kErrno && answers_enosys_by_default(call)) verdict.value = ENOSYS;
  verdict.rule.newer_than_table = call == nullptr;
  return verdict;
}

}  // namespace srun::policy
