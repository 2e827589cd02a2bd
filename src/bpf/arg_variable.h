#pragma once
// Argument tests in one normal form: "the argument, masked, lies in this set of unsigned intervals". Signed
// comparisons, sets, prefixes and negations all become interval sets, so the compiler needs one kind of search and no
// arithmetic on the loaded word.
#include <compare>
#include <cstdint>
#include <vector>

#include "bpf/rules.h"

namespace srun::bpf {

struct Interval {
  uint64_t first = 0;
  uint64_t last = 0;  // inclusive
  friend auto operator<=>(const Interval&, const Interval&) = default;
};
using IntervalSet = std::vector<Interval>;  // sorted, disjoint, not adjacent

// What is compared: argument `arg` AND `mask`. A 32-bit test has a mask within 0xffffffff, so that tests of different
// widths that look at the same bits are tests of the same variable.
struct Variable {
  uint8_t arg = 0;
  uint64_t mask = 0;
  friend auto operator<=>(const Variable&, const Variable&) = default;
};

struct VariableTest {
  Variable variable;
  IntervalSet holds;  // within 0 … mask; empty: never true

  bool always() const { return holds.size() == 1 && holds.front() == Interval{0, variable.mask}; }
  bool never() const { return holds.empty(); }
  friend auto operator<=>(const VariableTest&, const VariableTest&) = default;
};

// Same meaning as matches() for every argument value.
VariableTest normalise(const ArgTest& test);

IntervalSet complement(const IntervalSet& set, uint64_t maximum);
IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);
bool contains(const IntervalSet& set, uint64_t value);

}  // namespace srun::bpf
