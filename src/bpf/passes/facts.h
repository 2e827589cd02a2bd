#pragma once
// What is known about A, X, scratch memory and the words of seccomp_data before each node, from one walk by number.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/passes/flow_graph.h"

namespace srun::bpf {

// A value that can be recognised again. Two unknown values are never known to be equal.
struct KnownValue {
  enum class Kind : uint8_t {
    kUnknown,
    kConstant,  // `number` itself
    kWord,      // seccomp: the word at offset `number`; packet: the load of `size` bytes at `number`, which succeeded
    kNibble,    // the low four bits of the packet byte at `number`
    kHeaderLength,  // four times that, as MSH gives it
    kLength,        // packet length
    kResult,        // whatever node `number` left in A
  };
  Kind kind = Kind::kUnknown;
  uint8_t size = 0;
  uint32_t number = 0;

  static KnownValue constant(uint32_t value) { return {Kind::kConstant, 0, value}; }
  bool is_constant() const { return kind == Kind::kConstant; }
  bool known_equal(const KnownValue& o) const {
    return kind != Kind::kUnknown && kind == o.kind && size == o.size && number == o.number;
  }
  friend bool operator==(const KnownValue&, const KnownValue&) = default;
};

struct ValueRange {
  uint32_t low = 0;
  uint32_t high = 0xffffffff;
  bool contains(uint32_t value) const { return low <= value && value <= high; }
  bool single() const { return low == high; }
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

struct Facts {
  static constexpr uint32_t kWords = sizeof(CallData) / 4;
  KnownValue a = KnownValue::constant(0);  // programs start with A = X = 0
  KnownValue x = KnownValue::constant(0);
  std::array<KnownValue, kScratchWords> scratch{};
  ValueRange a_range{0, 0};
  std::array<ValueRange, kWords> words{};  // seccomp only; what branches on this path have shown
};

// The facts behind a node that is not a branch, given those before it.
void apply(const FlowGraph& graph, uint32_t node, Facts& facts);
// The facts on the edge of a branch that is taken when the comparison is `outcome`.
void assume(const FlowNode& branch, bool outcome, Facts& facts);
// The outcome of a branch if the facts decide it.
std::optional<bool> decided(const FlowNode& branch, const Facts& facts);
// True if the node would change nothing: it loads or stores what is already there. Never true for a node that may end
// the program.
bool changes_nothing(const FlowGraph& graph, const FlowNode& node, const Facts& facts);

// The facts before each node, empty for nodes that cannot be reached. Graphs without lowered nodes only.
std::vector<std::optional<Facts>> find_facts(const FlowGraph& graph);

}  // namespace srun::bpf
