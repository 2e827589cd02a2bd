#pragma once
// Lowering passes: they give the converter coarser nodes. Run after the clean-up, in this order; each keeps the result
// of the program on every input.
#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// Two compares of the halves of one 64-bit argument that together decide ==, > or >= become one kFlowWide node.
bool recombine_halves(FlowGraph& graph);
// A tree or chain of compares of an unchanged A with constants becomes one kFlowSwitch node.
bool lower_dispatch(FlowGraph& graph);
// Packet flavour: sets `limit` of each load at a constant offset so that one check covers the loads behind it. A failed
// load and `ret 0` are the same result, so a check may ask for everything that every other way out needs.
void place_bounds_checks(FlowGraph& graph);

}  // namespace srun::bpf
