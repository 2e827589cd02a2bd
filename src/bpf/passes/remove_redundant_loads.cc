#include "bpf/passes/facts.h"
#include "bpf/passes/passes.h"

namespace srun::bpf {
namespace {

bool is_plain_alu(uint16_t code) {
  return (code & 7) == 4 && code != kDivX && code != kModX;  // these two may end the program
}

}  // namespace

bool remove_redundant_loads(FlowGraph& graph) {
  bool changed = false;
  const std::vector<std::optional<Facts>> facts = find_facts(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    FlowNode& node = graph.nodes[i];
    if (!facts[i] || node.code == kJa || is_return(node.code)) continue;
    if (changes_nothing(graph, node, *facts[i])) {
      node = {kJa, 0, node.next};
      changed = true;
      continue;
    }
    if (is_indirect_load(node.code) && facts[i]->x.is_constant()) {
      // Not where the sum is negative: there the same number means an ancillary word in an absolute load.
      const uint32_t offset = facts[i]->x.number + node.k;
      if (offset >= 0x80000000) continue;
      node.code = node.code == kLdIndW ? kLdAbsW : node.code == kLdIndH ? kLdAbsH : kLdAbsB;
      node.k = offset;
      changed = true;
      continue;
    }
    const bool word_of_call = graph.flavour == Flavour::kSeccomp && node.code == kLdAbsW;
    if (!is_plain_alu(node.code) && !word_of_call && node.code != kTxa && node.code != kLdMem) continue;
    Facts behind = *facts[i];
    apply(graph, i, behind);
    if (behind.a_range.single()) {
      node = {kLdImm, behind.a_range.low, node.next};
      changed = true;
    }
  }
  return changed;
}

}  // namespace srun::bpf
