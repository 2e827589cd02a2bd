#include "bpf/passes/facts.h"
#include "bpf/passes/passes.h"

namespace srun::bpf {
namespace {

// Steps per pass over all edges: linear in the program for a hostile one, ample for compiled ones (a chain of 200 rules
// on one call number takes about 80,000).
constexpr uint32_t kStepsPerNode = 256;

class Threader {
 public:
  explicit Threader(FlowGraph& graph)
      : graph_(graph), facts_(find_facts(graph)), steps_left_(kStepsPerNode * graph.nodes.size()) {}

  bool run() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!facts_[i]) continue;
      FlowNode& node = graph_.nodes[i];
      if (is_branch(node.code)) {
        thread_side(node, true, *facts_[i]);
        thread_side(node, false, *facts_[i]);
      } else if (node.next != kNoNode) {
        Facts behind = *facts_[i];
        apply(graph_, i, behind);
        redirect(node.next, behind);
      }
    }
    Facts start;
    redirect(graph_.entry, start);
    return changed_;
  }

 private:
  void thread_side(FlowNode& node, bool side, Facts facts) {
    const std::optional<bool> outcome = decided(node, facts);
    uint32_t& edge = side ? node.next : node.other;
    if (outcome && *outcome != side) {
      // Never taken: both sides alike lets merge_equal_branches remove the branch. The taken side is threaded by
      // itself.
      const uint32_t taken = side ? node.other : node.next;
      changed_ |= edge != taken;
      edge = taken;
      return;
    }
    assume(node, side, facts);
    redirect(edge, facts);
  }

  void redirect(uint32_t& edge, Facts& facts) {
    uint32_t target = edge;
    while (steps_left_ > 0) {
      --steps_left_;
      const FlowNode& node = graph_.nodes[target];
      if (node.code == kJa || changes_nothing(graph_, node, facts)) {
        target = node.next;
      } else if (const std::optional<bool> outcome = decided(node, facts)) {
        assume(node, *outcome, facts);
        target = *outcome ? node.next : node.other;
      } else {
        break;
      }
    }
    changed_ |= target != edge;
    edge = target;
  }

  FlowGraph& graph_;
  const std::vector<std::optional<Facts>> facts_;
  size_t steps_left_;
  bool changed_ = false;
};

}  // namespace

bool thread_jumps(FlowGraph& graph) { return Threader(graph).run(); }

}  // namespace srun::bpf
