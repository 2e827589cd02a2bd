#include "bpf/rules.h"

#include <algorithm>
#include <cstdlib>

namespace srun::bpf {
namespace {

bool wide(CompareWidth width) { return width == CompareWidth::kU64 || width == CompareWidth::kS64; }

// The value at the width of the comparison, sign-extended for the signed forms.
int64_t as_signed(uint64_t value, bool is_wide) {
  return is_wide ? static_cast<int64_t>(value) : static_cast<int64_t>(static_cast<int32_t>(value & 0xffffffff));
}

bool less(uint64_t a, uint64_t b, CompareWidth width) {
  if (width == CompareWidth::kS32 || width == CompareWidth::kS64) {
    return as_signed(a, wide(width)) < as_signed(b, wide(width));
  }
  return a < b;
}

VerdictId decide_layer(const Layer& layer, const CallData& call) {
  const auto arch = std::find_if(layer.arches.begin(), layer.arches.end(),
                                 [&](const ArchRules& rules) { return rules.audit_arch == call.arch; });
  if (arch == layer.arches.end()) return layer.foreign_arch;
  const auto nr = static_cast<uint32_t>(call.nr);
  const auto range =
      std::lower_bound(arch->ranges.begin(), arch->ranges.end(), nr,
                       [](const NumberRange& candidate, uint32_t number) { return candidate.last < number; });
  // compile() refuses a layer whose ranges leave a gap; here the gap counts as a foreign call, the stricter reading.
  if (range == arch->ranges.end() || nr < range->first) return layer.foreign_arch;
  for (const ArgRule& rule : range->decision.rules) {
    if (std::all_of(rule.all_of.begin(), rule.all_of.end(),
                    [&](const ArgTest& test) { return matches(test, call.args); })) {
      return rule.verdict;
    }
  }
  return range->decision.otherwise;
}

}  // namespace

bool matches(const ArgTest& test, const uint64_t (&args)[6]) {
  if (test.arg >= 6) return false;
  const uint64_t significant = wide(test.width) ? ~uint64_t{0} : uint64_t{0xffffffff};
  const uint64_t argument = args[test.arg] & significant;
  const auto contains = [&] {
    return std::any_of(test.values.begin(), test.values.end(),
                       [&](uint64_t value) { return (value & significant) == argument; });
  };
  switch (test.op) {
    case CompareOp::kIn:
      return contains();
    case CompareOp::kNotIn:
      return !contains();
    case CompareOp::kSubset:
      return (argument & ~test.mask & significant) == 0;
    default:
      break;
  }
  if (test.values.empty()) return false;
  const uint64_t value = test.values.front() & significant;
  switch (test.op) {
    case CompareOp::kEqual:
      return argument == value;
    case CompareOp::kNotEqual:
      return argument != value;
    case CompareOp::kLess:
      return less(argument, value, test.width);
    case CompareOp::kLessEqual:
      return !less(value, argument, test.width);
    case CompareOp::kGreater:
      return less(value, argument, test.width);
    case CompareOp::kGreaterEqual:
      return !less(argument, value, test.width);
    case CompareOp::kMasked:
      return (argument & test.mask) == value;
    default:
      return false;
  }
}

VerdictId decide(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts, const CallData& call) {
  // Without a layer there is no verdict, and none may be made up.
  if (layers.empty()) std::abort();
  VerdictId winner = decide_layer(layers.front(), call);
  for (const Layer& layer : layers.subspan(1)) {
    const VerdictId candidate = decide_layer(layer, call);
    if (!stricter(verdicts[winner].copy_return, verdicts[candidate].copy_return)) winner = candidate;
  }
  return winner;
}

}  // namespace srun::bpf
