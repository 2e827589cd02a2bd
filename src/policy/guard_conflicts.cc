#include "policy/guard_conflicts.h"

#include <algorithm>

#include "policy/guard.h"
#include "policy/matcher.h"

namespace srun::policy {

namespace {

// More than any rule written by hand needs. Beyond it nothing is claimed: the guard refuses the call all the same.
constexpr size_t kMaxCandidates = 4096;

// Arguments worth trying to find a call that the rule matches: each value that a test names, its neighbours, and 0.
std::vector<std::vector<uint64_t>> interesting_values(const Rule& rule) {
  std::vector<std::vector<uint64_t>> values(6, {0});
  for (const bpf::ArgTest& test : rule.when) {
    std::vector<uint64_t>& out = values[test.arg];
    for (const uint64_t value : test.values) out.insert(out.end(), {value, value + 1, value - 1});
    if (test.op == bpf::CompareOp::kMasked || test.op == bpf::CompareOp::kSubset) out.push_back(test.mask);
  }
  return values;
}

// The guard's rule that refuses `call` whenever `rule` matches it; nullptr: there is none, so far as can be told.
const Rule* always_refused(const Rule& rule, const kernel::Syscall& call, const Policy& guard) {
  const std::vector<std::vector<uint64_t>> values = interesting_values(rule);
  size_t total = 1;
  for (const auto& list : values) {
    total *= list.size();
    if (total > kMaxCandidates) return nullptr;
  }
  const Rule* refusing = nullptr;
  for (size_t number = 0; number < total; ++number) {
    uint64_t args[6];
    size_t rest = number;
    for (size_t i = 0; i < 6; ++i) {
      args[i] = values[i][rest % values[i].size()];
      rest /= values[i].size();
    }
    if (!std::all_of(rule.when.begin(), rule.when.end(),
                     [&args](const bpf::ArgTest& test) { return bpf::matches(test, args); })) {
      continue;
    }
    const Rule* found = first_match(guard, call, args);
    if (found == nullptr || found->action.action != Action::kErrno) return nullptr;
    refusing = found;
  }
  return refusing;
}

}  // namespace

Result<void, PolicyError> check_guard_conflicts(const Policy& policy, const LoweringOptions& options,
                                                std::vector<std::string>& notes) {
  std::vector<std::string> lifted;
  for (const UnsafeEntry& entry : policy.unsafe) lifted.push_back(entry.part);
  const Policy guard = guard_policy(options, lifted);
  for (const Rule& rule : policy.rules) {
    if (rule.action.action != Action::kAllow && rule.action.action != Action::kLog) continue;
    for (const RuleCall& entry : rule.calls) {
      if (!entry.by_name || !entry.call->number(options.arch)) continue;
      const Rule* refusing = always_refused(rule, *entry.call, guard);
      if (refusing == nullptr) continue;
      const GuardPart& part = *find_guard_part(refusing->place.pointer);
      const std::string name(entry.call->name);
      PolicyError problem{rule.place.file, rule.place.line, rule.place.pointer, {}, {}};
      // Lifting opens nothing where the guard's rule is there whatever is lifted.
      std::vector<std::string> with_part = lifted;
      with_part.emplace_back(part.name);
      if (!part.liftable || always_refused(rule, *entry.call, guard_policy(options, with_part)) != nullptr) {
        problem.message =
            name + " stays closed by the guard layer: " +
            (name == "clone3" ? "its flags lie in memory, and callers fall back on clone" : std::string(part.reason));
        notes.push_back(problem.text());
        continue;
      }
      problem.message = name + " is closed by the guard layer (" + std::string(part.reason) +
                        "); to open it add \"unsafe\": [\"" + std::string(part.name) + "\"]";
      return failure(std::move(problem));
    }
  }
  return {};
}

}  // namespace srun::policy
