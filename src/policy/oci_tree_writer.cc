// Writes the tree of OciCallRules out as a first-match list: each path to a decision becomes one rule, in the order in
// which libseccomp's program tries them; then neighbours with the same outcome are joined, so that the two or three
// paths that one 64-bit comparison takes through its halves become one 64-bit test again.
#include <algorithm>

#include "policy/oci_tree.h"

namespace srun::policy {
namespace {

constexpr uint32_t kMaxHalf = 0xffffffff;
constexpr uint64_t kMaxValue = ~uint64_t{0};
// The kernel's limit is 4096 instructions; a rule takes more than one.
constexpr size_t kMaxRules = 4096;

struct Range {
  uint64_t first = 0;
  uint64_t last = 0;  // inclusive
  friend bool operator==(const Range&, const Range&) = default;
};
// Sorted, disjoint, not touching. Empty: impossible.
using RangeSet = std::vector<Range>;

RangeSet intersect(const RangeSet& set, Range with) {
  RangeSet result;
  for (const Range& range : set) {
    const Range common{std::max(range.first, with.first), std::min(range.last, with.last)};
    if (common.first <= common.last) result.push_back(common);
  }
  return result;
}

RangeSet complement(const RangeSet& set, uint64_t max) {
  RangeSet result;
  uint64_t next = 0;
  bool open = true;  // values from `next` on are not covered
  for (const Range& range : set) {
    if (range.first > next) result.push_back({next, range.first - 1});
    open = range.last != max;
    next = range.last + 1;
  }
  if (open) result.push_back({next, max});
  return result;
}

RangeSet unite(RangeSet a, const RangeSet& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const Range& x, const Range& y) { return x.first < y.first; });
  RangeSet result;
  for (const Range& range : a) {
    if (!result.empty() && (result.back().last == kMaxValue || range.first <= result.back().last + 1))
      result.back().last = std::max(result.back().last, range.last);
    else
      result.push_back(range);
  }
  return result;
}

// What one path demands of one argument.
struct ArgumentSet {
  RangeSet values = {{0, kMaxValue}};
  uint64_t mask = 0;  // (argument & mask) == masked_value
  uint64_t masked_value = 0;
  // The low half alone, where the high half is not one known number.
  RangeSet low = {{0, kMaxHalf}};
  friend bool operator==(const ArgumentSet&, const ArgumentSet&) = default;
};

struct Box {
  std::array<ArgumentSet, 6> arguments;
  OciOutcome outcome;
};

// If the two differ in the values of at most one argument, `a` becomes both.
bool join(Box& a, const Box& b) {
  if (a.outcome.action != b.outcome.action || a.outcome.rule != b.outcome.rule) return false;
  size_t differing = a.arguments.size();
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    if (a.arguments[i] == b.arguments[i]) continue;
    if (differing != a.arguments.size()) return false;
    if (a.arguments[i].mask != b.arguments[i].mask || a.arguments[i].masked_value != b.arguments[i].masked_value ||
        a.arguments[i].low != b.arguments[i].low)
      return false;
    differing = i;
  }
  if (differing != a.arguments.size())
    a.arguments[differing].values = unite(a.arguments[differing].values, b.arguments[differing].values);
  return true;
}

// The tests of one range set: alternatives, each a list of tests that must all hold.
using Tests = std::vector<bpf::ArgTest>;
bpf::ArgTest test(uint8_t arg, bpf::CompareWidth width, bpf::CompareOp op, std::vector<uint64_t> values) {
  bpf::ArgTest result;
  result.arg = arg;
  result.width = width;
  result.op = op;
  result.values = std::move(values);
  return result;
}

std::optional<std::vector<uint64_t>> as_points(const RangeSet& set) {
  std::vector<uint64_t> points;
  for (const Range& range : set) {
    if (range.first != range.last) return std::nullopt;
    points.push_back(range.first);
  }
  return points;
}

std::vector<Tests> alternatives(uint8_t arg, const RangeSet& set, uint64_t max) {
  const bpf::CompareWidth width = max == kMaxHalf ? bpf::CompareWidth::kU32 : bpf::CompareWidth::kU64;
  if (set == RangeSet{{0, max}}) return {{}};
  if (auto points = as_points(set)) {
    if (points->size() == 1) return {{test(arg, width, bpf::CompareOp::kEqual, *points)}};
    return {{test(arg, width, bpf::CompareOp::kIn, *points)}};
  }
  if (auto points = as_points(complement(set, max))) {
    if (points->size() == 1) return {{test(arg, width, bpf::CompareOp::kNotEqual, *points)}};
    return {{test(arg, width, bpf::CompareOp::kNotIn, *points)}};
  }
  std::vector<Tests> result;
  for (const Range& range : set) {
    Tests tests;
    if (range.first == range.last) {
      tests.push_back(test(arg, width, bpf::CompareOp::kEqual, {range.first}));
    } else {
      if (range.first != 0) tests.push_back(test(arg, width, bpf::CompareOp::kGreaterEqual, {range.first}));
      if (range.last != max) tests.push_back(test(arg, width, bpf::CompareOp::kLessEqual, {range.last}));
    }
    result.push_back(std::move(tests));
  }
  return result;
}

// Each of `rules` followed by each of `choices`.
std::vector<Tests> product(const std::vector<Tests>& rules, const std::vector<Tests>& choices) {
  std::vector<Tests> result;
  for (const Tests& rule : rules) {
    for (const Tests& choice : choices) {
      Tests both = rule;
      both.insert(both.end(), choice.begin(), choice.end());
      result.push_back(std::move(both));
    }
  }
  return result;
}

}  // namespace

class OciTreeWriter {
 public:
  using Node = OciCallRules::Node;
  using Compare = OciCallRules::Compare;
  explicit OciTreeWriter(const OciCallRules& rules) : rules_(rules) {}

  // False: too much.
  bool walk(Node* level) {
    if (path_.size() > 64) return false;
    for (Node* node = rules_.level_start(level); node != nullptr; node = node->next) {
      rules_.tick();
      for (const bool side : {true, false}) {
        Node* below = side ? node->if_true : node->if_false;
        const OciCallRules::Branch& branch = side ? node->on_true : node->on_false;
        if (below == nullptr && !branch.decides) continue;
        path_.push_back({node, side});
        if (below != nullptr ? !walk(below) : !emit(branch.outcome)) return false;
        path_.pop_back();
      }
    }
    return true;
  }

  std::optional<std::vector<OciCallRules::FlatRule>> take() {
    std::vector<OciCallRules::FlatRule> result;
    for (const Box& box : boxes_) {
      std::vector<Tests> rules = {{}};
      for (uint8_t arg = 0; arg < 6; ++arg) {
        const ArgumentSet& set = box.arguments[arg];
        rules = product(rules, alternatives(arg, set.values, kMaxValue));
        rules = product(rules, alternatives(arg, set.low, kMaxHalf));
        if (set.mask != 0) {
          bpf::ArgTest masked = test(arg, bpf::CompareWidth::kU64, bpf::CompareOp::kMasked, {set.masked_value});
          masked.mask = set.mask;
          rules = product(rules, {{masked}});
        }
        if (rules.size() > kMaxRules) return std::nullopt;
      }
      for (Tests& tests : rules) result.push_back({std::move(tests), box.outcome});
      if (result.size() > kMaxRules) return std::nullopt;
    }
    return result;
  }

 private:
  struct Literal {
    const Node* node;
    bool side;
  };
  struct Halves {
    RangeSet high = {{0, kMaxHalf}};
    RangeSet low = {{0, kMaxHalf}};
  };

  static RangeSet holds(const Node& node, bool side) {
    RangeSet set;
    switch (node.compare) {
      case Compare::kMasked:
      case Compare::kEqual:
        set = {{node.datum, node.datum}};
        break;
      case Compare::kGreaterEqual:
        set = {{node.datum, kMaxHalf}};
        break;
      case Compare::kGreater:
        if (node.datum != kMaxHalf) set = {{uint64_t{node.datum} + 1, kMaxHalf}};
        break;
    }
    return side ? set : complement(set, kMaxHalf);
  }

  bool emit(OciOutcome outcome) {
    std::array<Halves, 6> halves;
    Box box;
    box.outcome = outcome;
    for (const Literal& literal : path_) {
      const Node& node = *literal.node;
      ArgumentSet& argument = box.arguments[node.arg];
      if (node.compare == Compare::kMasked) {
        if (!literal.side) return false;  // no chain decides on the false side of a mask
        const unsigned shift = node.high ? 32 : 0;
        const uint64_t mask = uint64_t{node.mask} << shift;
        const uint64_t value = uint64_t{node.datum} << shift;
        if (((argument.masked_value ^ value) & argument.mask & mask) != 0) return true;  // impossible path
        argument.mask |= mask;
        argument.masked_value |= value;
        continue;
      }
      RangeSet& half = node.high ? halves[node.arg].high : halves[node.arg].low;
      RangeSet both;
      for (const Range& range : holds(node, literal.side)) both = unite(both, intersect(half, range));
      half = std::move(both);
      if (half.empty()) return true;  // impossible path
    }
    for (size_t arg = 0; arg < box.arguments.size(); ++arg) {
      ArgumentSet& argument = box.arguments[arg];
      const Halves& half = halves[arg];
      const bool any_low = half.low == RangeSet{{0, kMaxHalf}};
      const bool one_high = half.high.size() == 1 && half.high[0].first == half.high[0].last;
      argument.values.clear();
      if (any_low || !one_high) {
        for (const Range& range : half.high)
          argument.values.push_back({range.first << 32, (range.last << 32) | kMaxHalf});
        argument.low = half.low;
      } else {
        const uint64_t high = half.high[0].first << 32;
        for (const Range& range : half.low) argument.values.push_back({high | range.first, high | range.last});
      }
    }
    boxes_.push_back(std::move(box));
    while (boxes_.size() >= 2 && join(boxes_[boxes_.size() - 2], boxes_.back())) boxes_.pop_back();
    return boxes_.size() <= kMaxRules;
  }

  const OciCallRules& rules_;
  std::vector<Literal> path_;
  std::vector<Box> boxes_;
};

Result<std::vector<OciCallRules::FlatRule>, std::string> OciCallRules::flatten() const try {
  if (!present_) return std::vector<FlatRule>{};
  if (root_ == nullptr) return std::vector<FlatRule>{{{}, unconditional_}};
  OciTreeWriter writer(*this);
  if (writer.walk(root_))
    if (auto rules = writer.take()) return std::move(*rules);
  return failure(std::string("its argument rules are too entangled: more than the kernel's program limit could hold"));
} catch (const Entangled&) {
  return failure(std::string("its argument rules are too entangled: libseccomp would not come to an end with them"));
}

}  // namespace srun::policy
