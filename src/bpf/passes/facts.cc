#include "bpf/passes/facts.h"

#include <algorithm>

#include "bpf/packet.h"

namespace srun::bpf {
namespace {

using Kind = KnownValue::Kind;

// A as a constant where branches have narrowed it to one value.
KnownValue a_value(const Facts& facts) {
  return facts.a_range.single() ? KnownValue::constant(facts.a_range.low) : facts.a;
}

// What an instruction that only sets one register puts there; unknown for everything else.
KnownValue loaded_value(const FlowGraph& graph, const FlowNode& node, const Facts& facts) {
  switch (node.code) {
    case kLdImm:
    case kLdxImm:
      return KnownValue::constant(node.k);
    case kLdMem:
    case kLdxMem:
      return facts.scratch[node.k];
    case kTax:
      return a_value(facts);
    case kTxa:
      return facts.x;
    case kLdLen:
    case kLdxLen:
      return {Kind::kLength, 0, 0};
    case kLdxMsh:
      return {Kind::kHeaderLength, 0, node.k};
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
      if (graph.flavour == Flavour::kPacket) {
        // Ancillary words may change between two loads (the random one does); negative offsets are rare.
        if (node.k >= 0x80000000) return {};
        return {Kind::kWord, static_cast<uint8_t>(load_bytes(node.code)), node.k};
      }
      return {Kind::kWord, 4, node.k};
    default:
      return {};
  }
}

std::optional<uint32_t> folded(const FlowNode& node, const Facts& facts) {
  const bool by_x = (node.code & 0x08) != 0 && node.code != kNeg;
  if (!facts.a_range.single() || (by_x && !facts.x.is_constant())) return std::nullopt;
  const uint32_t a = facts.a_range.low;
  const uint32_t b = by_x ? facts.x.number : node.k;
  switch (node.code & 0xf7) {
    case kAddK:
      return a + b;
    case kSubK:
      return a - b;
    case kMulK:
      return a * b;
    case kOrK:
      return a | b;
    case kAndK:
      return a & b;
    case kXorK:
      return a ^ b;
    case kLshK:
      return a << (b & 31);
    case kRshK:
      return a >> (b & 31);
    case kNeg:
      return 0u - a;
    // Division by X = 0 ends the program, so it is not a value.
    case kDivK:
      return b == 0 ? std::nullopt : std::optional<uint32_t>(a / b);
    case kModK:
      return b == 0 ? std::nullopt : std::optional<uint32_t>(a % b);
    default:
      return std::nullopt;
  }
}

bool is_alu(uint16_t code) { return (code & 7) == 4; }

ValueRange range_after_alu(const FlowNode& node, ValueRange before) {
  switch (node.code) {
    case kAndK:
      return {0, std::min(node.k, before.high)};
    case kRshK:
      return {before.low >> node.k, before.high >> node.k};
    case kDivK:
      return {before.low / node.k, before.high / node.k};
    case kModK:
      return {0, node.k - 1};
    default:
      return {};
  }
}

// A & 0, A * 0: constant whatever A holds.
std::optional<uint32_t> constant_by_operand(const FlowNode& node) {
  if ((node.code == kAndK || node.code == kMulK) && node.k == 0) return 0;
  if (node.code == kOrK && node.k == 0xffffffff) return 0xffffffff;
  if (node.code == kModK && node.k == 1) return 0;
  return std::nullopt;
}

// `(byte & 15) << 2`, what MSH gives, in two steps.
std::optional<KnownValue> part_of_header_length(const FlowGraph& graph, const FlowNode& node, const KnownValue& a) {
  const bool byte_of_packet = graph.flavour == Flavour::kPacket && a.kind == Kind::kWord && a.size == 1;
  if (node.code == kAndK && node.k == 15 && byte_of_packet) return KnownValue{Kind::kNibble, 0, a.number};
  if (node.code == kLshK && node.k == 2 && a.kind == Kind::kNibble) return KnownValue{Kind::kHeaderLength, 0, a.number};
  return std::nullopt;
}

ValueRange range_of(const FlowGraph& graph, const KnownValue& value, const Facts& facts) {
  if (value.is_constant()) return {value.number, value.number};
  if (value.kind == Kind::kNibble) return {0, 15};
  if (value.kind == Kind::kHeaderLength) return {0, 60};
  if (value.kind != Kind::kWord) return {};
  if (graph.flavour == Flavour::kSeccomp) return facts.words[value.number / 4];
  return {0, value.size == 4 ? 0xffffffff : (1u << (8 * value.size)) - 1};
}

void set_a(const FlowGraph& graph, KnownValue value, Facts& facts) {
  facts.a = value;
  facts.a_range = range_of(graph, value, facts);
}

bool a_holds(const FlowGraph& graph, const KnownValue& value, const Facts& facts) {
  if (value.known_equal(facts.a)) return true;
  return facts.a_range.single() && range_of(graph, value, facts) == facts.a_range;
}

std::optional<bool> compare(uint16_t code, ValueRange a, ValueRange b) {
  switch (code & 0xf7) {
    case kJeqK:
      if (a.high < b.low || b.high < a.low) return false;
      if (a.single() && b.single()) return true;
      return std::nullopt;
    case kJgtK:
      if (a.low > b.high) return true;
      if (a.high <= b.low) return false;
      return std::nullopt;
    case kJgeK:
      if (a.low >= b.high) return true;
      if (a.high < b.low) return false;
      return std::nullopt;
    default:
      if (a.single() && b.single()) return (a.low & b.low) != 0;
      if (b.single() && b.low == 0) return false;
      return std::nullopt;
  }
}

void merge(KnownValue& into, const KnownValue& from) {
  if (!(into == from)) into = {};
}

void merge(ValueRange& into, const ValueRange& from) {
  into = {std::min(into.low, from.low), std::max(into.high, from.high)};
}

void merge(std::optional<Facts>& into, const Facts& from) {
  if (!into) {
    into = from;
    return;
  }
  merge(into->a, from.a);
  merge(into->x, from.x);
  merge(into->a_range, from.a_range);
  for (size_t i = 0; i < kScratchWords; ++i) merge(into->scratch[i], from.scratch[i]);
  for (size_t i = 0; i < Facts::kWords; ++i) merge(into->words[i], from.words[i]);
}

}  // namespace

void apply(const FlowGraph& graph, uint32_t index, Facts& facts) {
  const FlowNode& node = graph.nodes[index];
  switch (node.code) {
    case kLdImm:
    case kLdMem:
    case kTxa:
    case kLdLen:
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
    case kLdIndW:
    case kLdIndH:
    case kLdIndB: {
      const KnownValue value = loaded_value(graph, node, facts);
      set_a(graph, value.kind == Kind::kUnknown ? KnownValue{Kind::kResult, 0, index} : value, facts);
      return;
    }
    case kLdxImm:
    case kLdxMem:
    case kTax:
    case kLdxLen:
    case kLdxMsh:
      facts.x = loaded_value(graph, node, facts);
      return;
    case kSt:
      facts.scratch[node.k] = a_value(facts);
      return;
    case kStx:
      facts.scratch[node.k] = facts.x;
      return;
    default:
      break;
  }
  if (!is_alu(node.code)) return;
  std::optional<uint32_t> constant = constant_by_operand(node);
  if (!constant) constant = folded(node, facts);
  if (constant) {
    set_a(graph, KnownValue::constant(*constant), facts);
  } else if (const std::optional<KnownValue> part = part_of_header_length(graph, node, facts.a)) {
    set_a(graph, *part, facts);
  } else {
    facts.a_range = range_after_alu(node, facts.a_range);
    facts.a = {Kind::kResult, 0, index};
  }
}

void assume(const FlowNode& branch, bool outcome, Facts& facts) {
  ValueRange range = facts.a_range;
  switch (branch.code) {
    case kJeqK:
      if (outcome) {
        range = {branch.k, branch.k};
      } else if (!range.single()) {
        if (range.low == branch.k) ++range.low;
        if (range.high == branch.k) --range.high;
      }
      break;
    case kJgtK:
      if (outcome && branch.k != 0xffffffff) range.low = std::max(range.low, branch.k + 1);
      if (!outcome) range.high = std::min(range.high, branch.k);
      break;
    case kJgeK:
      if (outcome) range.low = std::max(range.low, branch.k);
      if (!outcome && branch.k != 0) range.high = std::min(range.high, branch.k - 1);
      break;
    default:
      return;
  }
  // An edge that cannot be taken would give an empty range; what is known there does not matter.
  if (range.low > range.high) return;
  facts.a_range = range;
  // For packets this notes something that nobody reads.
  if (facts.a.kind == Kind::kWord && facts.a.size == 4 && facts.a.number < sizeof(CallData)) {
    facts.words[facts.a.number / 4] = range;
  }
}

std::optional<bool> decided(const FlowNode& branch, const Facts& facts) {
  if (!is_conditional_jump(branch.code)) return std::nullopt;
  const bool by_x = (branch.code & 0x08) != 0;
  if (by_x && facts.a.known_equal(facts.x) && branch.code != kJsetX) return branch.code != kJgtX;
  ValueRange operand{branch.k, branch.k};
  if (by_x) operand = facts.x.is_constant() ? ValueRange{facts.x.number, facts.x.number} : ValueRange{};
  return compare(branch.code, facts.a_range, operand);
}

bool changes_nothing(const FlowGraph& graph, const FlowNode& node, const Facts& facts) {
  switch (node.code) {
    case kLdImm:
    case kLdMem:
    case kTxa:
    case kLdLen:
    case kLdAbsW:
    case kLdAbsH:
    case kLdAbsB:
      return a_holds(graph, loaded_value(graph, node, facts), facts);
    case kLdxImm:
    case kLdxMem:
    case kTax:
    case kLdxLen:
    case kLdxMsh:
      return loaded_value(graph, node, facts).known_equal(facts.x);
    case kSt:
      return a_holds(graph, facts.scratch[node.k], facts);
    case kStx:
      return facts.x.known_equal(facts.scratch[node.k]);
    case kAddK:
    case kSubK:
    case kOrK:
    case kXorK:
    case kLshK:
    case kRshK:
      return node.k == 0;
    case kMulK:
    case kDivK:
      return node.k == 1;
    case kAndK:
      return node.k == 0xffffffff;
    default:
      return false;
  }
}

std::vector<std::optional<Facts>> find_facts(const FlowGraph& graph) {
  std::vector<std::optional<Facts>> before(graph.nodes.size());
  before[graph.entry] = Facts{};
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!before[i]) continue;
    const FlowNode& node = graph.nodes[i];
    if (is_branch(node.code)) {
      const std::optional<bool> outcome = decided(node, *before[i]);
      for (const bool side : {true, false}) {
        if (outcome && *outcome != side) continue;
        Facts on_edge = *before[i];
        assume(node, side, on_edge);
        merge(before[side ? node.next : node.other], on_edge);
      }
    } else if (node.next != kNoNode) {
      Facts behind = *before[i];
      apply(graph, i, behind);
      merge(before[node.next], behind);
    }
  }
  return before;
}

}  // namespace srun::bpf
