#include "bpf/passes/passes.h"

namespace srun::bpf {

void clean_up(FlowGraph& graph) {
  // Compiled programs settle in two or three rounds. The bound is for programs that give up one instruction per round.
  constexpr int kMaxRounds = 6;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = thread_jumps(graph);
    changed |= merge_equal_branches(graph);
    changed |= remove_redundant_loads(graph);
    changed |= remove_unreachable(graph);
    changed |= remove_dead_assignments(graph);
    changed |= merge_equal_tails(graph);
    changed |= remove_unreachable(graph);
    if (!changed) return;
  }
}

}  // namespace srun::bpf
