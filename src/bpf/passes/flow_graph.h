#pragma once
// The form that the clean-up and lowering passes work on: a verified program in which every instruction names its
// successors. Edges lead to higher numbers only (classic jumps go forward), so one walk by number, up or down, is a
// complete data-flow analysis.
#include <cstdint>
#include <vector>

#include "bpf/opcodes.h"
#include "bpf/program.h"

namespace srun::bpf {

// Node codes beyond the classic opcodes, made by the lowering passes.
inline constexpr uint16_t kFlowWide = 0x100;    // 64-bit compare of an argument: wides[extra]
inline constexpr uint16_t kFlowSwitch = 0x101;  // A against a partition of all 32-bit values: switches[extra]

inline constexpr uint32_t kNoNode = 0xffffffff;

struct FlowNode {
  uint16_t code = 0;
  uint32_t k = 0;
  uint32_t next = kNoNode;   // successor; of a conditional jump: where it goes when true. None for RET and kFlowSwitch.
  uint32_t other = kNoNode;  // of a conditional jump: where it goes when false
  uint32_t limit = 0;        // packet loads: bytes the packet must have, 0 if that is known here (place_bounds_checks)
  uint32_t extra = 0;        // index of the payload of kFlowWide and kFlowSwitch
  bool near = false;         // indirect loads: X is small, and `limit` counts from X
  uint8_t width = 0;         // mark_compared_loads: bytes of a load that is only compared, and of those compares
  friend bool operator==(const FlowNode&, const FlowNode&) = default;
};

// next if `op`(argument at byte `offset`, value), else other. Leaves A alone.
struct WideCompare {
  uint16_t op = 0;      // kJeqK, kJgtK or kJgeK, here on 64 bits
  uint32_t offset = 0;  // of the low half in seccomp_data
  uint64_t value = 0;
};

// [first of this arm, first of the following arm) goes to `target`. The first arm begins at 0; neighbours differ.
struct SwitchArm {
  uint32_t first = 0;
  uint32_t target = kNoNode;
  friend bool operator==(const SwitchArm&, const SwitchArm&) = default;
};
using SwitchArms = std::vector<SwitchArm>;

struct FlowGraph {
  Flavour flavour = Flavour::kSeccomp;
  uint32_t entry = 0;
  std::vector<FlowNode> nodes;
  std::vector<WideCompare> wides;
  std::vector<SwitchArms> switches;
};

FlowGraph flow_graph(const Program& program);

constexpr bool is_word_compare(uint16_t code) { return code == kJeqK || code == kJgtK || code == kJgeK; }
constexpr bool is_branch(uint16_t code) { return is_conditional_jump(code) || code == kFlowWide; }
constexpr bool is_indirect_load(uint16_t code) { return code == kLdIndW || code == kLdIndH || code == kLdIndB; }
constexpr bool is_absolute_load(uint16_t code) { return code == kLdAbsW || code == kLdAbsH || code == kLdAbsB; }
// Bytes read by an absolute or indirect load.
constexpr uint32_t load_bytes(uint16_t code) {
  return code == kLdAbsW || code == kLdIndW ? 4 : code == kLdAbsH || code == kLdIndH ? 2 : 1;
}

// Calls visit(successor) for each edge that leaves the node.
template <typename Visit>
void for_each_successor(const FlowGraph& graph, const FlowNode& node, Visit visit) {
  if (node.code == kFlowSwitch) {
    for (const SwitchArm& arm : graph.switches[node.extra]) visit(arm.target);
    return;
  }
  if (node.next != kNoNode) visit(node.next);
  if (node.other != kNoNode) visit(node.other);
}

// The classic program again, for comparing a pass alone with the reference. Empty if a jump would not fit or the graph
// holds lowered nodes.
std::vector<Instruction> to_classic(const FlowGraph& graph);

}  // namespace srun::bpf
