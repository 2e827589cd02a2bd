#pragma once
#include <cstdint>
#include <vector>

#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// Which registers may be read from a node on, itself included: bit k for M[k], then A and X.
using LiveSet = uint32_t;
inline constexpr LiveSet kLiveA = 1u << kScratchWords;
inline constexpr LiveSet kLiveX = 1u << (kScratchWords + 1);

std::vector<LiveSet> find_liveness(const FlowGraph& graph);

// What the node reads and what it overwrites.
struct Effects {
  LiveSet reads = 0;
  LiveSet writes = 0;
  bool may_end = false;  // may end the program without being a RET
};
Effects effects_of(const FlowGraph& graph, const FlowNode& node);

}  // namespace srun::bpf
