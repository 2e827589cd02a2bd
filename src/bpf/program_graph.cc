#include "bpf/program_graph.h"

#include <algorithm>
#include <map>

#include "bpf/abstract_value.h"
#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kAllBits = 0xffffffff;

// A while specialising: a constant, or a word of seccomp_data with a mask.
struct Accumulator {
  bool is_word = false;
  uint32_t number = 0;  // the constant; the word's offset
  uint32_t mask = 0;    // of a word
  friend auto operator<=>(const Accumulator&, const Accumulator&) = default;
};

using Point = std::pair<size_t, Accumulator>;  // about to execute an instruction

// What happens at a point: it returns, goes on to `yes`, or compares and goes on to `yes` or `no`.
struct Step {
  enum class Kind : uint8_t { kUnknown, kReturn, kGo, kCompare } kind = Kind::kUnknown;
  uint32_t value = 0;  // of a return; k of a comparison
  Branch branch = Branch::kEqual;
  Point yes;
  Point no;
};

class Specialiser {
 public:
  Specialiser(BranchGraph& graph, const Program& program, uint32_t audit_arch, uint32_t nr)
      : graph_(graph), code_(program.code()), audit_arch_(audit_arch), nr_(nr) {}

  std::optional<NodeId> run(size_t node_limit) {
    // Forward: which points are reached? All jumps go forward, so the smallest is always complete.
    const Point start{0, Accumulator{}};
    std::map<Point, Step> steps;
    std::map<Point, bool> pending{{start, true}};
    while (!pending.empty()) {
      const Point point = pending.begin()->first;
      pending.erase(pending.begin());
      const Step step = step_at(point);
      if (step.kind == Step::Kind::kUnknown || steps.size() > node_limit) return std::nullopt;
      if (step.kind != Step::Kind::kReturn) pending.emplace(step.yes, true);
      if (step.kind == Step::Kind::kCompare) pending.emplace(step.no, true);
      steps.emplace(point, step);
    }
    // Backward: a node for each.
    std::map<Point, NodeId> nodes;
    for (auto entry = steps.rbegin(); entry != steps.rend(); ++entry) {
      const auto& [point, step] = *entry;
      switch (step.kind) {
        case Step::Kind::kReturn:
          nodes[point] = graph_.leaf(step.value);
          break;
        case Step::Kind::kGo:
          nodes[point] = nodes.at(step.yes);
          break;
        default: {
          const Accumulator& a = point.second;
          const uint32_t mask = step.branch == Branch::kAnyBit ? kAllBits : a.mask;
          nodes[point] = graph_.compare(step.branch, a.number, mask, step.value, nodes.at(step.yes), nodes.at(step.no));
        }
      }
    }
    return nodes.at(start);
  }

 private:
  static Step go(size_t pc, const Accumulator& a) { return {Step::Kind::kGo, 0, Branch::kEqual, {pc, a}, {}}; }

  Step step_at(const Point& point) const {
    const auto& [pc, a] = point;
    const Instruction& insn = code_[pc];
    const Accumulator constant{false, insn.k, 0};
    switch (insn.code) {
      case kLdAbsW:
        if (insn.k == 0) return go(pc + 1, {false, nr_, 0});
        if (insn.k == 4) return go(pc + 1, {false, audit_arch_, 0});
        return go(pc + 1, {true, insn.k, kAllBits});
      case kLdImm:
        return go(pc + 1, constant);
      case kLdLen:
        return go(pc + 1, {false, sizeof(CallData), 0});
      case kJa:
        return go(pc + 1 + insn.k, a);
      case kRetK:
        return {Step::Kind::kReturn, insn.k, Branch::kEqual, {}, {}};
      case kRetA:
        if (a.is_word) return {};
        return {Step::Kind::kReturn, a.number, Branch::kEqual, {}, {}};
      case kJeqK:
      case kJgtK:
      case kJgeK:
      case kJsetK:
        return jump(pc, insn, a);
      case kAndK:
        if (a.is_word) return go(pc + 1, {true, a.number, a.mask & insn.k});
        return arithmetic(pc, insn, a);
      case kAddK:
      case kSubK:
      case kMulK:
      case kDivK:
      case kOrK:
      case kXorK:
      case kLshK:
      case kRshK:
      case kNeg:
        if (a.is_word) return {};
        return arithmetic(pc, insn, a);
      default:
        return {};
    }
  }

  static Step arithmetic(size_t pc, const Instruction& insn, const Accumulator& a) {
    const AbstractValue result =
        alu_result(insn.code, AbstractValue::constant(a.number), AbstractValue::constant(insn.k));
    return go(pc + 1, {false, result.min, 0});
  }

  static Step jump(size_t pc, const Instruction& insn, const Accumulator& a) {
    const Point yes{pc + 1 + insn.jt, a};
    const Point no{pc + 1 + insn.jf, a};
    const auto only = [](const Point& point) { return go(point.first, point.second); };
    // What is known of A may decide at once: of a constant, but also of a masked word.
    const AbstractValue known = a.is_word ? alu_result(kAndK, AbstractValue{}, AbstractValue::constant(a.mask))
                                          : AbstractValue::constant(a.number);
    const AbstractValue k = AbstractValue::constant(insn.k);
    if (!after_jump(insn.code, known, k, true)) return only(no);
    if (!after_jump(insn.code, known, k, false)) return only(yes);
    switch (insn.code) {
      case kJeqK:
        return {Step::Kind::kCompare, insn.k, Branch::kEqual, yes, no};
      case kJgeK:
        return {Step::Kind::kCompare, insn.k, Branch::kGreaterEqual, yes, no};
      // k is below A's maximum here, else the jump would have been decided.
      case kJgtK:
        return {Step::Kind::kCompare, insn.k + 1, Branch::kGreaterEqual, yes, no};
      default:
        return {Step::Kind::kCompare, insn.k & a.mask, Branch::kAnyBit, yes, no};
    }
  }

  BranchGraph& graph_;
  std::span<const Instruction> code_;
  uint32_t audit_arch_;
  uint32_t nr_;
};

class Merger {
 public:
  Merger(BranchGraph& graph, std::span<const GraphLayer> layers, std::vector<StackVerdict>& outcomes, size_t node_limit)
      : graph_(graph), layers_(layers), outcomes_(outcomes), largest_graph_(graph.size() + node_limit) {}

  // The rest of the stack from layer `next` on, when `running` has won so far (-1: nobody yet).
  std::optional<NodeId> rest(size_t next, int32_t running) {
    const bool unbeatable = running >= 0 && strictest(outcomes_[static_cast<size_t>(running)].value);
    if (next == layers_.size() || unbeatable) return graph_.leaf(static_cast<uint32_t>(running));
    const auto known = memo_.find({next, running});
    if (known != memo_.end()) return known->second;
    const std::vector<NodeId> reached = graph_.reachable(layers_[next].root);
    std::map<NodeId, NodeId> merged;
    for (const NodeId id : reached) {  // children first
      if (graph_.size() > largest_graph_) return std::nullopt;
      const BranchNode node = graph_[id];
      if (!node.leaf) {
        merged[id] = graph_.compare(node.branch, node.word, node.mask, node.k, merged.at(node.yes), merged.at(node.no));
        continue;
      }
      const std::optional<NodeId> after = rest(next + 1, winner(running, {node.k, layers_[next].layer}));
      if (!after) return std::nullopt;
      merged[id] = *after;
    }
    return memo_[{next, running}] = merged.at(layers_[next].root);
  }

 private:
  static bool strictest(uint32_t value) { return (value & kRetActionMask) == kRetKillProcess; }

  int32_t winner(int32_t running, const StackVerdict& candidate) {
    if (running >= 0 && !stricter(candidate.value, outcomes_[static_cast<size_t>(running)].value)) return running;
    const auto known = std::find(outcomes_.begin(), outcomes_.end(), candidate);
    const auto index = static_cast<int32_t>(known - outcomes_.begin());
    if (known == outcomes_.end()) outcomes_.push_back(candidate);
    return index;
  }

  BranchGraph& graph_;
  std::span<const GraphLayer> layers_;
  std::vector<StackVerdict>& outcomes_;
  size_t largest_graph_;
  std::map<std::pair<size_t, int32_t>, NodeId> memo_;
};

}  // namespace

std::optional<NodeId> specialised_graph(BranchGraph& graph, const Program& program, uint32_t audit_arch, uint32_t nr,
                                        size_t node_limit) {
  return Specialiser(graph, program, audit_arch, nr).run(node_limit);
}

std::optional<NodeId> merge_layers(BranchGraph& graph, std::span<const GraphLayer> newest_first,
                                   std::vector<StackVerdict>& outcomes, size_t node_limit) {
  return Merger(graph, newest_first, outcomes, node_limit).rest(0, -1);
}

}  // namespace srun::bpf
