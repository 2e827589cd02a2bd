#pragma once
// For which call numbers does a program give the same answer whatever the arguments? Stronger than the kernel's own
// rule (kernel_bitmap.h): follows both sides of a branch on something unknown and understands every instruction.
#include <cstdint>
#include <vector>

#include "bpf/program.h"

namespace srun::bpf {

// A stretch of call numbers about which the same is known.
struct ConstancyRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  bool constant = false;
  bool always_allow = false;  // every possible result has the action ALLOW, with whatever data
  uint32_t value = 0;         // the result if `constant`
  friend bool operator==(const ConstancyRange&, const ConstancyRange&) = default;
};

// What can happen when the program runs from its start.
struct Outcomes {
  bool any = false;
  bool constant = true;  // one value only: `value`
  bool always_allow = true;
  uint32_t value = 0;

  void add(uint32_t result);
  void add_unknown();
};

// Numbers below this are looked at one by one where a stretch of numbers gives no single answer; all assigned numbers
// lie below it. Above it such stretches stay "not constant".
inline constexpr uint32_t kSingleNumbers = 512;

// Seccomp programs only. The ranges cover 0 … 0xffffffff in order; neighbours differ. Most numbers are settled by one
// walk over the program with the number as a set of intervals; only what reads more than number and arch is run per
// number.
std::vector<ConstancyRange> find_constant_calls(const Program& program, uint32_t audit_arch);

// All outcomes of calls of `audit_arch` with a number in first … last and any arguments. Sound: may name more than
// really happen.
Outcomes possible_outcomes(const Program& program, uint32_t audit_arch, uint32_t first, uint32_t last);

}  // namespace srun::bpf
