#include "policy/layer_lowering.h"

#include <algorithm>
#include <unordered_map>

#include "policy/defaults.h"
#include "policy/guard.h"

namespace srun::policy {

namespace {

using bpf::ArchRules;
using bpf::ArgRule;
using bpf::Decision;
using bpf::NumberRange;
using bpf::VerdictId;

bool same(const Decision& a, const Decision& b) {
  return a.otherwise == b.otherwise &&
         std::equal(a.rules.begin(), a.rules.end(), b.rules.begin(), b.rules.end(),
                    [](const ArgRule& x, const ArgRule& y) { return x.verdict == y.verdict && x.all_of == y.all_of; });
}

void append(ArchRules& rules, uint32_t first, uint32_t last, Decision decision) {
  if (!rules.ranges.empty() && same(rules.ranges.back().decision, decision)) {
    rules.ranges.back().last = last;
  } else {
    rules.ranges.push_back({first, last, std::move(decision)});
  }
}

class LayerBuilder {
 public:
  LayerBuilder(const Policy& policy, uint16_t layer, const LayerLowering& to)
      : policy_(policy), layer_(layer), to_(to) {
    for (const Rule& rule : policy.rules) {
      for (const RuleCall& entry : rule.calls) rules_of_[entry.call].push_back(&rule);
    }
  }

  ArchRules arch_rules(kernel::Arch arch) {
    ArchRules out;
    out.audit_arch = kernel::audit_arch(arch);
    const uint32_t end = kernel::first_unknown_number(arch);
    for (uint32_t nr = 0; nr < end; ++nr) append(out, nr, nr, decision(kernel::find_syscall(arch, nr)));
    const bool has_x32 = arch == kernel::Arch::kX86_64;
    append(out, end, has_x32 ? kernel::kX32Bit - 1 : kNoCall - 1, decision(nullptr));
    if (has_x32) append(out, kernel::kX32Bit, kNoCall - 1, {{}, to_.verdicts.add(foreign_abi_verdict())});
    append(out, kNoCall, kNoCall, {{}, to_.verdicts.add(no_call_verdict())});
    return out;
  }

  VerdictId passing() {
    Verdict verdict;
    verdict.rule = default_verdict(policy_, layer_, nullptr).rule;
    return to_.verdicts.add(std::move(verdict));
  }

  // Calls that a rule or `default` wants recorded and that cannot be.
  const std::vector<std::string>& unrecorded() const { return unrecorded_; }
  // The first call that `default` wants to give an answer that it cannot get; empty: none.
  const std::string& impossible() const { return impossible_; }

 private:
  Decision decision(const kernel::Syscall* call) {
    Decision out;
    if (call != nullptr) {
      const auto rules = rules_of_.find(call);
      if (rules != rules_of_.end()) {
        for (const Rule* rule : rules->second) {
          const VerdictId verdict = add(rule_verdict(*rule), call);
          if (rule->when.empty()) {
            out.otherwise = verdict;
            return out;
          }
          out.rules.push_back({rule->when, verdict});
        }
      }
    }
    out.otherwise = add(default_verdict(policy_, layer_, call), call);
    return out;
  }

  VerdictId add(Verdict verdict, const kernel::Syscall* call) {
    if (VerdictTableBuilder::needs_impossible_notification(verdict, call)) {
      const std::string name(call->name);
      if (verdict.action != Action::kLog) {
        if (impossible_.empty()) impossible_ = name;
      } else if (std::find(unrecorded_.begin(), unrecorded_.end(), name) == unrecorded_.end()) {
        unrecorded_.push_back(name);
      }
    }
    return to_.verdicts.add(std::move(verdict), call);
  }

  Verdict rule_verdict(const Rule& rule) const {
    Verdict verdict;
    verdict.action = rule.action.action;
    verdict.check = rule.action.check;
    verdict.value = rule.action.value;
    verdict.quiet = rule.quiet;
    verdict.rule.layer = layer_;
    verdict.rule.file = rule.place.file;
    verdict.rule.line = rule.place.line;
    verdict.rule.pointer = rule.place.pointer;
    verdict.rule.reason = rule.reason;
    return verdict;
  }

  const Policy& policy_;
  uint16_t layer_;
  const LayerLowering& to_;
  std::unordered_map<const kernel::Syscall*, std::vector<const Rule*>> rules_of_;
  std::vector<std::string> unrecorded_;
  std::string impossible_;
};

}  // namespace

bpf::Layer lower_guard(const Policy& guard, const LayerLowering& to) {
  LayerBuilder builder(guard, 0, to);
  bpf::Layer out;
  out.foreign_arch = to.verdicts.add(foreign_abi_verdict());
  out.arches.push_back(builder.arch_rules(to.options.arch));
  if (lifts(guard, "foreign-abi")) {
    // The guard's other parts hold for the ABIs that it knows; an unknown one stays closed.
    for (const kernel::Arch arch : {kernel::Arch::kX86_64, kernel::Arch::kI386, kernel::Arch::kAArch64}) {
      if (arch != to.options.arch) out.arches.push_back(builder.arch_rules(arch));
    }
  }
  return out;
}

Result<bpf::Layer, PolicyError> lower_policy(const Policy& policy, uint16_t layer, const LayerLowering& to) {
  LayerBuilder builder(policy, layer, to);
  bpf::Layer out;
  out.foreign_arch = lifts(policy, "foreign-abi") ? builder.passing() : to.verdicts.add(foreign_abi_verdict());
  out.arches.push_back(builder.arch_rules(to.options.arch));
  if (!builder.impossible().empty()) {
    // Rules were checked when they were parsed, so this is `default`.
    const Place& place = policy.default_action ? policy.default_action->place : policy.syscalls_place;
    return failure(PolicyError{place.file,
                               place.line,
                               place.pointer,
                               builder.impossible() +
                                   " falls to it and can only be refused or return 0: its answer would be lost when a "
                                   "signal comes, and nobody repeats the call",
                               {}});
  }
  if (!builder.unrecorded().empty()) {
    std::string names;
    for (const std::string& name : builder.unrecorded()) names += (names.empty() ? "" : " ") + name;
    to.warnings.push_back(policy.name +
                          ": allowed without a record, because a signal would take the question away and nobody "
                          "repeats these calls: " +
                          names);
  }
  return out;
}

}  // namespace srun::policy
