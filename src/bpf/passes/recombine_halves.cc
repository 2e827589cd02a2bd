#include <optional>

#include "bpf/passes/facts.h"
#include "bpf/passes/liveness.h"
#include "bpf/passes/lowering.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kFirstArgument = 16;  // offsetof(struct seccomp_data, args)

class Recombiner {
 public:
  explicit Recombiner(FlowGraph& graph) : graph_(graph), facts_(find_facts(graph)), live_(find_liveness(graph)) {}

  bool run() {
    bool changed = false;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::optional<Match> match = match_at(i);
      // Behind the pair A holds one half or the other, depending on the path: nobody may read it.
      if (!match || ((live_[match->yes] | live_[match->no]) & kLiveA) != 0) continue;
      const uint32_t extra = static_cast<uint32_t>(graph_.wides.size());
      graph_.wides.push_back(match->compare);
      graph_.nodes[i] = {kFlowWide, 0, match->yes, match->no, 0, extra};
      changed = true;
    }
    return changed;
  }

 private:
  struct Match {
    WideCompare compare;
    uint32_t yes;
    uint32_t no;
  };

  // If A holds the high half of an argument before node i: the offset of the low half.
  std::optional<uint32_t> low_half_of_a(uint32_t i) const {
    if (!facts_[i]) return std::nullopt;
    const KnownValue& a = facts_[i]->a;
    if (a.kind != KnownValue::Kind::kWord || a.number < kFirstArgument || a.number % 8 != 4) return std::nullopt;
    return a.number - 4;
  }

  // `node` loads the low half and the node behind it compares.
  const FlowNode* low_compare(uint32_t node, uint32_t offset) const {
    const FlowNode& load = graph_.nodes[node];
    if (load.code != kLdAbsW || load.k != offset) return nullptr;
    const FlowNode& compare = graph_.nodes[load.next];
    return is_word_compare(compare.code) ? &compare : nullptr;
  }

  std::optional<Match> match_at(uint32_t i) const {
    const FlowNode& first = graph_.nodes[i];
    if (graph_.flavour != Flavour::kSeccomp || !is_word_compare(first.code)) return std::nullopt;
    const std::optional<uint32_t> offset = low_half_of_a(i);
    if (!offset) return std::nullopt;
    if (first.code == kJeqK) {
      if (const FlowNode* low = low_compare(first.next, *offset)) {
        // high == kh ? (low == kl ? yes : no) : no
        if (low->code == kJeqK && low->other == first.other) return wide(*low, *offset, first.k);
        // high == kh ? (low > kl ? yes : no) : (high > kh ? yes : no)
        const FlowNode& second = graph_.nodes[first.other];
        const bool above = (second.code == kJgtK || second.code == kJgeK) && second.k == first.k;
        if (low->code != kJeqK && above && second.next == low->next && second.other == low->other) {
          return wide(*low, *offset, first.k);
        }
      }
    } else if (first.code == kJgtK) {
      // high > kh ? yes : (high == kh ? (low > kl ? yes : no) : no)
      const FlowNode& second = graph_.nodes[first.other];
      const bool equal = (second.code == kJeqK || second.code == kJgeK) && second.k == first.k;
      if (!equal) return std::nullopt;
      const FlowNode* low = low_compare(second.next, *offset);
      if (low != nullptr && low->code != kJeqK && low->next == first.next && low->other == second.other) {
        return wide(*low, *offset, first.k);
      }
    }
    return std::nullopt;
  }

  static Match wide(const FlowNode& low, uint32_t offset, uint32_t high) {
    return {{low.code, offset, uint64_t{high} << 32 | low.k}, low.next, low.other};
  }

  FlowGraph& graph_;
  const std::vector<std::optional<Facts>> facts_;
  const std::vector<LiveSet> live_;
};

}  // namespace

bool recombine_halves(FlowGraph& graph) { return Recombiner(graph).run(); }

}  // namespace srun::bpf
