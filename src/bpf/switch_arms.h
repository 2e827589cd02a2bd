#pragma once
#include <algorithm>
#include <cstddef>

#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// Arms whose values lie close together: [from, to), always followed by a further arm.
struct DenseArms {
  size_t from = 0;
  size_t to = 0;
};

// A part of the inner arms of [from, to), without the first and the last, that a table by value suits: its values
// number at most `values_per_arm` for each arm, or at most `always` in all. Arms that spoil that are given up at either
// end, the widest first. May be empty.
inline DenseArms dense_arms(const SwitchArms& arms, size_t from, size_t to, uint64_t values_per_arm, uint64_t always) {
  if (to - from < 3) return {from, from};
  DenseArms part{from + 1, to - 1};
  while (part.from < part.to) {
    const uint64_t values = arms[part.to].first - arms[part.from].first;
    if (values <= std::max<uint64_t>(always, values_per_arm * (part.to - part.from))) break;
    const uint32_t front = arms[part.from + 1].first - arms[part.from].first;
    const uint32_t back = arms[part.to].first - arms[part.to - 1].first;
    if (front > back) {
      ++part.from;
    } else {
      --part.to;
    }
  }
  return part;
}

}  // namespace srun::bpf
