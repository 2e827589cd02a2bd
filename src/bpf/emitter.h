#pragma once
#include <vector>

#include "base/error.h"
#include "bpf/branch_graph.h"
#include "bpf/instruction.h"

namespace srun::bpf {

// Lays the graph out as classic BPF. Loads are left out where A already holds the word; what lies beyond the 255
// instructions of a conditional jump is reached by a second RET or by a JA. Empty if more than kMaxInstructions would
// be needed.
std::vector<Instruction> emit(const BranchGraph& graph, NodeId root);

// Instructions that emit() gives, or at least a number above kMaxInstructions.
size_t emitted_size(const BranchGraph& graph, NodeId root);

}  // namespace srun::bpf
