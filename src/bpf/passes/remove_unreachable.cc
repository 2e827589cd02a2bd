#include "bpf/passes/passes.h"

namespace srun::bpf {

bool remove_unreachable(FlowGraph& graph) {
  const uint32_t count = static_cast<uint32_t>(graph.nodes.size());
  std::vector<bool> reached(count);
  reached[graph.entry] = true;
  std::vector<uint32_t> renumbered(count, kNoNode);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!reached[i]) continue;
    renumbered[i] = kept++;
    for_each_successor(graph, graph.nodes[i], [&](uint32_t successor) { reached[successor] = true; });
  }
  if (kept == count) return false;

  const auto renumber = [&](uint32_t& edge) {
    if (edge != kNoNode) edge = renumbered[edge];
  };
  std::vector<SwitchArms> switches;
  for (uint32_t i = 0; i < count; ++i) {
    if (!reached[i]) continue;
    FlowNode node = graph.nodes[i];
    renumber(node.next);
    renumber(node.other);
    if (node.code == kFlowSwitch) {
      switches.push_back(std::move(graph.switches[node.extra]));
      node.extra = static_cast<uint32_t>(switches.size()) - 1;
      for (SwitchArm& arm : switches.back()) renumber(arm.target);
    }
    graph.nodes[renumbered[i]] = node;
  }
  graph.nodes.resize(kept);
  graph.switches = std::move(switches);
  renumber(graph.entry);
  return true;
}

}  // namespace srun::bpf
