#include "policy/when.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "policy/catalog.h"

namespace srun::policy {

namespace {

using bpf::ArgTest;
using bpf::CompareOp;
using bpf::CompareWidth;

struct OpName {
  std::string_view name;
  CompareOp op;
};
constexpr std::array<OpName, 10> kOps = {{
    {"==", CompareOp::kEqual},
    {"!=", CompareOp::kNotEqual},
    {"<", CompareOp::kLess},
    {"<=", CompareOp::kLessEqual},
    {">", CompareOp::kGreater},
    {">=", CompareOp::kGreaterEqual},
    {"in", CompareOp::kIn},
    {"not-in", CompareOp::kNotIn},
    {"masked", CompareOp::kMasked},
    {"subset", CompareOp::kSubset},
}};

CompareWidth compare_width(kernel::Width width) {
  switch (width) {
    case kernel::Width::kU32:
      return CompareWidth::kU32;
    case kernel::Width::kS32:
      return CompareWidth::kS32;
    case kernel::Width::kU64:
      return CompareWidth::kU64;
    case kernel::Width::kS64:
      break;
  }
  return CompareWidth::kS64;
}

bool wide(CompareWidth width) { return width == CompareWidth::kU64 || width == CompareWidth::kS64; }
bool is_signed(CompareWidth width) { return width == CompareWidth::kS32 || width == CompareWidth::kS64; }
bool ordered(CompareOp op) {
  return op == CompareOp::kLess || op == CompareOp::kLessEqual || op == CompareOp::kGreater ||
         op == CompareOp::kGreaterEqual;
}

// Modes are compared at 16 bits: the kernel cuts umode_t itself, so bits above must neither bypass nor break a rule.
constexpr uint64_t kShortBits = 0xffff;

std::string width_text(CompareWidth width, uint64_t significant, bool with_sign) {
  if (significant == kShortBits) return "16 bits";
  std::string text = wide(width) ? "64 bits" : "32 bits";
  if (with_sign) text += is_signed(width) ? " signed" : " unsigned";
  return text;
}

// The bits to compare with, cut to the width; nullopt: the argument can never have this value. Where only bits count
// (not order), a negative number stands for its two's complement and 0xffffffff for -1.
std::optional<uint64_t> fit(PolicyNumber number, CompareWidth width, uint64_t significant, bool needs_order) {
  if (significant == kShortBits) return number.bits <= kShortBits ? std::optional(number.bits) : std::nullopt;
  const auto as_signed = static_cast<int64_t>(number.bits);
  if (needs_order && number.negative && !is_signed(width)) return std::nullopt;
  if (wide(width)) {
    if (needs_order && is_signed(width) && !number.negative && as_signed < 0) return std::nullopt;
    return number.bits;
  }
  const uint64_t low = number.bits & 0xffffffff;
  const bool sign_extended = as_signed < 0 && as_signed >= std::numeric_limits<int32_t>::min();
  if (number.negative) return sign_extended ? std::optional(low) : std::nullopt;
  if (needs_order) {
    const uint64_t highest = is_signed(width) ? uint64_t{std::numeric_limits<int32_t>::max()} : 0xffffffff;
    return number.bits <= highest ? std::optional(low) : std::nullopt;
  }
  return number.bits <= 0xffffffff || sign_extended ? std::optional(low) : std::nullopt;
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string node_text(const Node& node) {
  if (node.is_string()) return quoted(node.string());
  if (node.integer_negative()) return std::to_string(static_cast<int64_t>(node.integer_bits()));
  return std::to_string(node.integer_bits());
}

class ConditionParser {
 public:
  ConditionParser(const Node& condition, std::span<const RuleCall> calls) : condition_(condition), calls_(calls) {}

  Result<ArgTest, PolicyError> parse() {
    if (!condition_.is_object()) {
      return failure(condition_.error("expected a condition {\"arg\", \"op\", \"value\"}, found " +
                                      std::string(condition_.kind_text())));
    }
    constexpr std::array<std::string_view, 4> kKeys = {"arg", "op", "value", "mask"};
    for (size_t i = 0; i < condition_.size(); ++i) {
      const std::string& key = condition_[i].key();
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        return failure(condition_[i].error("unknown key " + quoted(key), std::string(nearest_name(key, kKeys))));
      }
    }
    if (auto done = parse_op(); !done) return failure(std::move(done.error()));
    if (auto done = parse_arg(); !done) return failure(std::move(done.error()));
    if (auto done = parse_values(); !done) return failure(std::move(done.error()));
    return std::move(test_);
  }

 private:
  Result<void, PolicyError> parse_op() {
    const Node* op = condition_.find("op");
    if (op == nullptr) return failure(condition_.error("\"op\" is missing"));
    if (!op->is_string()) return failure(op->error("expected an operator, found " + std::string(op->kind_text())));
    std::array<std::string_view, kOps.size()> names;
    std::transform(kOps.begin(), kOps.end(), names.begin(), [](const OpName& row) { return row.name; });
    const auto row = std::find(names.begin(), names.end(), op->string());
    if (row == names.end()) {
      return failure(
          op->error("unknown operator " + quoted(op->string()) + "; known: == != < <= > >= in not-in masked subset",
                    std::string(nearest_name(op->string(), names))));
    }
    test_.op = kOps[static_cast<size_t>(row - names.begin())].op;
    const Node* mask = condition_.find("mask");
    if ((mask != nullptr) != (test_.op == CompareOp::kMasked)) {
      return failure((mask != nullptr ? *mask : condition_)
                         .error(mask != nullptr ? "\"mask\" belongs to the operator \"masked\" only"
                                                : "\"masked\" needs a \"mask\""));
    }
    return {};
  }

  Result<void, PolicyError> parse_arg() {
    const Node* arg = condition_.find("arg");
    if (arg == nullptr) return failure(condition_.error("\"arg\" is missing"));
    const std::optional<uint64_t> index = arg->as_uint64();
    if (!index || *index > 5) return failure(arg->error("expected the number of an argument, 0 to 5"));
    test_.arg = static_cast<uint8_t>(*index);
    const RuleCall* first = nullptr;
    for (const RuleCall& entry : calls_) {
      const kernel::Syscall& call = *entry.call;
      if (!call.number(kernel::kNativeArch)) continue;  // decides nothing here
      const kernel::ArgList list = kernel::arguments(call, kernel::kNativeArch);
      if (*index >= list.count) {
        return failure(arg->error(std::string(call.name) + " has " +
                                  (list.count == 0 ? "no arguments" : count_of(list.count, "argument")) +
                                  ", so no argument " + std::to_string(*index)));
      }
      const CompareWidth width = compare_width(list.args[*index].width);
      const uint64_t significant = kernel::significant_bits(list.args[*index]);
      if (first == nullptr) {
        first = &entry;
        test_.width = width;
        significant_ = significant;
      } else if (significant != significant_ || (ordered(test_.op) && width != test_.width)) {
        const bool sign_matters = ordered(test_.op);
        return failure(arg->error(
            "argument " + std::to_string(*index) + " is " + width_text(test_.width, significant_, sign_matters) +
            " in " + std::string(first->call->name) + " but " + width_text(width, significant, sign_matters) + " in " +
            std::string(call.name) + ": give the calls rules of their own"));
      } else if (width != test_.width) {
        // Only bits are compared, so the sign makes no difference; one form keeps equal rules equal.
        test_.width = wide(width) ? CompareWidth::kU64 : CompareWidth::kU32;
      }
    }
    if (significant_ == kShortBits && test_.op != CompareOp::kEqual && test_.op != CompareOp::kMasked &&
        test_.op != CompareOp::kSubset) {
      return failure(condition_.find("op")->error(
          "argument " + std::to_string(*index) + " is 16 bits; such a one can be compared with ==, masked and subset"));
    }
    return {};
  }

  Result<uint64_t, PolicyError> parse_fitting(const Node& node) const {
    auto number = parse_number(node);
    if (!number) return failure(std::move(number.error()));
    const std::optional<uint64_t> bits = fit(*number, test_.width, significant_, ordered(test_.op));
    if (!bits) {
      return failure(node.error(node_text(node) + " is no value of argument " + std::to_string(test_.arg) +
                                ", which is " + width_text(test_.width, significant_, ordered(test_.op))));
    }
    return *bits;
  }

  Result<void, PolicyError> parse_values() {
    const Node* value = condition_.find("value");
    if (value == nullptr) return failure(condition_.error("\"value\" is missing"));
    if (test_.op == CompareOp::kIn || test_.op == CompareOp::kNotIn) {
      if (!value->is_array()) {
        return failure(value->error("expected a list of values, found " + std::string(value->kind_text())));
      }
      if (value->size() == 0) return failure(value->error("an empty list of values"));
      for (size_t i = 0; i < value->size(); ++i) {
        auto bits = parse_fitting((*value)[i]);
        if (!bits) return failure(std::move(bits.error()));
        if (std::find(test_.values.begin(), test_.values.end(), *bits) == test_.values.end()) {
          test_.values.push_back(*bits);
        }
      }
      return {};
    }
    auto bits = parse_fitting(*value);
    if (!bits) return failure(std::move(bits.error()));
    if (test_.op == CompareOp::kSubset) {
      test_.mask = *bits;
      if (significant_ == kShortBits) test_.mask |= ~kShortBits;
      return {};
    }
    test_.values = {*bits};
    if (significant_ == kShortBits && test_.op == CompareOp::kEqual) {
      test_.op = CompareOp::kMasked;
      test_.mask = kShortBits;
      return {};
    }
    if (test_.op == CompareOp::kMasked) {
      const Node& mask_node = *condition_.find("mask");
      auto mask = parse_fitting(mask_node);
      if (!mask) return failure(std::move(mask.error()));
      if (*mask == 0) return failure(mask_node.error("a mask of 0 looks at nothing"));
      if ((*bits & ~*mask) != 0) {
        return failure(value->error(node_text(*value) + " has bits outside the mask: the condition can never hold"));
      }
      test_.mask = *mask;
    }
    return {};
  }

  const Node& condition_;
  std::span<const RuleCall> calls_;
  uint64_t significant_ = ~uint64_t{0};
  ArgTest test_;
};

bool uses_mask(const ArgTest& test) { return test.op == CompareOp::kMasked || test.op == CompareOp::kSubset; }

// True if two mask tests want different values of one bit.
bool masks_conflict(const ArgTest& a, const ArgTest& b) {
  const uint64_t all = wide(a.width) ? ~uint64_t{0} : uint64_t{0xffffffff};
  const auto looked_at = [all](const ArgTest& test) {
    return test.op == CompareOp::kSubset ? ~test.mask & all : test.mask;
  };
  const auto wanted = [](const ArgTest& test) { return test.op == CompareOp::kSubset ? 0 : test.values.front(); };
  return ((wanted(a) ^ wanted(b)) & looked_at(a) & looked_at(b)) != 0;
}

bool satisfiable_argument(std::span<const ArgTest* const> tests) {
  const uint64_t all = wide(tests.front()->width) ? ~uint64_t{0} : uint64_t{0xffffffff};
  std::vector<uint64_t> candidates = {0, all, all >> 1, (all >> 1) + 1};  // the ends, unsigned and signed
  bool listed = false;
  bool masked = false;
  for (const ArgTest* test : tests) {
    listed = listed || test->op == CompareOp::kEqual || test->op == CompareOp::kIn;
    masked = masked || uses_mask(*test);
    for (const uint64_t value : test->values) {
      candidates.insert(candidates.end(), {value, (value - 1) & all, (value + 1) & all});
    }
  }
  const bool found = std::any_of(candidates.begin(), candidates.end(), [&](uint64_t candidate) {
    const uint64_t args[6] = {candidate, candidate, candidate, candidate, candidate, candidate};
    return std::all_of(tests.begin(), tests.end(), [&](const ArgTest* test) { return bpf::matches(*test, args); });
  });
  if (found) return true;
  // Without masks the solutions are intervals with holes, and every interval's ends are among the candidates. With a
  // list of values only those can match, and all were tried.
  if (listed || !masked) return false;
  for (const ArgTest* a : tests) {
    for (const ArgTest* b : tests) {
      if (uses_mask(*a) && uses_mask(*b) && masks_conflict(*a, *b)) return false;
    }
  }
  return true;
}

}  // namespace

bool satisfiable(std::span<const ArgTest> tests) {
  for (uint8_t arg = 0; arg < 6; ++arg) {
    std::vector<const ArgTest*> own;
    for (const ArgTest& test : tests) {
      if (test.arg == arg) own.push_back(&test);
    }
    if (!own.empty() && !satisfiable_argument(own)) return false;
  }
  return true;
}

Result<std::vector<ArgTest>, PolicyError> parse_when(const Node& when, std::span<const RuleCall> calls) {
  if (!when.is_array()) {
    return failure(when.error("expected a list of conditions, found " + std::string(when.kind_text())));
  }
  if (when.size() == 0)
    return failure(when.error("an empty list of conditions; leave \"when\" out for a rule that always holds"));
  std::vector<ArgTest> tests;
  for (size_t i = 0; i < when.size(); ++i) {
    auto test = ConditionParser(when[i], calls).parse();
    if (!test) return failure(std::move(test.error()));
    tests.push_back(std::move(*test));
  }
  if (!satisfiable(tests)) return failure(when.error("these conditions can never hold together"));
  return tests;
}

}  // namespace srun::policy
