#include "bpf/emitter.h"

#include <algorithm>
#include <array>

#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kNowhere = ~uint32_t{0};
constexpr uint32_t kAllBits = 0xffffffff;
// One less than a jump's reach: placing the trampoline of one side moves the other side by one.
constexpr uint32_t kReach = 254;

// Where a node is entered: with A unknown, with A holding its unmasked word, or with A ready.
enum Entry : uint8_t { kLoad, kMask, kReady };

Entry entry_from(const BranchNode& parent, const BranchNode& child) {
  if (child.leaf) return kReady;
  if (parent.word != child.word) return kLoad;
  if (parent.mask == child.mask) return kReady;
  return parent.mask == kAllBits ? kMask : kLoad;
}

uint16_t opcode(Branch branch) {
  switch (branch) {
    case Branch::kEqual:
      return kJeqK;
    case Branch::kGreaterEqual:
      return kJgeK;
    default:
      return kJsetK;
  }
}

// Writes the program from its end, so that every jump's target is already placed. Positions count from the end.
class Emitter {
 public:
  Emitter(const BranchGraph& graph, NodeId root) : graph_(graph), root_(root) {}

  std::vector<Instruction> run() {
    const std::vector<bool> reached = graph_.reachable(root_);
    const auto nodes = static_cast<size_t>(std::count(reached.begin(), reached.end(), true));
    if (nodes > kMaxInstructions) return {};
    prepare(reached);
    place(root_);
    if (code_.size() > kMaxInstructions) return {};
    std::reverse(code_.begin(), code_.end());
    return std::move(code_);
  }

 private:
  void prepare(const std::vector<bool>& reached) {
    needed_.resize(reached.size());
    tree_size_.resize(reached.size());
    positions_.resize(reached.size(), {kNowhere, kNowhere, kNowhere});
    needed_[root_][kLoad] = true;
    for (NodeId id = 0; id <= root_; ++id) {
      if (!reached[id]) continue;
      const BranchNode& node = graph_[id];
      tree_size_[id] = 1;
      if (node.leaf) continue;
      tree_size_[id] += tree_size_[node.yes] + tree_size_[node.no];
      needed_[node.yes][entry_from(node, graph_[node.yes])] = true;
      needed_[node.no][entry_from(node, graph_[node.no])] = true;
    }
  }

  uint32_t push(uint16_t code, uint32_t k, uint32_t jt = 0, uint32_t jf = 0) {
    code_.push_back({code, static_cast<uint8_t>(jt), static_cast<uint8_t>(jf), k});
    return static_cast<uint32_t>(code_.size() - 1);
  }

  // Depth is at most the number of nodes on one path, which is bounded by kMaxInstructions.
  void place(NodeId id) {
    if (positions_[id][kReady] != kNowhere) return;
    const BranchNode& node = graph_[id];
    auto& position = positions_[id];
    if (node.leaf) {
      position[kReady] = push(kRetK, node.k);
      return;
    }
    // The smaller side follows at once, so that the distance to the other one is short.
    const bool yes_is_near = tree_size_[node.yes] <= tree_size_[node.no];
    place(yes_is_near ? node.no : node.yes);
    place(yes_is_near ? node.yes : node.no);
    bring_near(node, node.yes);
    bring_near(node, node.no);
    position[kReady] = push(opcode(node.branch), node.k, distance(node, node.yes), distance(node, node.no));
    const auto& needed = needed_[id];
    if (node.mask != kAllBits && (needed[kLoad] || needed[kMask])) position[kMask] = push(kAndK, node.mask);
    if (needed[kLoad]) position[kLoad] = push(kLdAbsW, node.word);
  }

  uint32_t& target(const BranchNode& from, NodeId to) { return positions_[to][entry_from(from, graph_[to])]; }

  uint32_t distance(const BranchNode& from, NodeId to) {
    return static_cast<uint32_t>(code_.size()) - target(from, to) - 1;
  }

  void bring_near(const BranchNode& from, NodeId to) {
    const uint32_t far = distance(from, to);
    if (far <= kReach) return;
    // Later jumps use the copy: it is the nearest one from now on.
    target(from, to) = graph_[to].leaf ? push(kRetK, graph_[to].k) : push(kJa, far);
  }

  const BranchGraph& graph_;
  NodeId root_;
  std::vector<Instruction> code_;
  std::vector<std::array<bool, 3>> needed_;
  std::vector<double> tree_size_;  // shared nodes counted each time; a double, since that can grow exponentially
  std::vector<std::array<uint32_t, 3>> positions_;
};

}  // namespace

std::vector<Instruction> emit(const BranchGraph& graph, NodeId root) { return Emitter(graph, root).run(); }

size_t emitted_size(const BranchGraph& graph, NodeId root) {
  const size_t size = emit(graph, root).size();
  return size == 0 ? kMaxInstructions + 1 : size;
}

}  // namespace srun::bpf
