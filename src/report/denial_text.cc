#include "report/denial_text.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "kernel/syscall_table.h"
#include "report/call_text.h"

namespace srun::report {
namespace {

constexpr size_t kMaxReason = 200;
constexpr size_t kMaxFile = 300;

// What the outcome did to the call: the first word, and what follows the process ("= EPERM").
struct Wording {
  std::string verb;
  std::string result;
};

Wording refusal(policy::Action action, int32_t value, std::string_view prefix_deny, std::string_view prefix_other) {
  switch (action) {
    case policy::Action::kKill:
      return {std::string(prefix_other) + "kill at", ""};
    case policy::Action::kTrap:
      return {std::string(prefix_other) + "trap", ""};
    case policy::Action::kReturn:
      return {std::string(prefix_other) + "fake", fmt::format(" = {}", value)};
    default:
      return {std::string(prefix_deny), value > 0 ? " = " + errno_name(value) : std::string()};
  }
}

Wording wording(const Event& event, const policy::Verdict* verdict) {
  switch (event.outcome) {
    case Outcome::kDenied:
      return {"denied", " = " + errno_name(event.answer)};
    case Outcome::kKilled:
      return {"killed at", ""};
    case Outcome::kReturned:
      return {"faked", fmt::format(" = {}", event.answer)};
    case Outcome::kLogged:
      return {"logged", ""};
    case Outcome::kAudited: {
      const policy::Action action =
          verdict != nullptr && verdict->audited != policy::Action::kAllow ? verdict->audited : policy::Action::kErrno;
      const int32_t value = verdict != nullptr && verdict->value != 0 ? verdict->value : event.answer;
      return refusal(action, value, "would deny", "would ");
    }
  }
  return {"denied", ""};
}

// The calls for which some decision of the stack can end in `verdict`, by name; native architecture first.
std::vector<std::string> calls_of(const policy::Enforcement& enforcement, bpf::VerdictId verdict) {
  std::vector<std::string> names;
  const auto mentions = [verdict](const bpf::Decision& decision) {
    return decision.otherwise == verdict ||
           std::ranges::any_of(decision.rules, [verdict](const bpf::ArgRule& rule) { return rule.verdict == verdict; });
  };
  for (const bpf::Layer& layer : enforcement.rules) {
    if (layer.foreign_arch == verdict) names.push_back("calls of other architectures");
    for (const bpf::ArchRules& arch : layer.arches)
      for (const bpf::NumberRange& range : arch.ranges) {
        if (!mentions(range.decision)) continue;
        if (range.last == range.first) {
          names.push_back(call_name(arch.audit_arch, range.first));
        } else {
          // A gap between assigned numbers or the whole space of x32 numbers: the names in it, if any, are few.
          const uint32_t end = std::min<uint32_t>(range.last, range.first + 1024);
          for (uint32_t nr = range.first; nr <= end && nr >= range.first; ++nr) {
            const std::optional<kernel::Arch> known = kernel::arch_from_audit(arch.audit_arch);
            if (known && kernel::find_syscall(*known, nr) != nullptr) names.push_back(call_name(arch.audit_arch, nr));
          }
          if ((range.first & kernel::kX32Bit) != 0) names.push_back("x32 calls");
        }
      }
  }
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return (a.find(':') == std::string::npos) > (b.find(':') == std::string::npos);
  });
  std::vector<std::string> distinct;
  for (std::string& name : names)
    if (std::ranges::find(distinct, name) == distinct.end()) distinct.push_back(std::move(name));
  return distinct;
}

std::string some_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace

std::string rule_text(const policy::RuleRef& rule) {
  std::string text = escape_for_terminal(rule.file, kMaxFile);
  if (rule.line != 0) text += fmt::format(":{}", rule.line);
  if (!rule.pointer.empty()) text += " " + escape_for_terminal(rule.pointer, kMaxFile);
  if (rule.newer_than_table)
    text += " (newer than the calls this version knows)";
  else if (rule.is_default)
    text += " (no rule matches)";
  if (!rule.reason.empty()) text += " \"" + escape_for_terminal(rule.reason, kMaxReason) + "\"";
  return text;
}

const policy::Verdict* verdict_of(const policy::Enforcement& enforcement, const Event& event) {
  return event.verdict < enforcement.verdicts.size() ? &enforcement.verdicts[event.verdict] : nullptr;
}

std::string act_text(const Event& event) {
  if (event.object_length == 0) return call_text(event.audit_arch, event.nr, event.args);
  std::string text = call_name(event.audit_arch, event.nr) + " " + (event.object_cut ? "..." : "");
  text += escape_for_terminal(std::string_view(event.object, event.object_length));
  const auto access = static_cast<policy::FileAccess>(event.access);
  const std::pair<policy::FileAccess, std::string_view> words[] = {
      {policy::FileAccess::kRead, "reading"},
      {policy::FileAccess::kWrite, "writing"},
      {policy::FileAccess::kCreate, "creating"},
      {policy::FileAccess::kRemove, "removing"},
      {policy::FileAccess::kAttributes, "changing its attributes"},
      {policy::FileAccess::kExecute, "executing"}};
  std::string purposes;
  for (const auto& [part, word] : words)
    if (policy::has(access, part)) purposes.append(purposes.empty() ? " for " : " and ").append(word);
  return text + purposes;
}

std::string_view comm_of(const Event& event) { return {event.comm, strnlen(event.comm, sizeof(event.comm))}; }

std::string denial_line(const policy::Enforcement& enforcement, const Event& event, uint64_t count,
                        const std::string& fix) {
  const policy::Verdict* verdict = verdict_of(enforcement, event);
  const Wording words = wording(event, verdict);
  std::string line = fmt::format("sandbox-run: {} {} [{} {}]", words.verb, act_text(event),
                                 event.tgid != 0 ? event.tgid : event.tid, escape_for_terminal(comm_of(event), 64));
  if (count > 1) line += fmt::format(" ×{}", count);
  line += words.result;
  line += "; " + (verdict != nullptr ? rule_text(verdict->rule) : std::string("internal error: no such rule"));
  if (!fix.empty()) line += "; " + escape_for_terminal(fix, 500);
  return line + "\n";
}

std::optional<std::string> kill_line(const policy::Enforcement& enforcement, int wait_status, const std::string& who) {
  if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGSYS) return std::nullopt;
  constexpr size_t kMostRules = 4;
  constexpr size_t kMostCalls = 6;
  std::vector<std::string> rules;
  for (size_t id = 0; id < enforcement.verdicts.size(); ++id) {
    const policy::Verdict& verdict = enforcement.verdicts[id];
    if (verdict.notified || (verdict.action != policy::Action::kKill && verdict.action != policy::Action::kTrap))
      continue;
    const std::vector<std::string> calls = calls_of(enforcement, static_cast<bpf::VerdictId>(id));
    if (calls.empty()) continue;  // in the table, yet no call of any layer ends there
    rules.push_back(rule_text(verdict.rule) + " (" + some_of(calls, kMostCalls) + ")");
  }
  if (rules.empty()) return std::nullopt;
  std::string line = "sandbox-run: killed by policy" + (who.empty() ? "" : " " + who);
  line += rules.size() == 1 ? ": " : fmt::format(": one of {} rules: ", rules.size());
  for (size_t i = 0; i < rules.size() && i < kMostRules; ++i) line += (i == 0 ? "" : "; ") + rules[i];
  if (rules.size() > kMostRules) line += fmt::format("; and {} more", rules.size() - kMostRules);
  return line + "\n";
}

}  // namespace srun::report
