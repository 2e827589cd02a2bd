#pragma once
#include "bpf/branch_graph.h"

namespace srun::bpf {

// The same decision without comparisons whose answer is already known on every way to them: rules of one layer about
// the low half of an argument and rules of another about all of it, contradicting tests of two rules. A call that is
// allowed whatever its arguments thereby loses its argument tests, which the kernel's bitmap needs.
NodeId without_known_answers(BranchGraph& graph, NodeId root);

}  // namespace srun::bpf
