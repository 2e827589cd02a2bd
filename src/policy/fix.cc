#include "policy/fix.h"

#include <algorithm>
#include <vector>

#include "policy/guard.h"
#include "policy/lowering.h"
#include "policy/matcher.h"

namespace srun::policy {

namespace {

enum class Outcome : uint8_t { kRefused, kMembersOnly, kPasses };

class Fixer {
 public:
  Fixer(const PolicyStack& stack, LoweringOptions options, const Enforcement& enforcement, const bpf::CallData& call)
      : stack_(stack), options_(options), enforcement_(enforcement), call_(call) {
    options_.audit = false;  // what is refused without it is what has to be allowed
    if (const std::optional<kernel::Arch> arch = kernel::arch_from_audit(call.arch)) {
      row_ = kernel::find_syscall(*arch, static_cast<uint32_t>(call.nr));
    }
  }

  std::optional<std::string> find() const {
    if (row_ == nullptr || call_.arch != kernel::audit_arch(options_.arch)) return std::nullopt;
    const Verdict winner = verdict(stack_);
    if (outcome_of(winner) == Outcome::kPasses) return std::nullopt;
    return winner.rule.layer == 0 ? lift_guard(winner.rule.pointer) : change_policy(winner);
  }

 private:
  // `change` as a line, if it helps.
  std::optional<std::string> checked(const PolicyStack& changed, std::string text) const {
    switch (outcome_of(verdict(changed))) {
      case Outcome::kRefused:
        return std::nullopt;
      case Outcome::kMembersOnly:
        return text + " (then among the run's own processes)";
      case Outcome::kPasses:
        break;
    }
    return text;
  }

  static Outcome outcome_of(const Verdict& verdict) {
    if (verdict.audited != Action::kAllow) return Outcome::kRefused;
    if (verdict.action == Action::kCheck) return Outcome::kMembersOnly;
    return verdict.action == Action::kAllow || verdict.action == Action::kLog ? Outcome::kPasses : Outcome::kRefused;
  }

  Verdict verdict(const PolicyStack& stack) const {
    Verdict winner = match(guard_layer(stack, options_), 0, options_, call_);
    for (size_t i = 0; i < stack.layers.size(); ++i) {
      const auto layer = static_cast<uint16_t>(i + 1);
      Verdict own;
      if (stack.layers[i].policy != nullptr) {
        own = match(*stack.layers[i].policy, layer, options_, call_);
      } else {
        own = enforcement_.verdicts[bpf::decide(std::span(&enforcement_.rules[layer], 1), enforcement_.returns, call_)];
      }
      if (!stands(winner, own)) winner = std::move(own);
    }
    return winner;
  }

  PolicyStack with(size_t index, Policy policy) const {
    PolicyStack changed = stack_;
    changed.layers[index].policy = std::make_shared<const Policy>(std::move(policy));
    return changed;
  }

  Policy allowing(Policy policy) const {
    Rule rule;
    rule.calls = {{row_, true}};
    policy.rules.insert(policy.rules.begin(), std::move(rule));
    policy.has_syscalls = policy.has_syscalls || !policy.rules.empty();
    return policy;
  }

  static Policy lifting(Policy policy, const std::string& part) {
    policy.unsafe.push_back({part, {}});
    return policy;
  }

  std::string name() const { return "\"" + std::string(row_->name) + "\""; }
  static std::string unsafe_text(const std::string& part) { return "\"unsafe\": [\"" + part + "\"]"; }
  // Where a change goes: into the file, or, for an installed policy, into a file of one's own that extends it.
  static std::string in_file(const Policy& policy) {
    if (policy.installed) return " in a policy with \"extends\": [\"" + policy.name + "\"]";
    return " in " + policy.name;
  }

  // The only policy in our own language: lifting needs all of them, so with several no single change helps.
  std::optional<size_t> only_policy() const {
    std::optional<size_t> found;
    for (size_t i = 0; i < stack_.layers.size(); ++i) {
      if (stack_.layers[i].policy == nullptr || stack_.layers[i].policy->open_ended) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }

  std::optional<std::string> lift_guard(const std::string& part) const {
    const GuardPart* row = find_guard_part(part);
    const std::optional<size_t> index = only_policy();
    if (row == nullptr || !row->liftable || !index) return std::nullopt;
    const Policy& policy = *stack_.layers[*index].policy;
    if (auto fix = checked(with(*index, lifting(policy, part)), "to allow: " + unsafe_text(part) + in_file(policy)))
      return fix;
    return checked(with(*index, allowing(lifting(policy, part))),
                   "to allow: " + unsafe_text(part) + " and an allow rule for " + name() + in_file(policy));
  }

  std::optional<std::string> change_policy(const Verdict& winner) const {
    const size_t index = winner.rule.layer - 1U;
    if (stack_.layers[index].policy == nullptr) return std::nullopt;  // OCI: written for another program too
    const Policy& policy = *stack_.layers[index].policy;
    // A section's rules come before all of the file's: adding one there changes nothing.
    const bool by_section =
        policy.network && winner.rule.pointer == policy.network->pointer && winner.rule.file == policy.network->file;
    if (by_section && (winner.rule.file != "(command line)" || policy.network->replaces)) return std::nullopt;
    const std::string prefix = winner.rule.is_default ? "to allow: " : "deliberate: ";
    if (!winner.rule.is_default) {
      const bool command_line = winner.rule.file == "(command line)";
      if (command_line || (!policy.installed && winner.rule.file == policy.name)) {
        Policy without = policy;
        std::erase_if(without.rules, [&winner](const Rule& rule) {
          return rule.place.pointer == winner.rule.pointer && rule.place.file == winner.rule.file;
        });
        const std::string text = command_line ? "leave out " + winner.rule.pointer : "remove that rule";
        if (auto fix = checked(with(index, std::move(without)), prefix + text + " to allow")) return fix;
      }
      if (command_line || policy.open_ended) return std::nullopt;  // a rule in the file would come after the option's
    }
    // A policy without `syscalls` allows the baseline; with a rule of its own it no longer does.
    if (!policy.has_syscalls) {
      Policy both = allowing(policy);
      Rule baseline;
      const std::optional<size_t> group = kernel::find_group("@baseline");
      for (const kernel::Syscall& call : kernel::syscalls()) {
        if (group && kernel::in_group(call, *group)) baseline.calls.push_back({&call, false});
      }
      both.rules.push_back(std::move(baseline));
      return checked(with(index, std::move(both)),
                     prefix + "a rule that allows [\"@baseline\", " + name() + "]" + in_file(policy));
    }
    const std::string place =
        winner.rule.is_default && !policy.installed
            ? "add " + name() + " to an allow rule" + in_file(policy)
            : "an allow rule for " + name() + (policy.installed ? "" : " before it") + in_file(policy);
    if (auto fix = checked(with(index, allowing(policy)), prefix + place)) return fix;
    const Verdict guard = match(guard_layer(stack_, options_), 0, options_, call_);
    if (outcome_of(guard) != Outcome::kRefused || only_policy() != index) return std::nullopt;
    const std::string& part = guard.rule.pointer;
    const GuardPart* const row = find_guard_part(part);  // none: what a files section adds
    if (row == nullptr || !row->liftable) return std::nullopt;
    return checked(with(index, allowing(lifting(policy, part))),
                   prefix + unsafe_text(part) + " and an allow rule for " + name() + in_file(policy));
  }

  const PolicyStack& stack_;
  LoweringOptions options_;
  const Enforcement& enforcement_;
  const bpf::CallData& call_;
  const kernel::Syscall* row_ = nullptr;
};

}  // namespace

std::optional<std::string> suggested_fix(const PolicyStack& stack, const LoweringOptions& options,
                                         const Enforcement& enforcement, const bpf::CallData& call) {
  return Fixer(stack, options, enforcement, call).find();
}

}  // namespace srun::policy
