#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

FlowGraph flow_graph(const Program& program) {
  FlowGraph graph;
  graph.flavour = program.flavour();
  const std::span<const Instruction> code = program.code();
  graph.nodes.reserve(code.size());
  for (uint32_t pc = 0; pc < code.size(); ++pc) {
    const Instruction& insn = code[pc];
    FlowNode node{insn.code, insn.k};
    if (insn.code == kJa) {
      node.k = 0;
      node.next = pc + 1 + insn.k;
    } else if (is_conditional_jump(insn.code)) {
      node.next = pc + 1 + insn.jt;
      node.other = pc + 1 + insn.jf;
    } else if (!is_return(insn.code)) {
      node.next = pc + 1;
    }
    // Fields that an instruction ignores hold anything; equal nodes must be equal.
    switch (insn.code) {
      case kTax:
      case kTxa:
      case kNeg:
      case kRetA:
      case kLdLen:
      case kLdxLen:
      case kAddX:
      case kSubX:
      case kMulX:
      case kDivX:
      case kModX:
      case kAndX:
      case kOrX:
      case kXorX:
      case kLshX:
      case kRshX:
      case kJeqX:
      case kJgtX:
      case kJgeX:
      case kJsetX:
        node.k = 0;
        break;
      default:
        break;
    }
    // seccomp_check_filter rewrites LEN to the constant size of seccomp_data.
    if (graph.flavour == Flavour::kSeccomp && (insn.code == kLdLen || insn.code == kLdxLen)) {
      node.code = insn.code == kLdLen ? kLdImm : kLdxImm;
      node.k = sizeof(CallData);
    }
    graph.nodes.push_back(node);
  }
  return graph;
}

std::vector<Instruction> to_classic(const FlowGraph& graph) {
  const uint32_t count = static_cast<uint32_t>(graph.nodes.size());
  // Where each node begins: a JA is needed behind a node whose successor is not the following one.
  std::vector<uint32_t> begins(count + 1, 1);
  begins[0] = 1;  // room for a JA to the entry
  for (uint32_t i = 0; i < count; ++i) {
    const FlowNode& node = graph.nodes[i];
    if (node.code == kFlowWide || node.code == kFlowSwitch) return {};
    const bool plain = !is_conditional_jump(node.code) && !is_return(node.code) && node.code != kJa;
    begins[i + 1] = begins[i] + 1 + (plain && node.next != i + 1 ? 1 : 0);
  }
  std::vector<Instruction> code{{kJa, 0, 0, begins[graph.entry] - 1}};
  for (uint32_t i = 0; i < count; ++i) {
    const FlowNode& node = graph.nodes[i];
    const uint32_t behind = begins[i] + 1;
    if (node.code == kJa) {
      code.push_back({kJa, 0, 0, begins[node.next] - behind});
    } else if (is_conditional_jump(node.code)) {
      const uint32_t jt = begins[node.next] - behind;
      const uint32_t jf = begins[node.other] - behind;
      if (jt > 255 || jf > 255) return {};
      code.push_back({node.code, static_cast<uint8_t>(jt), static_cast<uint8_t>(jf), node.k});
    } else {
      code.push_back({node.code, 0, 0, node.k});
      if (begins[i + 1] != behind) code.push_back({kJa, 0, 0, begins[node.next] - behind - 1});
    }
  }
  return code;
}

}  // namespace srun::bpf
