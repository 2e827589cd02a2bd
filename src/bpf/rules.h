#pragma once
// What the compiler takes: for each architecture a partition of the call numbers into ranges, each with a list of
// argument rules of which the first that matches decides. Verdicts are ids into the caller's table.
#include <cstdint>
#include <span>
#include <vector>

#include "bpf/instruction.h"

namespace srun::bpf {

using VerdictId = uint16_t;

// The width and signedness at which one argument is compared; 32-bit forms look at the low half only.
enum class CompareWidth : uint8_t { kU32, kS32, kU64, kS64 };

enum class CompareOp : uint8_t {
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual,
  kIn, kNotIn,   // any / none of `values`
  kMasked,       // (arg & mask) == value
  kSubset,       // (arg & ~mask) == 0
};

struct ArgTest {
  uint8_t arg = 0;  // 0..5
  CompareWidth width = CompareWidth::kU64;
  CompareOp op = CompareOp::kEqual;
  uint64_t mask = ~uint64_t{0};
  std::vector<uint64_t> values;  // one element except for kIn/kNotIn; none for kSubset
  friend bool operator==(const ArgTest&, const ArgTest&) = default;
};

struct ArgRule {
  std::vector<ArgTest> all_of;  // empty: always matches
  VerdictId verdict = 0;
};

// Decides one call: the first rule whose tests all hold, else `otherwise`.
struct Decision {
  std::vector<ArgRule> rules;
  VerdictId otherwise = 0;
};

struct NumberRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  Decision decision;
};

struct ArchRules {
  uint32_t audit_arch = 0;
  std::vector<NumberRange> ranges;  // sorted, gap-free, covering 0 … 0xffffffff
};

struct Layer {
  std::vector<ArchRules> arches;
  VerdictId foreign_arch = 0;  // any arch that is not listed
};

// One verdict: what the supervisor's copy returns and what the kernel's program returns for it (its projection, H20).
// Which verdict wins across layers is decided by the action in `copy_return` alone; on a tie the later layer wins.
struct VerdictReturn {
  uint32_t copy_return = 0;
  uint32_t kernel_return = 0;
};

bool matches(const ArgTest& test, const uint64_t (&args)[6]);
// Reference meaning of a stack of layers, by walking the rules: what every compiled form must equal.
VerdictId decide(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts, const CallData& call);

}  // namespace srun::bpf
