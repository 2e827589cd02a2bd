#include <algorithm>

#include "bpf/packet.h"
#include "bpf/passes/lowering.h"

namespace srun::bpf {
namespace {

// "Whatever the packet's length": the program ends with 0 on every path.
constexpr uint32_t kDoesNotMatter = 0xffffffff;

bool at_constant_offset(const FlowNode& node) {
  return (is_absolute_load(node.code) || node.code == kLdxMsh) && node.k < 0x80000000;
}

uint32_t bytes_needed(const FlowNode& node) { return node.k + load_bytes(node.code); }

// Ancillary loads may end the program with A, which need not be 0.
bool may_end_with_a(const FlowNode& node) { return is_absolute_load(node.code) && node.k >= kAncillaryBase; }

}  // namespace

void place_bounds_checks(FlowGraph& graph) {
  if (graph.flavour != Flavour::kPacket) return;
  const uint32_t count = static_cast<uint32_t>(graph.nodes.size());

  // Upwards: a packet shorter than needed[i] gives 0 from node i on, on every path.
  std::vector<uint32_t> needed(count, 0);
  for (uint32_t i = count; i-- > 0;) {
    const FlowNode& node = graph.nodes[i];
    if (is_return(node.code)) {
      needed[i] = node.code == kRetK && node.k == 0 ? kDoesNotMatter : 0;
      continue;
    }
    uint32_t behind = kDoesNotMatter;
    for_each_successor(graph, node, [&](uint32_t successor) { behind = std::min(behind, needed[successor]); });
    if (at_constant_offset(node)) {
      needed[i] = behind == kDoesNotMatter ? bytes_needed(node) : std::max(behind, bytes_needed(node));
    } else {
      needed[i] = may_end_with_a(node) ? 0 : behind;
    }
  }

  // Downwards: how long the packet is known to be.
  std::vector<uint32_t> known(count, kDoesNotMatter);
  known[graph.entry] = 0;
  for (uint32_t i = 0; i < count; ++i) {
    FlowNode& node = graph.nodes[i];
    uint32_t behind = known[i];
    if (at_constant_offset(node)) {
      node.limit = bytes_needed(node) <= known[i] ? 0 : needed[i];
      behind = std::max(known[i], node.limit);
    }
    for_each_successor(graph, node, [&](uint32_t successor) { known[successor] = std::min(known[successor], behind); });
  }
}

}  // namespace srun::bpf
