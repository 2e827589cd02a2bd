// The second half of loading a profile: call numbers, libseccomp's tree for each call, and a look at what people
// regret.
#include "policy/oci_resolve.h"

#include <algorithm>
#include <bitset>

#include "bpf/instruction.h"
#include "kernel/syscall_table.h"
#include "policy/oci_names.h"

namespace srun::policy {
namespace {

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

bool grants(uint32_t action) {
  const uint32_t kind = action & bpf::kRetActionMask;
  return kind == bpf::kRetAllow || kind == bpf::kRetLog;
}

}  // namespace

std::optional<PolicyError> resolve_oci(OciProfile& profile) {
  std::map<uint32_t, OciCallRules> trees;
  const auto said = [](std::vector<std::string>& list, const OciRule& rule, std::string_view text) {
    list.push_back(rule.place.file + ":" + std::to_string(rule.place.line) + " " + rule.place.pointer + ": " +
                   std::string(text));
  };
  for (uint32_t i = 0; i < profile.rules.size(); ++i) {
    const OciRule& rule = profile.rules[i];
    std::bitset<6> seen;
    bool repeated = false;
    for (const OciCondition& condition : rule.conditions) {
      repeated = repeated || seen.test(condition.index);
      seen.set(condition.index);
    }
    std::string unknown;
    for (const std::string& name : rule.names) {
      const kernel::Syscall* call = kernel::find_syscall(name);
      if (call == nullptr && !is_call_elsewhere(name)) unknown += (unknown.empty() ? "" : ", ") + quoted(name);
      const auto number = call == nullptr ? std::nullopt : call->number(profile.arch);
      if (!number) continue;
      profile.newest_call = std::max(profile.newest_call.value_or(0), *number);
      // The runtimes drop such a rule before libseccomp sees it: it neither adds anything nor stands in another's way.
      if (rule.action == profile.default_action) continue;
      OciCallRules& tree = trees[*number];
      auto added = OciCallRules::Added::kAdded;
      if (!repeated) {
        added = tree.add(rule.conditions, {rule.action, i});
      } else {
        // Two conditions on one argument: the runtimes add every condition as a rule of its own.
        for (const OciCondition& condition : rule.conditions) {
          added = tree.add({&condition, 1}, {rule.action, i});
          if (added == OciCallRules::Added::kConflict || added == OciCallRules::Added::kEntangled) break;
        }
      }
      if (added == OciCallRules::Added::kConflict)
        return PolicyError{rule.place.file,
                           rule.place.line,
                           rule.place.pointer,
                           "the conditions for " + name +
                               " are those of an earlier rule with another action; "
                               "libseccomp and so the runtimes refuse that",
                           {}};
      if (added == OciCallRules::Added::kEntangled)
        return PolicyError{rule.place.file,
                           rule.place.line,
                           rule.place.pointer,
                           "the conditions for " + name + " are too many or too entangled",
                           {}};
    }
    if (unknown.empty()) continue;
    // Where the default refuses, a misspelt refusal does no harm.
    if (grants(rule.action) || !grants(profile.default_action))
      said(profile.notes, rule, "left out: unknown " + unknown);
    else
      said(profile.warnings, rule, "unknown calls are NOT refused by this rule: " + unknown);
  }
  for (const auto& [number, tree] : trees) {
    auto flat = tree.flatten();
    if (!flat)
      return PolicyError{
          profile.file,
          0,
          "#",
          "the rules for " + std::string(kernel::find_syscall(profile.arch, number)->name) + ": " + flat.error(),
          {}};
    profile.calls.emplace(number, std::move(*flat));
  }
  return std::nullopt;
}

// Things that are legal and that people regret (case 4, moby/moby#40205).
void review_oci(OciProfile& profile) {
  const auto note = [&](const Place& place, const std::string& text) {
    profile.notes.push_back(place.file + ":" + std::to_string(place.line) + " " + place.pointer + ": " + text);
  };
  const auto warn = [&](const Place& place, const std::string& text) { note(place, "warning: " + text); };
  bool kills_threads = profile.default_action == bpf::kRetKillThread;
  for (const OciRule& rule : profile.rules) {
    kills_threads = kills_threads || rule.action == bpf::kRetKillThread;
    for (const OciCondition& condition : rule.conditions) {
      const uint64_t value = condition.value;
      const bool unextended = value >= 0x80000000 && value <= 0xffffffff;
      if (condition.op == OciOp::kMaskedEqual || (!unextended && value >> 31 != 0x1ffffffff)) continue;
      for (const std::string& name : rule.names) {
        const kernel::Syscall* call = kernel::find_syscall(name);
        if (call == nullptr || condition.index >= call->arg_count) continue;
        const kernel::Width width = call->args[condition.index].width;
        if (width != kernel::Width::kS32 && (width != kernel::Width::kU32 || !unextended)) continue;
        const std::string text = "argument " + std::to_string(condition.index) + " of " + name +
                                 " has 32 bits, but profiles compare 64: whether " + std::to_string(value) +
                                 " matches a negative number depends on how the caller extends it";
        // A negative number is expected in signed arguments only.
        if (width == kernel::Width::kS32)
          warn(rule.place, text);
        else
          note(rule.place, text);
        break;
      }
    }
  }
  if (kills_threads && !profile.disabled)
    profile.notes.push_back(profile.file + ": SCMP_ACT_KILL and SCMP_ACT_KILL_THREAD end the whole process here");
  if (profile.disabled) return;

  // A record needs a notification, and what nobody retries is never notified (H19).
  std::string unrecorded;
  for (const auto& [number, rules] : profile.calls) {
    const kernel::Syscall* call = kernel::find_syscall(profile.arch, number);
    const bool recorded = std::any_of(rules.begin(), rules.end(), [](const OciCallRules::FlatRule& rule) {
      return (rule.outcome.action & bpf::kRetActionMask) == bpf::kRetLog;
    });
    if (recorded && call != nullptr && kernel::never_notified(*call))
      unrecorded += (unrecorded.empty() ? "" : ", ") + std::string(call->name);
  }
  if ((profile.default_action & bpf::kRetActionMask) == bpf::kRetLog)
    unrecorded += std::string(unrecorded.empty() ? "" : ", ") + "close, dup, fork, exit and the like by default";
  if (!unrecorded.empty()) profile.notes.push_back(profile.file + ": allowed without a record: " + unrecorded);

  const kernel::Syscall* exit_group = kernel::find_syscall("exit_group");
  const auto number = exit_group == nullptr ? std::nullopt : exit_group->number(profile.arch);
  if (!number) return;
  const auto rules = profile.calls.find(*number);
  const bool ends = rules == profile.calls.end()
                        ? grants(profile.default_action)
                        : std::any_of(rules->second.begin(), rules->second.end(),
                                      [](const OciCallRules::FlatRule& rule) { return grants(rule.outcome.action); });
  if (!ends) warn(profile.default_place, "exit_group is not allowed: programs crash or spin at their end");
}

std::optional<PolicyError> yaml_error(std::string_view text, const std::string& file) {
  // The first line that is neither blank nor a comment tells: JSON starts with a brace or a bracket.
  size_t line = 1;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!first.empty() && (first.front() == ' ' || first.front() == '\t' || first.front() == '\r'))
      first.remove_prefix(1);
    if (first.empty() || first.front() == '#') {
      ++line;
      continue;
    }
    const size_t colon = first.find(':');
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    };
    const bool key = colon != std::string_view::npos && colon > 0 &&
                     std::all_of(first.begin(), first.begin() + static_cast<ptrdiff_t>(colon), is_word);
    if (!first.starts_with("---") && !first.starts_with("%YAML") && !key) return std::nullopt;
    return PolicyError{file,
                       static_cast<uint32_t>(line),
                       "#",
                       "this is YAML, and policies and profiles are JSON; convert it, for instance with "
                       "\"yq -o=json .spec FILE\" for a SeccompProfile resource",
                       {}};
  }
  return std::nullopt;
}

}  // namespace srun::policy
