#pragma once
// A search over the values of one word: which interval does it lie in? Becomes JGE and JEQ comparisons whose expected
// number is small for the given weights.
#include <cstdint>
#include <vector>

#include "bpf/branch_graph.h"

namespace srun::bpf {

struct Segment {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  NodeId target = 0;
  double weight = 1;  // how often a value lies here, in any unit; not negative
};

// What one comparison of program size is worth, in comparisons executed by an average value. Small trees are within a
// few percent of the fastest with kBalanced; kSmallest is for programs near the kernel's limit, kQuick
// for those that need not be good but soon compiled.
enum class Goal : uint8_t { kQuick, kBalanced, kSmallest };

// `segments` are sorted and gap-free and cover 0 … `mask`; neighbours may have equal targets and are then joined.
NodeId build_search(BranchGraph& graph, uint32_t word, uint32_t mask, std::vector<Segment> segments,
                    Goal goal = Goal::kBalanced);

}  // namespace srun::bpf
