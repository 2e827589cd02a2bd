#include "policy/matcher.h"

#include <algorithm>
#include <cerrno>

#include "policy/defaults.h"
#include "policy/guard.h"

namespace srun::policy {

namespace {

using bpf::ArgTest;
using bpf::CompareOp;
using bpf::CompareWidth;

// Every 64-bit value, signed or not, as one number: written apart from bpf::matches on purpose.
__extension__ using Wide = __int128;

Wide at_width(uint64_t bits, CompareWidth width) {
  switch (width) {
    case CompareWidth::kU32:
      return static_cast<uint32_t>(bits);
    case CompareWidth::kS32:
      return static_cast<int32_t>(static_cast<uint32_t>(bits));
    case CompareWidth::kU64:
      return bits;
    case CompareWidth::kS64:
      break;
  }
  return static_cast<int64_t>(bits);
}

bool holds(const ArgTest& test, const uint64_t (&args)[6]) {
  const Wide argument = at_width(args[test.arg], test.width);
  const auto value = [&](size_t index) { return at_width(test.values[index], test.width); };
  const auto is_value = [&] {
    for (size_t i = 0; i < test.values.size(); ++i) {
      if (value(i) == argument) return true;
    }
    return false;
  };
  switch (test.op) {
    case CompareOp::kEqual:
      return argument == value(0);
    case CompareOp::kNotEqual:
      return argument != value(0);
    case CompareOp::kLess:
      return argument < value(0);
    case CompareOp::kLessEqual:
      return argument <= value(0);
    case CompareOp::kGreater:
      return argument > value(0);
    case CompareOp::kGreaterEqual:
      return argument >= value(0);
    case CompareOp::kIn:
      return is_value();
    case CompareOp::kNotIn:
      return !is_value();
    case CompareOp::kMasked:
      return at_width(args[test.arg] & test.mask, test.width) == value(0);
    case CompareOp::kSubset:
      return at_width(args[test.arg] | test.mask, test.width) == at_width(test.mask, test.width);
  }
  return false;
}

int rank(const Verdict& verdict) {
  switch (verdict.action) {
    case Action::kKill:
      return 6;
    case Action::kTrap:
      return 5;
    case Action::kErrno:
    case Action::kReturn:
      return 4;
    case Action::kCheck:
      return 3;
    case Action::kLog:
      return verdict.audited != Action::kAllow ? 2 : 1;
    case Action::kAllow:
      break;
  }
  return 0;
}

// What of a verdict can be carried out for this call and in this mode.
Verdict carried_out(Verdict verdict, const kernel::Syscall* call, bool audit) {
  const bool answers = verdict.action == Action::kErrno || verdict.action == Action::kReturn;
  if (call != nullptr && call->name == "clone3" && answers) return clone3_verdict();
  const bool silent = call != nullptr && kernel::never_notified(*call);
  if (silent && verdict.action == Action::kLog) verdict.action = Action::kAllow;
  const bool refusal =
      verdict.action != Action::kAllow && verdict.action != Action::kLog && verdict.action != Action::kCheck;
  if (audit && refusal && verdict.rule.layer != 0) {
    if (silent || verdict.quiet) {
      verdict.action = Action::kAllow;
    } else {
      verdict.audited = verdict.action;
      verdict.action = Action::kLog;
    }
  }
  return verdict;
}

}  // namespace

const Rule* first_match(const Policy& policy, const kernel::Syscall& call, const uint64_t (&args)[6]) {
  for (const Rule& rule : policy.rules) {
    const bool named = std::any_of(rule.calls.begin(), rule.calls.end(),
                                   [&call](const RuleCall& entry) { return entry.call == &call; });
    if (named &&
        std::all_of(rule.when.begin(), rule.when.end(), [&](const ArgTest& test) { return holds(test, args); })) {
      return &rule;
    }
  }
  return nullptr;
}

Verdict match(const Policy& policy, uint16_t layer, const LoweringOptions& options, const bpf::CallData& call) {
  const auto nr = static_cast<uint32_t>(call.nr);
  const std::optional<kernel::Arch> arch = kernel::arch_from_audit(call.arch);
  if (arch != options.arch) {
    const bool guard = layer == 0;
    if (!lifts(policy, "foreign-abi") || (guard && !arch)) return foreign_abi_verdict();
    if (!guard) {
      Verdict pass;
      pass.rule = default_verdict(policy, layer, nullptr).rule;
      return pass;
    }
  }
  if (nr == kNoCall) return no_call_verdict();
  if (arch == kernel::Arch::kX86_64 && nr >= kernel::kX32Bit) return foreign_abi_verdict();

  const kernel::Syscall* row = kernel::find_syscall(*arch, nr);
  const Rule* rule = row == nullptr ? nullptr : first_match(policy, *row, call.args);
  if (rule == nullptr) return carried_out(default_verdict(policy, layer, row), row, options.audit);
  Verdict verdict;
  verdict.action = rule->action.action;
  verdict.check = rule->action.check;
  verdict.value = rule->action.value;
  verdict.quiet = rule->quiet;
  verdict.rule.layer = layer;
  verdict.rule.file = rule->place.file;
  verdict.rule.line = rule->place.line;
  verdict.rule.pointer = rule->place.pointer;
  verdict.rule.reason = rule->reason;
  return carried_out(std::move(verdict), row, options.audit);
}

bool stands(const Verdict& earlier, const Verdict& later) { return rank(earlier) > rank(later); }

}  // namespace srun::policy
