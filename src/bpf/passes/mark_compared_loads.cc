#include "bpf/passes/liveness.h"
#include "bpf/passes/lowering.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kUnknownOrigin = kNoNode;
constexpr uint32_t kNotReached = kNoNode - 1;

bool is_candidate(const FlowNode& node) {
  if (node.code == kLdAbsW || node.code == kLdAbsH) return node.k < 0x80000000;
  return node.code == kLdIndW || node.code == kLdIndH;
}

class Marker {
 public:
  explicit Marker(FlowGraph& graph)
      : graph_(graph),
        live_(find_liveness(graph)),
        origin_(graph.nodes.size(), kNotReached),
        disqualified_(graph.nodes.size(), false) {}

  void run() {
    origin_[graph_.entry] = kUnknownOrigin;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (origin_[i] != kNotReached) visit(i);
    }
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      FlowNode& node = graph_.nodes[i];
      if (is_candidate(node) && !disqualified_[i]) node.width = static_cast<uint8_t>(load_bytes(node.code));
      if (!is_compare(node) || origin_[i] >= kNotReached || disqualified_[origin_[i]]) continue;
      node.width = static_cast<uint8_t>(load_bytes(graph_.nodes[origin_[i]].code));
    }
  }

 private:
  static bool is_compare(const FlowNode& node) { return node.code == kJeqK || node.code == kJsetK; }

  void disqualify(uint32_t origin) {
    if (origin < kNotReached) disqualified_[origin] = true;
  }

  void visit(uint32_t i) {
    const FlowNode& node = graph_.nodes[i];
    const Effects effects = effects_of(graph_, node);
    const uint32_t origin = origin_[i];
    if ((effects.reads & kLiveA) != 0 && origin < kNotReached) {
      // A half word never equals a constant with upper bits; swapped, it might.
      const bool half = load_bytes(graph_.nodes[origin].code) == 2;
      if (!is_compare(node) || (node.code == kJeqK && half && node.k > 0xffff)) disqualify(origin);
    }
    uint32_t behind = origin;
    if ((effects.writes & kLiveA) != 0) behind = is_candidate(node) ? i : kUnknownOrigin;
    for_each_successor(graph_, node, [&](uint32_t successor) {
      uint32_t& known = origin_[successor];
      if (known == kNotReached) {
        known = behind;
      } else if (known != behind) {
        // Somebody may read either value here: neither may stay unswapped.
        if ((live_[successor] & kLiveA) != 0) {
          disqualify(known);
          disqualify(behind);
        }
        known = kUnknownOrigin;
      }
    });
  }

  FlowGraph& graph_;
  const std::vector<LiveSet> live_;
  std::vector<uint32_t> origin_;
  std::vector<bool> disqualified_;
};

}  // namespace

void mark_compared_loads(FlowGraph& graph) {
  if (graph.flavour == Flavour::kPacket) Marker(graph).run();
}

}  // namespace srun::bpf
