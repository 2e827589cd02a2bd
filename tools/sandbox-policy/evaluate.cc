#include "sandbox-policy/evaluate.h"

#include <algorithm>
#include <cstdio>

namespace srun::tool {
namespace {

std::string number_text(uint64_t value, bpf::CompareWidth width) {
  const bool is_signed = width == bpf::CompareWidth::kS32 || width == bpf::CompareWidth::kS64;
  const bool half = width == bpf::CompareWidth::kU32 || width == bpf::CompareWidth::kS32;
  const int64_t as_signed = half ? static_cast<int32_t>(value) : static_cast<int64_t>(value);
  if (is_signed && as_signed < 0) return std::to_string(as_signed);
  if (value < 4096) return std::to_string(value);
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string test_text(const bpf::ArgTest& test) {
  const std::string arg = "arg" + std::to_string(test.arg);
  std::string values;
  for (const uint64_t value : test.values) values += (values.empty() ? "" : ", ") + number_text(value, test.width);
  const std::string mask = number_text(test.mask, bpf::CompareWidth::kU64);
  switch (test.op) {
    case bpf::CompareOp::kEqual:
      return arg + " == " + values;
    case bpf::CompareOp::kNotEqual:
      return arg + " != " + values;
    case bpf::CompareOp::kLess:
      return arg + " < " + values;
    case bpf::CompareOp::kLessEqual:
      return arg + " <= " + values;
    case bpf::CompareOp::kGreater:
      return arg + " > " + values;
    case bpf::CompareOp::kGreaterEqual:
      return arg + " >= " + values;
    case bpf::CompareOp::kIn:
      return arg + " in " + values;
    case bpf::CompareOp::kNotIn:
      return arg + " not in " + values;
    case bpf::CompareOp::kMasked:
      return "(" + arg + " & " + mask + ") == " + values;
    case bpf::CompareOp::kSubset:
      break;
  }
  return arg + " has no bit outside " + mask;
}

}  // namespace

std::vector<Candidate> candidates(const bpf::Layer& layer, uint32_t audit_arch, uint32_t number,
                                  const KnownArguments& arguments) {
  const auto arch = std::find_if(layer.arches.begin(), layer.arches.end(),
                                 [&](const bpf::ArchRules& rules) { return rules.audit_arch == audit_arch; });
  if (arch == layer.arches.end()) return {{layer.foreign_arch, nullptr}};
  const auto range = std::find_if(arch->ranges.begin(), arch->ranges.end(), [&](const bpf::NumberRange& entry) {
    return entry.first <= number && number <= entry.last;
  });
  if (range == arch->ranges.end()) return {{layer.foreign_arch, nullptr}};  // lowering leaves no gap
  std::vector<Candidate> result;
  for (const bpf::ArgRule& rule : range->decision.rules) {
    bool possible = true;
    bool certain = true;
    for (const bpf::ArgTest& test : rule.all_of) {
      if (!arguments.known[test.arg]) {
        certain = false;
      } else if (!bpf::matches(test, arguments.values)) {
        possible = false;
      }
    }
    if (!possible) continue;
    result.push_back({rule.verdict, &rule});
    if (certain) return result;
  }
  result.push_back({range->decision.otherwise, nullptr});
  return result;
}

std::optional<bpf::VerdictId> certain_verdict(const policy::Enforcement& enforcement, uint32_t audit_arch,
                                              uint32_t number, const KnownArguments& arguments) {
  const auto strength = [&](bpf::VerdictId id) { return enforcement.returns[id].copy_return; };
  // The later layer wins a tie, so a candidate needs to be strictly weaker than what stands after it.
  std::optional<bpf::VerdictId> standing;
  std::vector<std::vector<Candidate>> open;
  std::vector<size_t> open_at;
  size_t standing_at = 0;
  for (size_t i = 0; i < enforcement.rules.size(); ++i) {
    std::vector<Candidate> possible = candidates(enforcement.rules[i], audit_arch, number, arguments);
    const bool one = std::all_of(possible.begin(), possible.end(),
                                 [&](const Candidate& entry) { return entry.verdict == possible.front().verdict; });
    if (!one) {
      open.push_back(std::move(possible));
      open_at.push_back(i);
    } else if (!standing || !bpf::stricter(strength(*standing), strength(possible.front().verdict))) {
      standing = possible.front().verdict;
      standing_at = i;
    }
  }
  for (size_t i = 0; i < open.size(); ++i) {
    for (const Candidate& entry : open[i]) {
      if (!standing) return std::nullopt;
      const bool weaker = bpf::stricter(strength(*standing), strength(entry.verdict));
      const bool tie = !weaker && !bpf::stricter(strength(entry.verdict), strength(*standing));
      if (!weaker && !(tie && open_at[i] < standing_at)) return std::nullopt;
    }
  }
  return standing;
}

std::string conditions_text(const std::vector<bpf::ArgTest>& tests) {
  std::string text;
  for (const bpf::ArgTest& test : tests) text += (text.empty() ? "" : " and ") + test_text(test);
  return text.empty() ? "always" : text;
}

}  // namespace srun::tool
