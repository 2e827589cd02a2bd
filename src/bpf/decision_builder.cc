#include "bpf/decision_builder.h"

#include <algorithm>

#include "bpf/branch_facts.h"
#include "bpf/emitter.h"

namespace srun::bpf {
namespace {

// Tests evaluated while one searching form is built; beyond it the linear form is taken. Far above what a program of
// 4096 instructions can use.
constexpr size_t kSearchBudget = 1'000'000;
// A searching form that has made this many times the nodes that it may end with is given up.
constexpr size_t kWaste = 3;

constexpr uint32_t low_word(uint8_t arg) { return 16 + 8 * uint32_t{arg}; }
constexpr uint32_t high_word(uint8_t arg) { return low_word(arg) + 4; }
constexpr uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

DecisionBuilder::DecisionBuilder(BranchGraph& graph, std::span<const VerdictReturn> verdicts, ReturnKind kind,
                                 Goal goal)
    : graph_(graph), goal_(goal) {
  std::map<std::pair<uint32_t, uint32_t>, Class> ids;
  for (const VerdictReturn& verdict : verdicts) {
    const uint32_t action = verdict.copy_return & kRetActionMask;
    const uint32_t value = kind == ReturnKind::kKernel ? verdict.kernel_return : verdict.copy_return;
    const auto [position, added] = ids.try_emplace({action, value}, static_cast<Class>(classes_.size()));
    if (added) classes_.push_back({action, graph_.leaf(value)});
    class_of_verdict_.push_back(position->second);
  }
}

DecisionBuilder::TestId DecisionBuilder::intern(VariableTest test) {
  const auto [position, added] = test_ids_.try_emplace(test, static_cast<TestId>(tests_.size()));
  if (added) tests_.push_back(std::move(test));
  return position->second;
}

DecisionBuilder::RulesId DecisionBuilder::intern(Rules rules) {
  while (!rules.rules.empty() && rules.rules.back().verdict == rules.otherwise) rules.rules.pop_back();
  const auto [position, added] = rules_ids_.try_emplace(rules, static_cast<RulesId>(rules_.size()));
  if (added) rules_.push_back(std::move(rules));
  return position->second;
}

DecisionBuilder::RulesId DecisionBuilder::intern(const Decision& decision) {
  Rules rules;
  rules.otherwise = class_of_verdict_[decision.otherwise];
  for (const ArgRule& source : decision.rules) {
    // Several tests of one variable are one test of the intersection.
    std::map<Variable, IntervalSet> conditions;
    std::vector<Variable> order;
    bool possible = true;
    for (const ArgTest& test : source.all_of) {
      VariableTest normal = normalise(test);
      possible = possible && !normal.never();
      if (normal.always()) continue;
      const auto [position, added] = conditions.try_emplace(normal.variable, normal.holds);
      if (added) {
        order.push_back(normal.variable);
      } else {
        position->second = intersection(position->second, normal.holds);
        possible = possible && !position->second.empty();
      }
    }
    if (!possible) continue;
    Rule rule;
    rule.verdict = class_of_verdict_[source.verdict];
    for (const Variable& variable : order) rule.all_of.push_back(intern(VariableTest{variable, conditions[variable]}));
    if (rule.all_of.empty()) {
      rules.otherwise = rule.verdict;
      break;
    }
    rules.rules.push_back(std::move(rule));
  }
  return intern(std::move(rules));
}

bool DecisionBuilder::wins(Class candidate, uint32_t layer, const Running& running) const {
  if (!running.any) return true;
  const uint32_t action = classes_[candidate].action;
  const uint32_t current = classes_[running.verdict].action;
  return stricter(action, current) || (action == current && layer > running.layer);
}

NodeId DecisionBuilder::build(const std::vector<RulesId>& layers) {
  const auto known = built_.find(layers);
  if (known != built_.end()) return known->second;
  NodeId best = without_known_answers(graph_, linear(layers));
  if (!graph_[best].leaf) {
    const size_t linear_size = emitted_size(graph_, best);
    size_t allowed = goal_ == Goal::kSmallest ? linear_size : linear_size + linear_size / 2 + 8;
    for (const Order order : {Order::kAsWritten, Order::kMostTested}) {
      std::optional<NodeId> candidate = searching(layers, order, kWaste * allowed);
      if (!candidate) continue;
      candidate = without_known_answers(graph_, *candidate);
      const size_t size = emitted_size(graph_, *candidate);
      if (size > allowed || size > kMaxInstructions) continue;
      best = *candidate;
      allowed = size - 1;  // the second order must be better than the first
    }
  }
  built_.emplace(layers, best);
  return best;
}

NodeId DecisionBuilder::linear(const std::vector<RulesId>& layers) {
  std::map<std::pair<size_t, Class>, NodeId> memo;
  return linear_from(layers, layers.size(), std::nullopt, memo);
}

// Newest layer first: what it denies needs no look at the older ones unless they can be stricter, and on a tie it
// stays.
NodeId DecisionBuilder::linear_from(const std::vector<RulesId>& layers, size_t remaining, std::optional<Class> running,
                                    std::map<std::pair<size_t, Class>, NodeId>& memo) {
  if (remaining == 0) return classes_[*running].leaf;
  if (running) {
    const auto known = memo.find({remaining, *running});
    if (known != memo.end()) return known->second;
  }
  const Rules& rules = rules_[layers[remaining - 1]];
  const auto after = [&](Class verdict) {
    const bool replaces = !running || stricter(classes_[verdict].action, classes_[*running].action);
    return linear_from(layers, remaining - 1, replaces ? verdict : *running, memo);
  };
  NodeId node = after(rules.otherwise);
  for (auto rule = rules.rules.rbegin(); rule != rules.rules.rend(); ++rule) {
    const NodeId no = node;
    node = after(rule->verdict);
    for (auto test = rule->all_of.rbegin(); test != rule->all_of.rend(); ++test) node = ask(*test, node, no);
  }
  if (running) memo.emplace(std::pair{remaining, *running}, node);
  return node;
}

NodeId DecisionBuilder::ask(TestId id, NodeId yes, NodeId no) {
  if (yes == no) return yes;
  const VariableTest& test = tests_[id];
  std::vector<WideSegment> segments;
  for (const Interval& interval : test.holds) segments.push_back({interval.first, interval.last, yes});
  for (const Interval& interval : complement(test.holds, test.variable.mask)) {
    segments.push_back({interval.first, interval.last, no});
  }
  std::sort(segments.begin(), segments.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return search_variable(test.variable, segments);
}

std::optional<NodeId> DecisionBuilder::searching(const std::vector<RulesId>& layers, Order order, size_t node_limit) {
  search_memo_.clear();
  largest_graph_ = graph_.size() + node_limit;
  search_budget_ = kSearchBudget;
  std::vector<OpenLayer> open;
  for (size_t layer = 0; layer < layers.size(); ++layer) open.push_back({static_cast<uint32_t>(layer), layers[layer]});
  return search_from({}, std::move(open), order);
}

std::optional<NodeId> DecisionBuilder::search_from(Running running, std::vector<OpenLayer> open, Order order) {
  std::vector<OpenLayer> undecided;
  for (const OpenLayer& layer : open) {
    const Rules& rules = rules_[layer.rules];
    if (!rules.rules.empty()) {
      undecided.push_back(layer);
    } else if (wins(rules.otherwise, layer.layer, running)) {
      running = {rules.otherwise, layer.layer, true};
    }
  }
  std::erase_if(undecided, [&](const OpenLayer& layer) {
    const Rules& rules = rules_[layer.rules];
    return !wins(rules.otherwise, layer.layer, running) &&
           std::none_of(rules.rules.begin(), rules.rules.end(),
                        [&](const Rule& rule) { return wins(rule.verdict, layer.layer, running); });
  });
  if (undecided.empty()) return classes_[running.verdict].leaf;

  std::vector<uint32_t> key{running.any ? running.verdict + 1 : 0, running.layer};
  for (const OpenLayer& layer : undecided) key.insert(key.end(), {layer.layer, layer.rules});
  const auto known = search_memo_.find(key);
  if (known != search_memo_.end()) return known->second;

  const Variable variable = next_variable(undecided, order);
  std::vector<uint64_t> starts{0};
  for (const OpenLayer& layer : undecided) {
    for (const Rule& rule : rules_[layer.rules].rules) {
      for (const TestId test : rule.all_of) {
        if (tests_[test].variable != variable) continue;
        for (const Interval& interval : tests_[test].holds) {
          starts.push_back(interval.first);
          if (interval.last < variable.mask) starts.push_back(interval.last + 1);
        }
      }
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  std::vector<WideSegment> segments;
  for (size_t i = 0; i < starts.size(); ++i) {
    std::vector<OpenLayer> rest;
    for (const OpenLayer& layer : undecided) {
      const size_t cost = rules_[layer.rules].rules.size() + 1;
      if (cost > search_budget_ || graph_.size() > largest_graph_) return std::nullopt;
      search_budget_ -= cost;
      rest.push_back({layer.layer, specialise(layer.rules, variable, starts[i])});
    }
    const std::optional<NodeId> target = search_from(running, std::move(rest), order);
    if (!target) return std::nullopt;
    segments.push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] - 1 : variable.mask, *target});
  }
  const NodeId node = search_variable(variable, segments);
  search_memo_.emplace(std::move(key), node);
  return node;
}

Variable DecisionBuilder::next_variable(const std::vector<OpenLayer>& open, Order order) const {
  const Variable first = tests_[rules_[open.front().rules].rules.front().all_of.front()].variable;
  if (order == Order::kAsWritten) return first;
  std::map<Variable, size_t> tested;
  for (const OpenLayer& layer : open) {
    for (const Rule& rule : rules_[layer.rules].rules) {
      for (const TestId test : rule.all_of) ++tested[tests_[test].variable];
    }
  }
  Variable best = first;
  for (const auto& [variable, count] : tested) {
    if (count > tested[best]) best = variable;
  }
  return best;
}

DecisionBuilder::RulesId DecisionBuilder::specialise(RulesId id, const Variable& variable, uint64_t value) {
  Rules result;
  result.otherwise = rules_[id].otherwise;
  for (const Rule& source : rules_[id].rules) {
    Rule rule;
    rule.verdict = source.verdict;
    bool possible = true;
    for (const TestId test : source.all_of) {
      if (tests_[test].variable != variable) {
        rule.all_of.push_back(test);
      } else if (!contains(tests_[test].holds, value)) {
        possible = false;
        break;
      }
    }
    if (!possible) continue;
    if (rule.all_of.empty()) {
      result.otherwise = rule.verdict;
      break;
    }
    result.rules.push_back(std::move(rule));
  }
  return intern(std::move(result));
}

namespace {

// One value of the high word inside which the target changes with the low word, or a stretch of values without such.
struct HighSegment {
  uint32_t first = 0;
  uint32_t last = 0;
  NodeId target = 0;
  std::vector<Segment> low;  // empty: `target` whatever the low word is
};

// `segments` cover 0 … mask; so does the result for the high word, and each `low` for the low word.
template <typename WideSegments>
std::vector<HighSegment> cut_by_high_word(uint64_t mask, const WideSegments& segments) {
  const uint32_t low_mask = low_half(mask);
  std::vector<HighSegment> result;
  std::vector<Segment> low;  // of the value of the high word that is being cut
  const auto close = [&](uint32_t high) {
    // A masked low word takes no value above its mask.
    std::erase_if(low, [&](const Segment& piece) { return piece.first > low_mask; });
    low.back().last = low_mask;
    result.push_back({high, high, 0, std::move(low)});
    low.clear();
  };
  for (const auto& segment : segments) {
    const uint32_t first = high_half(segment.first);
    const uint32_t last = high_half(segment.last);
    const bool ends_word = low_half(segment.last) == 0xffffffff || segment.last == mask;
    if (first == last) {
      low.push_back({low_half(segment.first), low_half(segment.last), segment.target, 1});
      if (ends_word) close(first);
      continue;
    }
    uint32_t next = first;
    if (!low.empty()) {
      low.push_back({low_half(segment.first), 0xffffffff, segment.target, 1});
      close(first);
      ++next;
    }
    const uint32_t whole_last = ends_word ? last : last - 1;
    if (next <= whole_last) result.push_back({next, whole_last, segment.target, {}});
    if (!ends_word) low.push_back({0, low_half(segment.last), segment.target, 1});
  }
  return result;
}

}  // namespace

// The low word is asked first where that is enough: if all values of the high word but one lead to the same target, and
// the low word decides between that and one other. Real arguments mostly have a high word of 0, so asking it first
// would decide nothing, and further tests of the argument find the low word loaded.
NodeId DecisionBuilder::search_variable(const Variable& variable, const std::vector<WideSegment>& segments) {
  const uint32_t low_mask = low_half(variable.mask);
  const uint32_t high_mask = high_half(variable.mask);
  const auto search_low = [&](std::vector<Segment> pieces) {
    return build_search(graph_, low_word(variable.arg), low_mask, std::move(pieces), goal_);
  };
  std::vector<HighSegment> high = cut_by_high_word(variable.mask, segments);
  if (high_mask == 0) return search_low(std::move(high.front().low));

  const auto is_cut = [](const HighSegment& segment) { return !segment.low.empty(); };
  const auto cut = std::find_if(high.begin(), high.end(), is_cut);
  std::vector<Segment> by_high;
  if (cut != high.end() && high.size() > 1 && std::count_if(high.begin(), high.end(), is_cut) == 1) {
    const NodeId others = high[cut == high.begin() ? 1 : 0].target;
    std::optional<NodeId> chosen;  // what the low word can lead to besides `others`
    bool simple = true;
    for (const HighSegment& segment : high) simple = simple && (is_cut(segment) || segment.target == others);
    for (const Segment& piece : cut->low) {
      simple = simple && (piece.target == others || !chosen || *chosen == piece.target);
      if (piece.target != others) chosen = piece.target;
    }
    if (simple && chosen) {
      for (const HighSegment& segment : high) {
        by_high.push_back({segment.first, segment.last, is_cut(segment) ? *chosen : others, 1});
      }
      const NodeId confirmed = build_search(graph_, high_word(variable.arg), high_mask, std::move(by_high), goal_);
      for (Segment& piece : cut->low) {
        if (piece.target != others) piece.target = confirmed;
      }
      return search_low(std::move(cut->low));
    }
  }
  for (HighSegment& segment : high) {
    const NodeId target = is_cut(segment) ? search_low(std::move(segment.low)) : segment.target;
    by_high.push_back({segment.first, segment.last, target, 1});
  }
  return build_search(graph_, high_word(variable.arg), high_mask, std::move(by_high), goal_);
}

}  // namespace srun::bpf
