#include "bpf/passes/passes.h"

namespace srun::bpf {

bool merge_equal_branches(FlowGraph& graph) {
  bool changed = false;
  for (FlowNode& node : graph.nodes) {
    if (!is_branch(node.code) || node.next != node.other) continue;
    node = {kJa, 0, node.next};
    changed = true;
  }
  return changed;
}

}  // namespace srun::bpf
