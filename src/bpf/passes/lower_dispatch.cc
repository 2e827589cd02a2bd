#include <algorithm>
#include <map>
#include <optional>

#include "bpf/passes/facts.h"
#include "bpf/passes/lowering.h"

namespace srun::bpf {
namespace {

// Fewer compares than this are left to jumps with fall-through.
constexpr uint32_t kMinCompares = 4;

struct Interval {
  uint32_t low;
  uint32_t high;
};
using Intervals = std::vector<Interval>;

// Values that reach `node` and its successors, in number order: every compare node moves its values on, each other node
// keeps them.
class Partition {
 public:
  Partition(const FlowGraph& graph, uint32_t start, ValueRange range) : graph_(graph) {
    pending_[start].push_back({range.low, range.high});
  }

  // The arms, or empty if there is no dispatch here or it would cost more than `max_arms`.
  SwitchArms run(size_t max_arms) {
    size_t arms = 0;
    std::vector<std::pair<Interval, uint32_t>> decided;
    uint32_t compares = 0;
    while (!pending_.empty()) {
      const auto first = pending_.begin();
      const uint32_t index = first->first;
      Intervals values = std::move(first->second);
      pending_.erase(first);
      const FlowNode& node = graph_.nodes[index];
      if (is_word_compare(node.code)) {
        ++compares;
        split(node, std::move(values));
      } else {
        arms += values.size();
        for (const Interval& interval : values) decided.emplace_back(interval, index);
      }
      if (arms > max_arms) return {};
    }
    if (compares < kMinCompares) return {};
    return joined(std::move(decided));
  }

 private:
  void send(uint32_t target, Interval interval) {
    if (interval.low <= interval.high) pending_[target].push_back(interval);
  }

  void split(const FlowNode& node, Intervals values) {
    Intervals rest;  // stays for node.other, moved as a whole because chains are long
    for (const Interval& interval : values) {
      const auto [low, high] = interval;
      if (node.code == kJeqK) {
        if (node.k < low || node.k > high) {
          rest.push_back(interval);
          continue;
        }
        send(node.next, {node.k, node.k});
        if (node.k > low) rest.push_back({low, node.k - 1});
        if (node.k < high) rest.push_back({node.k + 1, high});
        continue;
      }
      // JGT k is JGE k + 1, and never true for the largest k.
      const bool never = node.code == kJgtK && node.k == 0xffffffff;
      const uint32_t from = node.code == kJgtK ? node.k + 1 : node.k;
      if (never || high < from) {
        rest.push_back(interval);
      } else if (low >= from) {
        send(node.next, interval);
      } else {
        send(node.next, {from, high});
        rest.push_back({low, from - 1});
      }
    }
    if (rest.empty()) return;
    Intervals& target = pending_[node.other];
    if (target.empty()) {
      target = std::move(rest);
    } else {
      target.insert(target.end(), rest.begin(), rest.end());
    }
  }

  static SwitchArms joined(std::vector<std::pair<Interval, uint32_t>> decided) {
    std::sort(decided.begin(), decided.end(),
              [](const auto& left, const auto& right) { return left.first.low < right.first.low; });
    SwitchArms arms;
    for (const auto& [interval, target] : decided) {
      if (arms.empty() || arms.back().target != target) arms.push_back({interval.low, target});
    }
    // Values outside the known range do not occur; the first arm takes those below it, the last those above.
    arms.front().first = 0;
    return arms;
  }

  const FlowGraph& graph_;
  std::map<uint32_t, Intervals> pending_;
};

}  // namespace

bool lower_dispatch(FlowGraph& graph) {
  const std::vector<std::optional<Facts>> facts = find_facts(graph);
  std::vector<bool> reached(graph.nodes.size());
  reached[graph.entry] = true;
  // Compares that are entered from several sides are lowered again for each suffix; this bounds the sum.
  size_t arms_left = 4 * graph.nodes.size() + 64;
  bool changed = false;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!reached[i]) continue;
    if (is_word_compare(graph.nodes[i].code) && facts[i]) {
      SwitchArms arms = Partition(graph, i, facts[i]->a_range).run(arms_left);
      if (arms.size() == 1) {
        graph.nodes[i] = {kJa, 0, arms.front().target};
        changed = true;
      } else if (arms.size() > 1) {
        arms_left -= std::min(arms_left, arms.size());
        const uint32_t extra = static_cast<uint32_t>(graph.switches.size());
        graph.switches.push_back(std::move(arms));
        graph.nodes[i] = {kFlowSwitch, 0, kNoNode, kNoNode, 0, extra};
        changed = true;
      }
    }
    for_each_successor(graph, graph.nodes[i], [&](uint32_t successor) { reached[successor] = true; });
  }
  return changed;
}

}  // namespace srun::bpf
