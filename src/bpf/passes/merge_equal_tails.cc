#include <unordered_map>

#include "bpf/passes/passes.h"

namespace srun::bpf {
namespace {

struct NodeHash {
  size_t operator()(const FlowNode& node) const {
    uint64_t hash = node.code;
    for (const uint32_t part : {node.k, node.next, node.other, node.limit, node.extra}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash);
  }
};

}  // namespace

bool merge_equal_tails(FlowGraph& graph) {
  // From the end, so that equal successors have become one before their predecessors are compared. The later of two
  // equal nodes stays, which keeps every edge going forward.
  std::unordered_map<FlowNode, uint32_t, NodeHash> last_equal;
  std::vector<uint32_t> replacement(graph.nodes.size());
  bool changed = false;
  const auto redirect = [&](uint32_t& edge) {
    if (edge == kNoNode || replacement[edge] == edge) return;
    edge = replacement[edge];
    changed = true;
  };
  for (uint32_t i = static_cast<uint32_t>(graph.nodes.size()); i-- > 0;) {
    FlowNode& node = graph.nodes[i];
    redirect(node.next);
    redirect(node.other);
    replacement[i] = last_equal.try_emplace(node, i).first->second;
  }
  redirect(graph.entry);
  return changed;
}

}  // namespace srun::bpf
