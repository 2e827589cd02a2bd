// OciProfile → layer: one decision for each call number, the ABI checks of libseccomp, the ENOSYS stub of runc.
#include <algorithm>
#include <cerrno>
#include <set>

#include "bpf/instruction.h"
#include "kernel/syscall_table.h"
#include "policy/guard.h"
#include "policy/oci.h"

namespace srun::policy {
namespace {

// What an action value of libseccomp is here; the deviations are listed in oci.h.
Verdict verdict_of(uint32_t action) {
  Verdict verdict;
  const auto data = static_cast<int32_t>(action & bpf::kRetDataMask);
  switch (action & bpf::kRetActionMask) {
    case bpf::kRetAllow:
      verdict.action = Action::kAllow;
      break;
    case bpf::kRetLog:
      verdict.action = Action::kLog;
      break;
    case bpf::kRetErrno:
      verdict.action = data == 0 ? Action::kReturn : Action::kErrno;
      verdict.value = data;
      break;
    case bpf::kRetUserNotif:
    case bpf::kRetTrace:
      verdict.action = Action::kErrno;
      verdict.value = ENOSYS;
      break;
    case bpf::kRetTrap:
      verdict.action = Action::kTrap;
      break;
    default:
      verdict.action = Action::kKill;
      break;
  }
  return verdict;
}

class Lowering {
 public:
  Lowering(const OciProfile& profile, VerdictTableBuilder& verdicts, uint16_t layer)
      : profile_(profile), verdicts_(verdicts), layer_(layer) {}

  bpf::Layer run() {
    bpf::Layer result;
    const uint32_t audit = kernel::audit_arch(profile_.arch);
    if (profile_.disabled) {
      result.foreign_arch = verdicts_.add(by_default(verdict_of(bpf::kRetAllow)));
      result.arches.push_back({audit, {{0, ~uint32_t{0}, {{}, result.foreign_arch}}}});
      return result;
    }
    const bpf::VerdictId closed = verdicts_.add(foreign_abi_verdict());
    result.foreign_arch = verdicts_.add(by_default(verdict_of(bpf::kRetKillThread)));
    result.arches.push_back(native(audit, profile_.closed_x32 ? closed : result.foreign_arch));
    for (const uint32_t arch : profile_.closed_arches)
      if (std::none_of(result.arches.begin(), result.arches.end(), [&](const auto& a) { return a.audit_arch == arch; }))
        result.arches.push_back({arch, {{0, ~uint32_t{0}, {{}, closed}}}});
    return result;
  }

 private:
  Verdict by_default(Verdict verdict) const {
    verdict.rule.layer = layer_;
    verdict.rule.file = profile_.default_place.file.empty() ? profile_.file : profile_.default_place.file;
    verdict.rule.line = profile_.default_place.line;
    verdict.rule.pointer = profile_.default_place.pointer.empty() ? "#" : profile_.default_place.pointer;
    verdict.rule.is_default = true;
    return verdict;
  }
  Verdict by_rule(const OciOutcome& outcome) const {
    Verdict verdict = verdict_of(outcome.action);
    const OciRule& rule = profile_.rules[outcome.rule];
    verdict.rule.layer = layer_;
    verdict.rule.file = rule.place.file;
    verdict.rule.line = rule.place.line;
    verdict.rule.pointer = rule.place.pointer;
    verdict.rule.reason = rule.comment;
    return verdict;
  }

  // runc puts this in front of what libseccomp makes, unless the default lets calls through: EPERM for a call that is
  // newer than the profile keeps libraries from falling back (moby/moby#42680).
  bool has_stub() const {
    switch (profile_.default_action & bpf::kRetActionMask) {
      case bpf::kRetAllow:
      case bpf::kRetLog:
      case bpf::kRetTrace:
        return false;
      default:
        return profile_.newest_call.has_value();
    }
  }

  bpf::ArchRules native(uint32_t audit, bpf::VerdictId x32) {
    const Verdict otherwise = by_default(verdict_of(profile_.default_action));
    const bpf::VerdictId unnamed = verdicts_.add(otherwise);
    const uint32_t last_known = std::max(kernel::first_unknown_number(profile_.arch), uint32_t{1}) - 1;

    bpf::ArchRules result;
    result.audit_arch = audit;
    for (uint32_t number = 0; number <= last_known; ++number) {
      const kernel::Syscall* call = kernel::find_syscall(profile_.arch, number);
      bpf::Decision decision;
      decision.otherwise = beyond(number) ? newer(call) : call == nullptr ? unnamed : verdicts_.add(otherwise, call);
      if (const auto rules = profile_.calls.find(number); rules != profile_.calls.end()) {
        for (const OciCallRules::FlatRule& rule : rules->second) {
          const bpf::VerdictId verdict = verdicts_.add(by_rule(rule.outcome), call);
          if (rule.all_of.empty()) {
            decision.otherwise = verdict;  // the paths after one that always holds are never taken
            break;
          }
          decision.rules.push_back({rule.all_of, verdict});
        }
      }
      append(result, {number, number, std::move(decision)});
    }
    const bpf::VerdictId past_table = has_stub() ? newer(nullptr) : unnamed;
    if (profile_.arch != kernel::Arch::kX86_64) {
      append(result, {last_known + 1, ~uint32_t{0} - 1, {{}, past_table}});
    } else {
      append(result, {last_known + 1, kernel::kX32Bit - 1, {{}, past_table}});
      append(result, {kernel::kX32Bit, ~uint32_t{0} - 1, {{}, x32}});
    }
    // -1 is what a tracer leaves behind to skip a call (seccomp(2)); it never executes anything.
    const bool passes = otherwise.action == Action::kAllow;
    append(result, {kNoCall, kNoCall, {{}, passes ? unnamed : verdicts_.add(no_call_verdict())}});
    return result;
  }

  bool beyond(uint32_t number) const { return has_stub() && number > *profile_.newest_call; }

  bpf::VerdictId newer(const kernel::Syscall* call) {
    Verdict verdict;
    verdict.action = Action::kErrno;
    verdict.value = ENOSYS;
    verdict = by_default(verdict);
    verdict.rule.newer_than_table = true;
    return verdicts_.add(std::move(verdict), call);
  }

  static void append(bpf::ArchRules& rules, bpf::NumberRange range) {
    if (!rules.ranges.empty()) {
      bpf::NumberRange& last = rules.ranges.back();
      if (last.decision.rules.empty() && range.decision.rules.empty() &&
          last.decision.otherwise == range.decision.otherwise) {
        last.last = range.last;
        return;
      }
    }
    rules.ranges.push_back(std::move(range));
  }

  const OciProfile& profile_;
  VerdictTableBuilder& verdicts_;
  const uint16_t layer_;
};

}  // namespace

bpf::Layer lower_oci(const OciProfile& profile, VerdictTableBuilder& verdicts, uint16_t layer) {
  return Lowering(profile, verdicts, layer).run();
}

std::vector<std::pair<const kernel::Syscall*, std::string>> always_refused(const Policy& guard) {
  std::vector<std::pair<const kernel::Syscall*, std::string>> result;
  std::set<const kernel::Syscall*> seen;  // the first rule for a call decides, whether it has conditions or not
  for (const Rule& rule : guard.rules)
    for (const RuleCall& covered : rule.calls)
      if (seen.insert(covered.call).second && rule.when.empty() && rule.action.action != Action::kAllow &&
          rule.action.action != Action::kCheck)
        result.emplace_back(covered.call, rule.place.pointer);
  return result;
}

std::vector<std::string> closed_by_guard(const OciProfile& profile, const Policy& guard) {
  if (profile.disabled) return {};
  std::vector<std::pair<std::string, std::string>> parts;  // part and what lifting it does, names
  for (const auto& [call, part] : always_refused(guard)) {
    const auto number = call->number(profile.arch);
    if (!number) continue;
    const auto rules = profile.calls.find(*number);
    if (rules == profile.calls.end()) continue;
    const bool allows = std::any_of(rules->second.begin(), rules->second.end(), [](const auto& flat) {
      const Action action = verdict_of(flat.outcome.action).action;
      return action == Action::kAllow || action == Action::kLog;
    });
    if (!allows) continue;
    const std::string lifted = part;
    const auto without = always_refused(guard_policy({}, {&lifted, 1}));
    const bool helps =
        std::none_of(without.begin(), without.end(), [&wanted = call](const auto& row) { return row.first == wanted; });
    const std::string remedy = helps ? " unless a policy has \"unsafe\": [\"" + part + "\"]" : "";
    auto row = std::find_if(parts.begin(), parts.end(), [&](const auto& known) { return known.first == remedy; });
    if (row == parts.end()) row = parts.insert(parts.end(), {remedy, {}});
    row->second += (row->second.empty() ? "" : ", ") + std::string(call->name);
  }
  std::vector<std::string> notes;
  for (const auto& [remedy, names] : parts)
    notes.push_back(profile.file + ": allows " + names + "; the guard layer keeps that closed" + remedy);
  return notes;
}

}  // namespace srun::policy
