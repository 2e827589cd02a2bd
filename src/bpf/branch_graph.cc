#include "bpf/branch_graph.h"

#include <algorithm>

namespace srun::bpf {

size_t BranchGraph::Hash::operator()(const BranchNode& node) const {
  uint64_t hash = node.leaf ? 1 : 2 + static_cast<uint64_t>(node.branch);
  for (const uint32_t part : {node.word, node.mask, node.k, node.yes, node.no}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash);
}

NodeId BranchGraph::intern(const BranchNode& node) {
  const auto [position, added] = ids_.try_emplace(node, static_cast<NodeId>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return position->second;
}

NodeId BranchGraph::leaf(uint32_t return_value) {
  BranchNode node;
  node.leaf = true;
  node.k = return_value;
  return intern(node);
}

NodeId BranchGraph::compare(Branch branch, uint32_t word, uint32_t mask, uint32_t k, NodeId yes, NodeId no) {
  if (yes == no) return yes;
  BranchNode node;
  node.branch = branch;
  node.word = word;
  node.mask = mask;
  node.k = k;
  node.yes = yes;
  node.no = no;
  return intern(node);
}

std::vector<NodeId> BranchGraph::reachable(NodeId root) const {
  marks_.resize(nodes_.size());
  ++last_mark_;
  std::vector<NodeId> found;
  const auto visit = [&](NodeId id) {
    if (marks_[id] == last_mark_) return;
    marks_[id] = last_mark_;
    found.push_back(id);
  };
  visit(root);
  for (size_t next = 0; next < found.size(); ++next) {
    const BranchNode node = nodes_[found[next]];
    if (node.leaf) continue;
    visit(node.yes);
    visit(node.no);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace srun::bpf
