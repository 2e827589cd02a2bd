#include "bpf/passes/liveness.h"

#include "bpf/packet.h"

namespace srun::bpf {

Effects effects_of(const FlowGraph& graph, const FlowNode& node) {
  const bool packet = graph.flavour == Flavour::kPacket;
  switch (node.code) {
    case kLdImm:
    case kLdLen:
      return {0, kLiveA, false};
    case kLdxImm:
    case kLdxLen:
      return {0, kLiveX, false};
    case kLdMem:
      return {1u << node.k, kLiveA, false};
    case kLdxMem:
      return {1u << node.k, kLiveX, false};
    case kSt:
      return {kLiveA, 1u << node.k, false};
    case kStx:
      return {kLiveX, 1u << node.k, false};
    case kTax:
      return {kLiveA, kLiveX, false};
    case kTxa:
      return {kLiveX, kLiveA, false};
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
      // Some ancillary loads end with A, one is A ^= X.
      if (packet && node.k >= kAncillaryBase) return {kLiveA | kLiveX, kLiveA, true};
      return {0, kLiveA, packet};
    case kLdIndW:
    case kLdIndH:
    case kLdIndB:
      return {kLiveX, kLiveA, true};
    case kLdxMsh:
      return {0, kLiveX, true};
    case kRetA:
      return {kLiveA, 0, false};
    case kJeqK:
    case kJgtK:
    case kJgeK:
    case kJsetK:
    case kFlowSwitch:
      return {kLiveA, 0, false};
    case kJeqX:
    case kJgtX:
    case kJgeX:
    case kJsetX:
      return {kLiveA | kLiveX, 0, false};
    case kDivX:
    case kModX:
      return {kLiveA | kLiveX, kLiveA, true};
    case kNeg:
      return {kLiveA, kLiveA, false};
    case kRetK:
    case kJa:
    case kFlowWide:
      return {};
    default:
      return {(node.code & 0x08) != 0 ? kLiveA | kLiveX : kLiveA, kLiveA, false};  // the other arithmetic
  }
}

std::vector<LiveSet> find_liveness(const FlowGraph& graph) {
  std::vector<LiveSet> live(graph.nodes.size());
  for (uint32_t i = static_cast<uint32_t>(graph.nodes.size()); i-- > 0;) {
    const FlowNode& node = graph.nodes[i];
    const Effects effects = effects_of(graph, node);
    LiveSet behind = 0;
    for_each_successor(graph, node, [&](uint32_t successor) { behind |= live[successor]; });
    live[i] = effects.reads | (behind & ~effects.writes);
  }
  return live;
}

}  // namespace srun::bpf
