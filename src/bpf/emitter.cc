#include "bpf/emitter.h"

#include <algorithm>
#include <array>
#include <unordered_map>

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
    const std::vector<NodeId> reached = graph_.reachable(root_);
    if (reached.size() > kMaxInstructions) return {};
    prepare(reached);
    place(root_);
    if (code_.size() > kMaxInstructions) return {};
    std::reverse(code_.begin(), code_.end());
    return std::move(code_);
  }

 private:
  struct Place {
    std::array<bool, 3> needed{};  // which entries some jump uses
    std::array<uint32_t, 3> position{kNowhere, kNowhere, kNowhere};
    double tree_size = 1;  // shared nodes counted each time; a double, since that can grow exponentially
  };

  void prepare(const std::vector<NodeId>& reached) {
    places_.reserve(reached.size());
    for (const NodeId id : reached) {
      Place& place = places_[id];
      const BranchNode& node = graph_[id];
      if (node.leaf) continue;
      for (const NodeId child : {node.yes, node.no}) {
        Place& target = places_.at(child);
        place.tree_size += target.tree_size;
        target.needed[entry_from(node, graph_[child])] = true;
      }
    }
    places_.at(root_).needed[kLoad] = true;
  }

  uint32_t push(uint16_t code, uint32_t k, uint32_t jt = 0, uint32_t jf = 0) {
    code_.push_back({code, static_cast<uint8_t>(jt), static_cast<uint8_t>(jf), k});
    return static_cast<uint32_t>(code_.size() - 1);
  }

  // Depth is at most the number of nodes on one path, which is bounded by kMaxInstructions.
  void place(NodeId id) {
    Place& self = places_.at(id);
    if (self.position[kReady] != kNowhere) return;
    const BranchNode& node = graph_[id];
    if (node.leaf) {
      self.position[kReady] = push(kRetK, node.k);
      return;
    }
    // The smaller side follows at once, so that the distance to the other one is short.
    const bool yes_is_near = places_.at(node.yes).tree_size <= places_.at(node.no).tree_size;
    place(yes_is_near ? node.no : node.yes);
    place(yes_is_near ? node.yes : node.no);
    bring_near(node, node.yes);
    bring_near(node, node.no);
    self.position[kReady] = push(opcode(node.branch), node.k, distance(node, node.yes), distance(node, node.no));
    if (node.mask != kAllBits && (self.needed[kLoad] || self.needed[kMask])) {
      self.position[kMask] = push(kAndK, node.mask);
    }
    if (self.needed[kLoad]) self.position[kLoad] = push(kLdAbsW, node.word);
  }

  uint32_t& target(const BranchNode& from, NodeId to) { return places_.at(to).position[entry_from(from, graph_[to])]; }

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
  std::unordered_map<NodeId, Place> places_;
};

}  // namespace

std::vector<Instruction> emit(const BranchGraph& graph, NodeId root) { return Emitter(graph, root).run(); }

size_t emitted_size(const BranchGraph& graph, NodeId root) {
  const size_t size = emit(graph, root).size();
  return size == 0 ? kMaxInstructions + 1 : size;
}

}  // namespace srun::bpf
