#include "bpf/arg_variable.h"

#include <algorithm>
#include <bit>

namespace srun::bpf {
namespace {

// Sorts and joins what overlaps or touches.
IntervalSet united(IntervalSet pieces) {
  std::sort(pieces.begin(), pieces.end());
  IntervalSet result;
  for (const Interval& piece : pieces) {
    if (!result.empty() && (result.back().last == ~uint64_t{0} || piece.first <= result.back().last + 1)) {
      result.back().last = std::max(result.back().last, piece.last);
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

// An interval of the signed order, given in values with the sign bit flipped, as a set of the unsigned order.
IntervalSet unflipped(const Interval& ordered, uint64_t sign_bit) {
  IntervalSet pieces;
  if (ordered.first < sign_bit) {  // negative values
    pieces.push_back({ordered.first ^ sign_bit, std::min(ordered.last, sign_bit - 1) ^ sign_bit});
  }
  if (ordered.last >= sign_bit) {
    pieces.push_back({std::max(ordered.first, sign_bit) ^ sign_bit, ordered.last ^ sign_bit});
  }
  return united(std::move(pieces));
}

IntervalSet ordered_set(CompareOp op, uint64_t value, uint64_t maximum, uint64_t sign_bit) {
  const uint64_t pivot = value ^ sign_bit;
  Interval ordered{0, maximum};
  switch (op) {
    case CompareOp::kLess:
      if (pivot == 0) return {};
      ordered.last = pivot - 1;
      break;
    case CompareOp::kLessEqual:
      ordered.last = pivot;
      break;
    case CompareOp::kGreater:
      if (pivot == maximum) return {};
      ordered.first = pivot + 1;
      break;
    default:
      ordered.first = pivot;
      break;  // kGreaterEqual
  }
  return sign_bit != 0 ? unflipped(ordered, sign_bit) : IntervalSet{ordered};
}

VariableTest masked_test(uint8_t arg, uint64_t mask, uint64_t value, uint64_t significant) {
  if ((value & ~mask) != 0) return {{arg, significant}, {}};
  if (mask == 0) return {{arg, significant}, {{0, significant}}};
  // A mask that keeps the upper bits selects one interval of the plain value: "subset of 0xfff" is "at most 0xfff".
  const uint64_t ignored = significant & ~mask;
  if ((ignored & (ignored + 1)) == 0) return {{arg, significant}, {{value, value | ignored}}};
  // Of a single bit only "zero" and "not zero" exist; one spelling lets JSET serve both.
  if (std::has_single_bit(mask) && value != 0) return {{arg, mask}, {{1, mask}}};
  return {{arg, mask}, {{value, value}}};
}

}  // namespace

IntervalSet complement(const IntervalSet& set, uint64_t maximum) {
  IntervalSet result;
  uint64_t next = 0;
  for (const Interval& interval : set) {
    if (interval.first > next) result.push_back({next, interval.first - 1});
    if (interval.last >= maximum) return result;
    next = interval.last + 1;
  }
  result.push_back({next, maximum});
  return result;
}

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  for (auto left = a.begin(), right = b.begin(); left != a.end() && right != b.end();) {
    const Interval both{std::max(left->first, right->first), std::min(left->last, right->last)};
    if (both.first <= both.last) result.push_back(both);
    if (left->last < right->last) {
      ++left;
    } else {
      ++right;
    }
  }
  return result;
}

bool contains(const IntervalSet& set, uint64_t value) {
  const auto after = std::upper_bound(
      set.begin(), set.end(), value, [](uint64_t number, const Interval& interval) { return number < interval.first; });
  return after != set.begin() && value <= std::prev(after)->last;
}

VariableTest normalise(const ArgTest& test) {
  const bool wide = test.width == CompareWidth::kU64 || test.width == CompareWidth::kS64;
  const bool is_signed = test.width == CompareWidth::kS32 || test.width == CompareWidth::kS64;
  const uint64_t significant = wide ? ~uint64_t{0} : uint64_t{0xffffffff};
  const uint64_t sign_bit = !is_signed ? 0 : wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
  const Variable plain{test.arg, significant};

  IntervalSet listed;
  for (const uint64_t value : test.values) listed.push_back({value & significant, value & significant});
  listed = united(std::move(listed));
  switch (test.op) {
    case CompareOp::kIn:
      return {plain, std::move(listed)};
    case CompareOp::kNotIn:
      return {plain, complement(listed, significant)};
    case CompareOp::kSubset:
      return masked_test(test.arg, ~test.mask & significant, 0, significant);
    default:
      break;
  }
  if (listed.empty()) return {plain, {}};
  const uint64_t value = test.values.front() & significant;
  switch (test.op) {
    case CompareOp::kEqual:
      return {plain, {{value, value}}};
    case CompareOp::kNotEqual:
      return {plain, complement({{value, value}}, significant)};
    case CompareOp::kMasked:
      return masked_test(test.arg, test.mask & significant, value, significant);
    default:
      return {plain, ordered_set(test.op, value, significant, sign_bit)};
  }
}

}  // namespace srun::bpf
