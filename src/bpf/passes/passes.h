#pragma once
// Clean-up passes: each keeps the result of the program on every input, may be applied in any order, and returns
// whether it changed anything. They run on a verified program only: whether a program is accepted is decided on the
// original.
#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// Leads each edge past everything that its path already decides: jumps, branches whose outcome is known on this edge,
// loads of what the register already holds on this edge.
bool thread_jumps(FlowGraph& graph);
// A branch whose two sides are the same node becomes a jump.
bool merge_equal_branches(FlowGraph& graph);
// A node that does the same as a later node and continues in the same way is replaced by it; equal returns become one.
bool merge_equal_tails(FlowGraph& graph);
// A load or store of what is already there on every path becomes a jump; arithmetic with a known result becomes a
// constant, an indirect load with a known X an absolute one.
bool remove_redundant_loads(FlowGraph& graph);
// An instruction whose result nobody reads and that cannot end the program becomes a jump.
bool remove_dead_assignments(FlowGraph& graph);
// Drops what cannot be reached and renumbers the rest.
bool remove_unreachable(FlowGraph& graph);

// All of the above until nothing changes, or for a bounded number of rounds on programs that are made to be awkward.
void clean_up(FlowGraph& graph);

}  // namespace srun::bpf
