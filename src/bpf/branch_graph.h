#pragma once
// The compiler's middle form: a graph of two-way comparisons of words of seccomp_data, ending in return values. Equal
// nodes exist once, and a comparison whose two sides are equal does not exist, so equal leaves and sub-trees are
// shared.
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace srun::bpf {

using NodeId = uint32_t;

enum class Branch : uint8_t {
  kEqual,         // (word & mask) == k
  kGreaterEqual,  // (word & mask) >= k, unsigned
  kAnyBit,        // (word & k) != 0; mask is all ones, since JSET does the AND itself
};

struct BranchNode {
  bool leaf = false;
  Branch branch = Branch::kEqual;
  uint32_t word = 0;           // offset in seccomp_data
  uint32_t mask = 0xffffffff;  // applied to the word before the comparison
  uint32_t k = 0;              // the return value of a leaf
  NodeId yes = 0;
  NodeId no = 0;
  friend bool operator==(const BranchNode&, const BranchNode&) = default;
};

// Nodes are never removed; children have smaller ids than their parents.
class BranchGraph {
 public:
  NodeId leaf(uint32_t return_value);
  NodeId compare(Branch branch, uint32_t word, uint32_t mask, uint32_t k, NodeId yes, NodeId no);

  const BranchNode& operator[](NodeId id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  // What can be reached from `root`, itself included, children before parents.
  std::vector<NodeId> reachable(NodeId root) const;

 private:
  struct Hash {
    size_t operator()(const BranchNode& node) const;
  };
  NodeId intern(const BranchNode& node);

  std::vector<BranchNode> nodes_;
  std::unordered_map<BranchNode, NodeId, Hash> ids_;
  // Marks of reachable(), kept so that asking about a small part of a large graph stays cheap. Not thread-safe.
  mutable std::vector<uint32_t> marks_;
  mutable uint32_t last_mark_ = 0;
};

}  // namespace srun::bpf
