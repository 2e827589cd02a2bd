#include <algorithm>

#include "bpf/packet.h"
#include "bpf/passes/facts.h"
#include "bpf/passes/liveness.h"
#include "bpf/passes/lowering.h"

namespace srun::bpf {
namespace {

// "Whatever the packet's length": the program ends with 0 on every path.
constexpr uint32_t kDoesNotMatter = 0xffffffff;
// X + k then stays far from 2^31 for every X that counts as small.
constexpr uint32_t kMaxNearOffset = 0x7fff0000;

bool at_constant_offset(const FlowNode& node) {
  return (is_absolute_load(node.code) || node.code == kLdxMsh) && node.k < 0x80000000;
}

// Ancillary loads may end the program with A, which need not be 0.
bool may_end_with_a(const FlowNode& node) { return is_absolute_load(node.code) && node.k >= kAncillaryBase; }

// Finds the checks for one kind of loads: those at constant offsets, or those near X, whose limits count from X and are
// forgotten when X is written.
class Placer {
 public:
  Placer(FlowGraph& graph, bool near) : graph_(graph), near_(near) {}

  // Each check asks for what its own load needs (`widened` false) or for all that is needed from there on.
  void run(bool widened) {
    if (widened) find_needed();
    const uint32_t count = static_cast<uint32_t>(graph_.nodes.size());
    // How many bytes are known to be there before each node.
    std::vector<uint32_t> known(count, kDoesNotMatter);
    known[graph_.entry] = 0;
    for (uint32_t i = 0; i < count; ++i) {
      FlowNode& node = graph_.nodes[i];
      uint32_t behind = known[i];
      if (is_mine(node)) {
        node.limit = bytes_needed(node) <= known[i] ? 0 : widened ? needed_[i] : bytes_needed(node);
        behind = std::max(known[i], node.limit);
      }
      if (forgets(node)) behind = 0;
      for_each_successor(graph_, node,
                         [&](uint32_t successor) { known[successor] = std::min(known[successor], behind); });
    }
  }

 private:
  bool is_mine(const FlowNode& node) const { return near_ ? node.near : at_constant_offset(node); }
  bool forgets(const FlowNode& node) const { return near_ && (effects_of(graph_, node).writes & kLiveX) != 0; }
  static uint32_t bytes_needed(const FlowNode& node) { return node.k + load_bytes(node.code); }

  // A packet with fewer bytes than needed_[i] gives 0 from node i on, on every path.
  void find_needed() {
    needed_.assign(graph_.nodes.size(), 0);
    for (uint32_t i = static_cast<uint32_t>(graph_.nodes.size()); i-- > 0;) {
      const FlowNode& node = graph_.nodes[i];
      if (is_return(node.code)) {
        needed_[i] = node.code == kRetK && node.k == 0 ? kDoesNotMatter : 0;
        continue;
      }
      uint32_t behind = kDoesNotMatter;
      for_each_successor(graph_, node, [&](uint32_t successor) { behind = std::min(behind, needed_[successor]); });
      if (may_end_with_a(node) || (forgets(node) && behind != kDoesNotMatter)) {
        needed_[i] = 0;
      } else if (is_mine(node)) {
        needed_[i] = behind == kDoesNotMatter ? bytes_needed(node) : std::max(behind, bytes_needed(node));
      } else {
        needed_[i] = behind;
      }
    }
  }

  FlowGraph& graph_;
  const bool near_;
  std::vector<uint32_t> needed_;
};

void place(FlowGraph& graph, bool widened) {
  const std::vector<std::optional<Facts>> facts = find_facts(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    FlowNode& node = graph.nodes[i];
    node.near = is_indirect_load(node.code) && node.k <= kMaxNearOffset && facts[i] &&
                facts[i]->x.kind == KnownValue::Kind::kHeaderLength;
  }
  Placer(graph, false).run(widened);
  Placer(graph, true).run(widened);
}

}  // namespace

void place_bounds_checks(FlowGraph& graph) {
  if (graph.flavour == Flavour::kPacket) place(graph, true);
}

bool remove_unread_loads(FlowGraph& graph) {
  if (graph.flavour != Flavour::kPacket) return false;
  // Not with widened checks: there an earlier load may be asking for what the unread one needs.
  place(graph, false);
  const std::vector<LiveSet> live = find_liveness(graph);
  bool changed = false;
  for (FlowNode& node : graph.nodes) {
    const bool cannot_fail = (at_constant_offset(node) || node.near) && node.limit == 0;
    if (cannot_fail && (live[node.next] & effects_of(graph, node).writes) == 0) {
      node = {kJa, 0, node.next};
      changed = true;
    }
    node.limit = 0;
    node.near = false;
  }
  return changed;
}

}  // namespace srun::bpf
