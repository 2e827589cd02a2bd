#pragma once
// Lowering passes: they give the converter coarser nodes. Run after the clean-up, in this order; each keeps the result
// of the program on every input.
#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// Two compares of the halves of one 64-bit argument that together decide ==, > or >= become one kFlowWide node. The
// loads of the high halves are usually dead then: clean up again.
bool recombine_halves(FlowGraph& graph);
// A tree or chain of compares of an unchanged A with constants becomes one kFlowSwitch node.
bool lower_dispatch(FlowGraph& graph);
// Packet flavour: sets `limit` of each load at a constant offset, and `near` and `limit` of each load at a small X, so
// that one check covers the loads behind it. A failed load and `ret 0` are the same result, so a check may ask for
// everything that every other way out needs. Any later change of the graph's edges makes the limits worthless.
void place_bounds_checks(FlowGraph& graph);
// Packet flavour: removes loads that nobody reads and that cannot fail. Resets the limits.
bool remove_unread_loads(FlowGraph& graph);
// Packet flavour: finds loads whose value is only compared for equality or tested for bits, and marks them and those
// compares with `width`: the bytes may then stay in network order.
void mark_compared_loads(FlowGraph& graph);

}  // namespace srun::bpf
