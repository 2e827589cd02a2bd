#include "bpf/abstract_value.h"

#include <algorithm>
#include <bit>

#include "bpf/opcodes.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kAll = 0xffffffff;

// Lets interval and bits tell each other what they know. Empty if they contradict each other.
std::optional<AbstractValue> tightened(AbstractValue value) {
  value.min = std::max(value.min, value.ones);
  value.max = std::min(value.max, ~value.zeros);
  if (value.min > value.max) return std::nullopt;
  // Above the first bit in which the ends differ every value between them agrees.
  const uint32_t differing = value.min ^ value.max;
  const uint32_t common = differing == 0 ? kAll : ~(kAll >> std::countl_zero(differing));
  value.ones |= value.min & common;
  value.zeros |= ~value.min & common;
  if ((value.ones & value.zeros) != 0) return std::nullopt;
  if ((value.ones | value.zeros) == kAll) {
    if (value.ones < value.min || value.ones > value.max) return std::nullopt;
    return AbstractValue::constant(value.ones);
  }
  return value;
}

AbstractValue tight_or_any(const AbstractValue& value) { return tightened(value).value_or(AbstractValue{}); }

// The constant result, by the kernel's rules: shift counts from X are masked, from K they are below 32 anyway.
uint32_t alu_constant(uint16_t code, uint32_t a, uint32_t b) {
  switch (code & 0xf0) {
    case kAddK & 0xf0:
      return a + b;
    case kSubK & 0xf0:
      return a - b;
    case kMulK & 0xf0:
      return a * b;
    case kDivK & 0xf0:
      return b == 0 ? 0 : a / b;
    case kModK & 0xf0:
      return b == 0 ? 0 : a % b;
    case kOrK & 0xf0:
      return a | b;
    case kAndK & 0xf0:
      return a & b;
    case kXorK & 0xf0:
      return a ^ b;
    case kLshK & 0xf0:
      return a << (b & 31);
    case kRshK & 0xf0:
      return a >> (b & 31);
    default:
      return 0 - a;  // NEG
  }
}

bool possible_equal(const AbstractValue& a, const AbstractValue& b) {
  return a.min <= b.max && b.min <= a.max && (a.ones & b.zeros) == 0 && (a.zeros & b.ones) == 0;
}

std::optional<AbstractValue> without(AbstractValue a, uint32_t value) {
  if (a.is_constant()) return a.min == value ? std::nullopt : std::optional(a);
  if (a.min == value) ++a.min;
  if (a.max == value) --a.max;
  return tightened(a);
}

std::optional<AbstractValue> with_bits(AbstractValue a, const AbstractValue& mask, bool any) {
  if (any) {
    if ((~a.zeros & ~mask.zeros) == 0) return std::nullopt;
    if (mask.is_constant() && std::has_single_bit(mask.min)) a.ones |= mask.min;
  } else {
    if ((a.ones & mask.ones) != 0) return std::nullopt;
    a.zeros |= mask.ones;
  }
  return tightened(a);
}

}  // namespace

AbstractValue AbstractValue::between(uint32_t min, uint32_t max) { return tight_or_any({min, max, 0, 0}); }

AbstractValue joined(const AbstractValue& a, const AbstractValue& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max), a.zeros & b.zeros, a.ones & b.ones};
}

AbstractValue alu_result(uint16_t code, const AbstractValue& a, const AbstractValue& b) {
  const uint16_t operation = code & 0xf0;
  if (a.is_constant() && (b.is_constant() || code == kNeg)) {
    return AbstractValue::constant(alu_constant(code, a.min, b.min));
  }
  AbstractValue result;
  switch (operation) {
    case kAndK & 0xf0:
      result = {0, std::min(a.max, b.max), a.zeros | b.zeros, a.ones & b.ones};
      break;
    case kOrK & 0xf0:
      result = {std::max(a.min, b.min), kAll, a.zeros & b.zeros, a.ones | b.ones};
      break;
    case kXorK & 0xf0:
      result.zeros = (a.zeros & b.zeros) | (a.ones & b.ones);
      result.ones = (a.zeros & b.ones) | (a.ones & b.zeros);
      break;
    case kAddK & 0xf0:
      if (uint64_t{a.max} + b.max <= kAll) result = {a.min + b.min, a.max + b.max, 0, 0};
      break;
    case kSubK & 0xf0:
      if (a.min >= b.max) result = {a.min - b.max, a.max - b.min, 0, 0};
      break;
    case kDivK & 0xf0:
      if (b.min > 0) result = {a.min / b.max, a.max / b.min, 0, 0};
      break;
    case kModK & 0xf0:
      if (b.max > 0) result = {0, std::min(a.max, b.max - 1), 0, 0};
      break;
    case kLshK & 0xf0:
      if (b.is_constant()) {
        const uint32_t count = b.min & 31;
        result.zeros = (a.zeros << count) | ((uint32_t{1} << count) - 1);
        result.ones = a.ones << count;
      }
      break;
    case kRshK & 0xf0:
      if (b.is_constant()) {
        const uint32_t count = b.min & 31;
        result = {a.min >> count, a.max >> count, (a.zeros >> count) | ~(kAll >> count), a.ones >> count};
      } else {
        result.max = a.max;
      }
      break;
    default:
      break;  // MUL and NEG of something unknown: nothing is known
  }
  return tight_or_any(result);
}

std::optional<AbstractValue> after_jump(uint16_t code, const AbstractValue& a, const AbstractValue& b, bool yes) {
  AbstractValue result = a;
  switch (code & 0xf0) {
    case kJeqK & 0xf0:
      if (!yes) return b.is_constant() ? without(a, b.min) : std::optional(a);
      if (!possible_equal(a, b)) return std::nullopt;
      return tightened({std::max(a.min, b.min), std::min(a.max, b.max), a.zeros | b.zeros, a.ones | b.ones});
    case kJgtK & 0xf0:
      if (yes) {
        if (b.min == kAll) return std::nullopt;
        result.min = std::max(a.min, b.min + 1);
      } else {
        result.max = std::min(a.max, b.max);
      }
      break;
    case kJgeK & 0xf0:
      if (yes) {
        result.min = std::max(a.min, b.min);
      } else {
        if (b.max == 0) return std::nullopt;
        result.max = std::min(a.max, b.max - 1);
      }
      break;
    default:
      return with_bits(a, b, yes);
  }
  if (result.min > result.max) return std::nullopt;
  return tightened(result);
}

}  // namespace srun::bpf
