#pragma once
// Collects the verdicts of a stack: one id per distinct verdict, with what the kernel's program and the supervisor's
// copy return for it. Every layer, whatever its language, adds its verdicts here, so H20's projection is in one place.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel/syscall_table.h"
#include "policy/enforcement.h"

namespace srun::policy {

// What the kernel's program returns for a verdict (H20): allow → ALLOW; log, check, explained errno and values →
// USER_NOTIF; quiet errno, return 0 → ERRNO; trap → TRAP; kill → KILL_PROCESS. Looks at action, value and notified
// only.
uint32_t project(const Verdict& verdict);
// What the supervisor's copy returns: an action of the same rank whose data is the verdict's id.
uint32_t copy_return(const Verdict& verdict, bpf::VerdictId id);

class VerdictTableBuilder {
 public:
  struct Options {
    bool audit = false;          // policies' refusals become records (never the guard layer's: layer 0)
    bool report_denials = true;  // false: --denials none, refusals are decided by the kernel alone
  };
  VerdictTableBuilder() : VerdictTableBuilder(Options{}) {}
  explicit VerdictTableBuilder(Options options) : options_(options) {}

  // Adds what a rule says (action, check, value, quiet, rule) and settles the rest: `notified`, `audited`, and for
  // calls that are never notified (H19) the form that the kernel can answer alone. Equal verdicts get one id.
  // `call` is the call that the verdict is for; nullptr: a number without a name, which may be notified.
  bpf::VerdictId add(Verdict verdict, const kernel::Syscall* call = nullptr);

  // True if `verdict` cannot be carried out for `call`: a record, a check or a value other than 0 needs a notification
  // and the call must never be notified. A load error where the policy names the call; add() then allows a record
  // without recording it and refuses everything else with EPERM.
  static bool needs_impossible_notification(const Verdict& verdict, const kernel::Syscall* call);

  // More verdicts than an id can tell apart (65,536): lowering must fail.
  bool overflowed() const { return overflowed_; }

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  const std::vector<bpf::VerdictReturn>& returns() const { return returns_; }
  std::vector<Verdict> take_verdicts() { return std::move(verdicts_); }
  std::vector<bpf::VerdictReturn> take_returns() { return std::move(returns_); }

 private:
  Options options_;
  bool overflowed_ = false;
  std::vector<Verdict> verdicts_;
  std::vector<bpf::VerdictReturn> returns_;
  std::unordered_map<std::string, bpf::VerdictId> ids_;  // by the verdict's content
};

}  // namespace srun::policy
