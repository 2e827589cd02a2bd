#include "bpf/search_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace srun::bpf {
namespace {

// Up to here the best tree is found exactly (cubic time); longer lists are first halved by weight. What runs in the
// kernel for every call is worth more of it than the supervisor's copy.
constexpr size_t kExactLimit = 96;
constexpr size_t kQuickLimit = 8;
constexpr size_t kLongestChain = 6;

bool single(const Segment& segment) { return segment.first == segment.last; }

void join_equal_neighbours(std::vector<Segment>& segments) {
  size_t kept = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].target == segments[kept].target) {
      segments[kept].last = segments[i].last;
      segments[kept].weight += segments[i].weight;
    } else {
      segments[++kept] = segments[i];
    }
  }
  segments.resize(kept + 1);
}

class TreeBuilder {
 public:
  TreeBuilder(BranchGraph& graph, uint32_t word, uint32_t mask, const std::vector<Segment>& segments, Goal goal)
      : graph_(graph),
        word_(word),
        mask_(mask),
        segments_(segments),
        exact_limit_(goal == Goal::kQuick ? kQuickLimit : kExactLimit) {
    double total = 0;
    for (const Segment& segment : segments) total += segment.weight;
    // One comparison of size costs as much as one comparison executed by this share of all values.
    size_cost_ = std::max(total, 1e-9) * (goal == Goal::kSmallest ? 16.0 : 0.2);
    prefix_.resize(segments.size() + 1);
    for (size_t i = 0; i < segments.size(); ++i) prefix_[i + 1] = prefix_[i] + segments[i].weight;
  }

  NodeId build(size_t first, size_t last) {
    if (first == last) return segments_[first].target;
    const size_t count = last - first + 1;
    if (count <= exact_limit_) return build_exact(first, last);
    const size_t middle = balanced_split(first, last);
    const NodeId upper = build(middle, last);
    const NodeId lower = build(first, middle - 1);
    return graph_.compare(Branch::kGreaterEqual, word_, mask_, segments_[middle].first, upper, lower);
  }

 private:
  struct Plan {
    double cost = 0;
    size_t split = 0;  // first segment of the upper half; 0: a chain
    NodeId base = 0;   // of a chain: the target of what is not listed
  };

  double weight(size_t first, size_t last) const { return prefix_[last + 1] - prefix_[first]; }

  // Never between the two sides of a hole (one value inside a run of equal targets) if that can be helped: a hole
  // costs one JEQ, a cut hole two comparisons.
  size_t balanced_split(size_t first, size_t last) const {
    size_t best = first + 1;
    double best_cost = std::numeric_limits<double>::infinity();
    const double total = weight(first, last);
    for (size_t split = first + 1; split <= last; ++split) {
      const double lower = weight(first, split - 1);
      double cost = std::max(lower, total - lower);
      // Equal weights on both sides say nothing where all weight is elsewhere; then halve the number of segments.
      const auto below = static_cast<double>(split - first);
      const auto above = static_cast<double>(last + 1 - split);
      cost += 1e-3 * total * std::max(below, above) / (below + above);
      const bool cuts_hole_below =
          split >= first + 2 && single(segments_[split - 1]) && segments_[split - 2].target == segments_[split].target;
      const bool cuts_hole_above =
          split + 1 <= last && single(segments_[split]) && segments_[split - 1].target == segments_[split + 1].target;
      if (cuts_hole_below || cuts_hole_above) cost += 0.05 * total;
      if (cost < best_cost) {
        best_cost = cost;
        best = split;
      }
    }
    return best;
  }

  // The listed values of a chain in the order of testing: heaviest first.
  std::vector<size_t> chain(size_t first, size_t last, NodeId base) const {
    std::vector<size_t> listed;
    for (size_t i = first; i <= last; ++i) {
      if (segments_[i].target == base) continue;
      if (!single(segments_[i]) || listed.size() == kLongestChain) return {};
      listed.push_back(i);
    }
    std::stable_sort(listed.begin(), listed.end(),
                     [&](size_t a, size_t b) { return segments_[a].weight > segments_[b].weight; });
    return listed;
  }

  double chain_cost(size_t first, size_t last, const std::vector<size_t>& listed) const {
    double cost = 0;
    double rest = weight(first, last);
    for (const size_t index : listed) {
      cost += rest + size_cost_;
      rest -= segments_[index].weight;
    }
    return cost;
  }

  NodeId build_exact(size_t first, size_t last) {
    const size_t count = last - first + 1;
    std::vector<Plan> plans(count * count);
    const auto plan = [&](size_t from, size_t to) -> Plan& { return plans[(from - first) * count + (to - first)]; };
    // The cost of every stretch twice, in rows by its first and by its last segment: the innermost loop, which policies
    // wait for at every start, then walks along two rows.
    std::vector<double> by_first(count * count);
    std::vector<double> by_last(count * count);
    for (size_t length = 2; length <= count; ++length) {
      for (size_t from = 0; from + length <= count; ++from) {
        const size_t to = from + length - 1;
        const double* lower = &by_first[from * count];
        const double* upper = &by_last[to * count];
        Plan best{lower[from] + upper[from + 1], from + 1, 0};
        for (size_t split = from + 2; split <= to; ++split) {
          const double cost = lower[split - 1] + upper[split];
          if (cost < best.cost) {
            best.cost = cost;
            best.split = split;
          }
        }
        best.split += first;
        best.cost += weight(first + from, first + to) + size_cost_;
        if (length <= 2 * kLongestChain + 1) try_chains(first + from, first + to, best);
        by_first[from * count + to] = best.cost;
        by_last[to * count + from] = best.cost;
        plan(first + from, first + to) = best;
      }
    }
    return emit(first, last, plan);
  }

  void try_chains(size_t from, size_t to, Plan& best) const {
    for (const size_t candidate : {from, from + 1}) {
      const NodeId base = segments_[candidate].target;
      const std::vector<size_t> listed = chain(from, to, base);
      if (listed.empty()) continue;
      const double cost = chain_cost(from, to, listed);
      if (cost <= best.cost) best = {cost, 0, base};
    }
  }

  template <typename PlanAt>
  NodeId emit(size_t from, size_t to, const PlanAt& plan) {
    if (from == to) return segments_[from].target;
    const Plan& best = plan(from, to);
    if (best.split != 0) {
      const NodeId upper = emit(best.split, to, plan);
      const NodeId lower = emit(from, best.split - 1, plan);
      return graph_.compare(Branch::kGreaterEqual, word_, mask_, segments_[best.split].first, upper, lower);
    }
    const std::vector<size_t> listed = chain(from, to, best.base);
    NodeId node = best.base;
    for (auto index = listed.rbegin(); index != listed.rend(); ++index) {
      node = graph_.compare(Branch::kEqual, word_, mask_, segments_[*index].first, segments_[*index].target, node);
    }
    return node;
  }

  BranchGraph& graph_;
  uint32_t word_;
  uint32_t mask_;
  const std::vector<Segment>& segments_;
  size_t exact_limit_;
  double size_cost_ = 0;
  std::vector<double> prefix_;
};

// The value that alone carries more than half of the weight, or segments.size().
size_t dominant_value(const std::vector<Segment>& segments) {
  double total = 0;
  size_t heaviest = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    total += segments[i].weight;
    if (segments[i].weight > segments[heaviest].weight) heaviest = i;
  }
  const bool dominates = single(segments[heaviest]) && segments[heaviest].weight > total / 2;
  return dominates ? heaviest : segments.size();
}

}  // namespace

NodeId build_search(BranchGraph& graph, uint32_t word, uint32_t mask, std::vector<Segment> segments, Goal goal) {
  join_equal_neighbours(segments);
  if (segments.size() == 1) return segments.front().target;
  if (mask != 0xffffffff && segments.size() == 2 && segments[1].first == 1) {
    return graph.compare(Branch::kAnyBit, word, 0xffffffff, mask, segments[1].target, segments[0].target);
  }
  // What nearly every value hits is asked first; below that question it may count to either neighbour.
  std::vector<Segment> asked_first;
  while (segments.size() > 3) {
    const size_t index = dominant_value(segments);
    if (index == segments.size()) break;
    asked_first.push_back(segments[index]);
    if (index > 0) {
      segments[index - 1].last = segments[index].last;
    } else {
      segments[1].first = segments[0].first;
    }
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(index));
    join_equal_neighbours(segments);
  }
  NodeId node = TreeBuilder(graph, word, mask, segments, goal).build(0, segments.size() - 1);
  for (auto segment = asked_first.rbegin(); segment != asked_first.rend(); ++segment) {
    node = graph.compare(Branch::kEqual, word, mask, segment->first, segment->target, node);
  }
  return node;
}

}  // namespace srun::bpf
