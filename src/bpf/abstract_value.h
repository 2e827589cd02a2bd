#pragma once
// What is known of a 32-bit word without knowing the word: an interval and single bits. Used to find out what a program
// does for all arguments at once. Every operation is sound: the result describes at least all possible outcomes.
#include <cstdint>
#include <optional>

#include "bpf/instruction.h"

namespace srun::bpf {

struct AbstractValue {
  uint32_t min = 0;
  uint32_t max = 0xffffffff;
  uint32_t zeros = 0;  // bits known to be 0
  uint32_t ones = 0;   // bits known to be 1

  static AbstractValue constant(uint32_t value) { return {value, value, ~value, value}; }
  static AbstractValue between(uint32_t min, uint32_t max);

  bool is_constant() const { return min == max; }
  bool may_be(uint32_t value) const {
    return min <= value && value <= max && (value & zeros) == 0 && (~value & ones) == 0;
  }
  friend bool operator==(const AbstractValue&, const AbstractValue&) = default;
};

// Describes what either side describes.
AbstractValue joined(const AbstractValue& a, const AbstractValue& b);
// Result of an ALU instruction on A with operand `b` (X or K). For DIV and MOD an operand 0 ends the program; the
// result is that of the other operands.
AbstractValue alu_result(uint16_t code, const AbstractValue& a, const AbstractValue& b);
// What is known of A after the conditional jump `code` against `b` was taken (`yes`) or not; empty: cannot happen.
std::optional<AbstractValue> after_jump(uint16_t code, const AbstractValue& a, const AbstractValue& b, bool yes);

}  // namespace srun::bpf
