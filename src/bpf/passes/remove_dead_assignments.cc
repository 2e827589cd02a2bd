#include "bpf/passes/liveness.h"
#include "bpf/passes/passes.h"

namespace srun::bpf {

bool remove_dead_assignments(FlowGraph& graph) {
  bool changed = false;
  const std::vector<LiveSet> live = find_liveness(graph);
  for (FlowNode& node : graph.nodes) {
    if (node.next == kNoNode || node.code == kJa || is_branch(node.code)) continue;
    const Effects effects = effects_of(graph, node);
    if (effects.may_end || (live[node.next] & effects.writes) != 0) continue;
    node = {kJa, 0, node.next};
    changed = true;
  }
  return changed;
}

}  // namespace srun::bpf
