#include "support/rule_random.h"

#include <algorithm>

namespace srun::bpf::test {
namespace {

size_t below(Random& random, size_t bound) { return random.below(static_cast<uint32_t>(bound)); }

bool one_in(Random& random, size_t n) { return below(random, n) == 0; }

uint64_t random_value(Random& random) {
  static constexpr uint64_t kSpecial[] = {0,
                                          1,
                                          2,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x100000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          ~uint64_t{0},
                                          0xfffffffffffffffe,
                                          0x80000001,
                                          0xfff};
  switch (below(random, 5)) {
    case 0:
      return kSpecial[below(random, std::size(kSpecial))];
    case 1:
      return below(random, 12);
    case 2:
      return uint64_t{1} << below(random, 64);
    case 3:
      return random.next() & 0xffffffff;
    default:
      return random.next();
  }
}

ArgTest random_test(Random& random) {
  ArgTest test;
  // Few arguments and few widths, so that rules meet on the same variable.
  test.arg = static_cast<uint8_t>(one_in(random, 6) ? below(random, 6) : below(random, 2));
  test.width = static_cast<CompareWidth>(below(random, 4));
  test.op = static_cast<CompareOp>(below(random, 10));
  switch (test.op) {
    case CompareOp::kIn:
    case CompareOp::kNotIn:
      for (size_t count = below(random, 9); count > 0; --count) test.values.push_back(random_value(random));
      break;
    case CompareOp::kSubset:
      test.mask = random_value(random);
      break;
    case CompareOp::kMasked:
      test.mask = random_value(random);
      test.values.push_back(one_in(random, 5) ? random_value(random) : test.mask & random_value(random));
      break;
    default:
      test.values.push_back(random_value(random));
      break;
  }
  return test;
}

Decision random_decision(Random& random, size_t max_rules, size_t verdicts) {
  Decision decision;
  decision.otherwise = static_cast<VerdictId>(below(random, verdicts));
  if (!one_in(random, 3)) return decision;
  for (size_t count = below(random, max_rules + 1); count > 0; --count) {
    ArgRule rule;
    rule.verdict = static_cast<VerdictId>(below(random, verdicts));
    for (size_t tests = one_in(random, 10) ? 0 : 1 + below(random, 3); tests > 0; --tests) {
      rule.all_of.push_back(random_test(random));
    }
    decision.rules.push_back(std::move(rule));
  }
  return decision;
}

ArchRules random_arch(Random& random, uint32_t audit_arch, size_t max_rules, size_t verdicts) {
  std::vector<uint32_t> starts{0};
  for (size_t count = below(random, 60); count > 0; --count) {
    starts.push_back(one_in(random, 12) ? static_cast<uint32_t>(random.next())
                                        : static_cast<uint32_t>(below(random, 520)));
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  ArchRules arch{audit_arch, {}};
  for (size_t i = 0; i < starts.size(); ++i) {
    const uint32_t last = i + 1 < starts.size() ? starts[i + 1] - 1 : 0xffffffff;
    arch.ranges.push_back({starts[i], last, random_decision(random, max_rules, verdicts)});
  }
  return arch;
}

}  // namespace

RuleSet random_rules(Random& random, size_t max_layers, size_t max_rules) {
  static constexpr uint32_t kActions[] = {kRetAllow, kRetAllow, kRetLog,         kRetErrno,      kRetErrno,
                                          kRetTrap,  kRetTrace, kRetKillProcess, kRetKillThread, kRetUserNotif};
  RuleSet set;
  const size_t verdicts = 2 + below(random, 9);
  for (size_t id = 0; id < verdicts; ++id) {
    const uint32_t action = id == 0 ? kRetAllow : kActions[below(random, std::size(kActions))];
    const uint32_t copy = action | (one_in(random, 3) ? 0 : static_cast<uint32_t>(id));
    const uint32_t kernel = action == kRetErrno && id % 2 == 0 ? kRetUserNotif : action == kRetAllow ? kRetAllow : copy;
    set.verdicts.push_back({copy, kernel});
  }
  for (size_t layers = 1 + below(random, max_layers); layers > 0; --layers) {
    Layer layer;
    layer.foreign_arch = static_cast<VerdictId>(below(random, verdicts));
    for (const uint32_t audit_arch : kTestArches) {
      if (audit_arch != kTestArches[0] && !one_in(random, 3)) continue;
      layer.arches.push_back(random_arch(random, audit_arch, max_rules, verdicts));
    }
    set.layers.push_back(std::move(layer));
  }
  return set;
}

std::vector<uint64_t> boundary_values(const ArgTest& test) {
  std::vector<uint64_t> pivots = test.values;
  pivots.insert(pivots.end(),
                {0, test.mask, ~test.mask, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000});
  for (int bit = 0; bit < 64; bit += 9) pivots.push_back(test.mask & (uint64_t{1} << bit));
  std::vector<uint64_t> values;
  for (const uint64_t pivot : pivots) {
    for (const uint64_t value : {pivot - 1, pivot, pivot + 1}) {
      values.push_back(value);
      values.push_back(value | 0xdead000000000000);
      values.push_back(value & 0xffffffff);
      values.push_back((value & 0xffffffff) | 0xffffffff00000000);
    }
  }
  return values;
}

CallSource::CallSource(std::span<const Layer> layers) : arches_{0, 0x12345678} {
  for (const Layer& layer : layers) {
    for (const ArchRules& arch : layer.arches) {
      arches_.insert(arches_.end(), 3, arch.audit_arch);
      arches_.push_back(arch.audit_arch + 1);
      for (const NumberRange& range : arch.ranges) {
        for (const uint32_t edge : {range.first - 1, range.first, range.last, range.last + 1}) numbers_.push_back(edge);
        // Ranges with rules are where mistakes hide.
        if (!range.decision.rules.empty()) numbers_.insert(numbers_.end(), 6, range.first);
        for (const ArgRule& rule : range.decision.rules) {
          for (const ArgTest& test : rule.all_of) {
            const std::vector<uint64_t> values = boundary_values(test);
            values_[test.arg].insert(values_[test.arg].end(), values.begin(), values.end());
          }
        }
      }
    }
  }
  if (numbers_.empty()) numbers_.push_back(0);
}

CallData CallSource::next(Random& random) const {
  CallData call;
  call.arch = arches_[below(random, arches_.size())];
  call.nr = static_cast<int32_t>(one_in(random, 10) ? random.next() : numbers_[below(random, numbers_.size())]);
  call.instruction_pointer = random.next();
  for (size_t i = 0; i < 6; ++i) {
    const bool listed = !values_[i].empty() && !one_in(random, 6);
    call.args[i] = listed ? values_[i][below(random, values_[i].size())] : random_value(random);
  }
  return call;
}

}  // namespace srun::bpf::test
