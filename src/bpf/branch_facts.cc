#include "bpf/branch_facts.h"

#include <array>
#include <optional>
#include <unordered_map>

#include "bpf/abstract_value.h"
#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kAllBits = 0xffffffff;
// Each round can only shrink the graph; more rounds than this were never seen to help.
constexpr int kRounds = 4;

using Words = std::array<AbstractValue, sizeof(CallData) / 4>;

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

// What is known of the words when the comparison came out as `yes`; empty: it cannot.
std::optional<Words> after(const BranchNode& node, const Words& words, bool yes) {
  const AbstractValue& word = words[node.word / 4];
  const AbstractValue mask = AbstractValue::constant(node.mask);
  const AbstractValue asked = node.mask == kAllBits ? word : alu_result(kAndK, word, mask);
  const std::optional<AbstractValue> known =
      after_jump(opcode(node.branch), asked, AbstractValue::constant(node.k), yes);
  if (!known) return std::nullopt;
  Words result = words;
  if (node.mask == kAllBits) {
    result[node.word / 4] = *known;
  } else if (node.branch == Branch::kEqual && yes) {
    // Of the word itself the masked bits are known.
    const AbstractValue bits{0, kAllBits, node.mask & ~node.k, node.mask & node.k};
    const std::optional<AbstractValue> refined = after_jump(kJeqX, word, bits, true);
    if (!refined) return std::nullopt;
    result[node.word / 4] = *refined;
  }
  return result;
}

NodeId one_round(BranchGraph& graph, NodeId root) {
  const std::vector<NodeId> reached = graph.reachable(root);
  std::unordered_map<NodeId, Words> facts{{root, Words{}}};
  struct Answer {
    bool yes = false;
    bool no = false;
  };
  std::unordered_map<NodeId, Answer> answers;
  const auto arrive = [&](NodeId id, const Words& words) {
    const auto [position, added] = facts.try_emplace(id, words);
    if (added) return;
    for (size_t i = 0; i < words.size(); ++i) position->second[i] = joined(position->second[i], words[i]);
  };
  for (auto id = reached.rbegin(); id != reached.rend(); ++id) {  // parents first
    const BranchNode& node = graph[*id];
    const auto known = facts.find(*id);
    if (node.leaf || known == facts.end()) continue;
    const Words words = known->second;
    std::optional<Words> yes = after(node, words, true);
    std::optional<Words> no = after(node, words, false);
    // Neither: no call comes here, which the facts show only now. Then nothing is gained by choosing a side.
    if (!yes && !no) yes = no = words;
    answers[*id] = {yes.has_value(), no.has_value()};
    if (yes) arrive(node.yes, *yes);
    if (no) arrive(node.no, *no);
  }
  std::unordered_map<NodeId, NodeId> rebuilt;
  for (const NodeId id : reached) {  // children first
    const BranchNode node = graph[id];
    if (node.leaf) {
      rebuilt[id] = id;
      continue;
    }
    const auto answer = answers.find(id);
    if (answer == answers.end()) continue;  // not reached any more
    if (answer->second.yes && answer->second.no) {
      rebuilt[id] = graph.compare(node.branch, node.word, node.mask, node.k, rebuilt.at(node.yes), rebuilt.at(node.no));
    } else {
      rebuilt[id] = rebuilt.at(answer->second.yes ? node.yes : node.no);
    }
  }
  return rebuilt.at(root);
}

}  // namespace

NodeId without_known_answers(BranchGraph& graph, NodeId root) {
  for (int round = 0; round < kRounds; ++round) {
    const NodeId next = one_round(graph, root);
    if (next == root) break;
    root = next;
  }
  return root;
}

}  // namespace srun::bpf
