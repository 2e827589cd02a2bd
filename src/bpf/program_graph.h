#pragma once
// Programs back into the compiler's middle form: specialised to one call number, merged over the layers of a stack, and
// emitted again as a residual program that asks only what still matters.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bpf/branch_graph.h"
#include "bpf/program.h"

namespace srun::bpf {

// What `program` does for calls of this arch and number, as comparisons of the other words. Empty if it does something
// that is no comparison (arithmetic on an argument, X, scratch memory), or if the graph grows beyond `node_limit`.
std::optional<NodeId> specialised_graph(BranchGraph& graph, const Program& program, uint32_t audit_arch, uint32_t nr,
                                        size_t node_limit);

// The winner of a stack of filters for one call.
struct StackVerdict {
  uint32_t value = 0;  // the winning filter's return value, data included
  uint16_t layer = 0;  // its index, 0 is the oldest
  friend bool operator==(const StackVerdict&, const StackVerdict&) = default;
};

// One layer as merge_layers() takes it. `root` has return values as leaves.
struct GraphLayer {
  NodeId root = 0;
  uint16_t layer = 0;
};

// The graph of all layers, newest first: leaves are indices into `outcomes`, which grows as needed. The strictest
// action wins, the newest layer on a tie. Empty beyond `node_limit` nodes.
std::optional<NodeId> merge_layers(BranchGraph& graph, std::span<const GraphLayer> newest_first,
                                   std::vector<StackVerdict>& outcomes, size_t node_limit);

}  // namespace srun::bpf
