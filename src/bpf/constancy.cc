#include "bpf/constancy.h"

#include <algorithm>
#include <map>
#include <optional>

#include "bpf/abstract_run.h"
#include "bpf/arg_variable.h"

namespace srun::bpf {
namespace {

constexpr uint64_t kLastNumber = 0xffffffff;
// Above this many pieces a set of numbers is no longer cut by JSET but looked at in another way.
constexpr uint64_t kMostPieces = 256;

IntervalSet united(const IntervalSet& a, const IntervalSet& b) {
  return complement(intersection(complement(a, kLastNumber), complement(b, kLastNumber)), kLastNumber);
}

AbstractVisitor collect(Outcomes& outcomes) {
  AbstractVisitor visitor;
  visitor.result = [&outcomes](const AbstractValue& result) {
    if (result.is_constant()) {
      outcomes.add(result.min);
    } else {
      outcomes.add_unknown();
    }
  };
  return visitor;
}

// The numbers n with (n & mask) != 0, if they are few intervals.
std::optional<IntervalSet> numbers_with_bits(uint32_t mask) {
  if (mask == 0) return IntervalSet{};
  const uint64_t step = mask & (~mask + 1);  // below the lowest bit nothing changes
  if ((kLastNumber + 1) / step > kMostPieces) return std::nullopt;
  IntervalSet set;
  for (uint64_t first = 0; first <= kLastNumber; first += step) {
    if ((first & mask) != 0) set = united(set, {{first, first + step - 1}});
  }
  return set;
}

// The walk: for each instruction the numbers that reach it while A is the number or a constant and nothing else was
// touched. What does anything else is put aside, to be run with all that is known of the number.
class Walk {
 public:
  Walk(const Program& program, uint32_t audit_arch) : program_(program), audit_arch_(audit_arch) {}

  std::vector<ConstancyRange> run() {
    arrive(0, Accumulator{false, 0}, {{0, kLastNumber}});
    while (!pending_.empty()) {
      auto node = pending_.extract(pending_.begin());
      step(node.key().first, node.key().second, node.mapped());
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<ConstancyRange> joined;
    for (const ConstancyRange& range : ranges_) {
      ConstancyRange next = range;
      if (!joined.empty()) next.first = joined.back().first;
      ConstancyRange previous = joined.empty() ? ConstancyRange{} : joined.back();
      previous.last = range.last;
      if (!joined.empty() && previous == next) {
        joined.back().last = range.last;
      } else {
        joined.push_back(range);
      }
    }
    return joined;
  }

 private:
  // A during the walk: a word of seccomp_data (word 0 is the call's number) or a constant.
  struct Accumulator {
    bool is_word = false;
    uint32_t number = 0;  // index of the word; the constant
    bool is_nr() const { return is_word && number == 0; }
    friend auto operator<=>(const Accumulator&, const Accumulator&) = default;
  };

  void arrive(size_t pc, Accumulator a, IntervalSet numbers) {
    if (numbers.empty()) return;
    const auto [position, added] = pending_.try_emplace({pc, a}, numbers);
    if (!added) position->second = united(position->second, numbers);
  }

  void step(size_t pc, Accumulator a, const IntervalSet& numbers) {
    const Instruction insn = program_.code()[pc];
    switch (insn.code) {
      case kLdAbsW:
        if (insn.k == 4) return arrive(pc + 1, {false, audit_arch_}, numbers);
        return arrive(pc + 1, {true, insn.k / 4}, numbers);
      case kLdImm:
        return arrive(pc + 1, {false, insn.k}, numbers);
      case kLdLen:
        return arrive(pc + 1, {false, sizeof(CallData)}, numbers);
      case kJa:
        return arrive(pc + 1 + insn.k, a, numbers);
      case kRetK:
        return settle(numbers, insn.k);
      case kRetA:
        if (!a.is_word) return settle(numbers, a.number);
        break;
      case kJeqK:
      case kJgtK:
      case kJgeK:
      case kJsetK:
        if (jump(pc, insn, a, numbers)) return;
        break;
      case kAddK:
      case kSubK:
      case kMulK:
      case kDivK:
      case kModK:
      case kAndK:
      case kOrK:
      case kXorK:
      case kLshK:
      case kRshK:
      case kNeg:
        if (a.is_word) break;
        a.number = alu_result(insn.code, AbstractValue::constant(a.number), AbstractValue::constant(insn.k)).min;
        return arrive(pc + 1, a, numbers);
      default:
        break;
    }
    look_closer(pc, a, numbers);
  }

  bool jump(size_t pc, const Instruction& insn, Accumulator a, const IntervalSet& numbers) {
    if (a.is_word && !a.is_nr()) return false;
    IntervalSet yes;
    if (!a.is_word) {
      const bool taken =
          after_jump(insn.code, AbstractValue::constant(a.number), AbstractValue::constant(insn.k), true).has_value();
      if (taken) yes = {{0, kLastNumber}};
    } else if (insn.code == kJeqK) {
      yes = {{insn.k, insn.k}};
    } else if (insn.code == kJgeK) {
      yes = {{insn.k, kLastNumber}};
    } else if (insn.code == kJgtK) {
      if (insn.k != kLastNumber) yes = {{uint64_t{insn.k} + 1, kLastNumber}};
    } else {
      const std::optional<IntervalSet> with_bits = numbers_with_bits(insn.k);
      if (!with_bits) return false;
      yes = *with_bits;
    }
    arrive(pc + 1 + insn.jt, a, intersection(numbers, yes));
    arrive(pc + 1 + insn.jf, a, intersection(numbers, complement(yes, kLastNumber)));
    return true;
  }

  void settle(const IntervalSet& numbers, uint32_t value) {
    const bool allow = (value & kRetActionMask) == kRetAllow;
    for (const Interval& interval : numbers) {
      ranges_.push_back(
          {static_cast<uint32_t>(interval.first), static_cast<uint32_t>(interval.last), true, allow, value});
    }
  }

  Outcomes outcomes_from(size_t pc, Accumulator a, const Interval& interval) const {
    const auto nr = AbstractValue::between(static_cast<uint32_t>(interval.first), static_cast<uint32_t>(interval.last));
    AbstractState state = AbstractState::at_start(audit_arch_, nr);
    state.a = a.is_word ? state.words[a.number] : AbstractValue::constant(a.number);
    state.a_word = a.is_word ? static_cast<uint8_t>(a.number) : kNoWord;
    Outcomes outcomes;
    const AbstractVisitor visitor = collect(outcomes);
    run_abstract(program_, pc, state, visitor);
    // Nothing happens only where no number can come; then nothing is claimed either.
    if (!outcomes.any) outcomes.add_unknown();
    return outcomes;
  }

  void record(const Interval& interval, const Outcomes& outcomes) {
    ranges_.push_back({static_cast<uint32_t>(interval.first), static_cast<uint32_t>(interval.last), outcomes.constant,
                       outcomes.always_allow, outcomes.constant ? outcomes.value : 0});
  }

  void look_closer(size_t pc, Accumulator a, const IntervalSet& numbers) {
    for (const Interval& interval : numbers) {
      const Outcomes outcomes = outcomes_from(pc, a, interval);
      // One result for the whole stretch is as good as it gets; so is a single number.
      if (outcomes.constant || interval.first == interval.last || interval.first >= kSingleNumbers) {
        record(interval, outcomes);
        continue;
      }
      uint64_t next = interval.first;
      for (; next <= interval.last && next < kSingleNumbers; ++next) {
        record({next, next}, outcomes_from(pc, a, {next, next}));
      }
      if (next <= interval.last) record({next, interval.last}, outcomes_from(pc, a, {next, interval.last}));
    }
  }

  const Program& program_;
  uint32_t audit_arch_;
  std::map<std::pair<size_t, Accumulator>, IntervalSet> pending_;
  std::vector<ConstancyRange> ranges_;
};

}  // namespace

void Outcomes::add(uint32_t result) {
  constant = constant && (!any || result == value);
  always_allow = always_allow && (result & kRetActionMask) == kRetAllow;
  value = result;
  any = true;
}

void Outcomes::add_unknown() {
  any = true;
  constant = false;
  always_allow = false;
}

std::vector<ConstancyRange> find_constant_calls(const Program& program, uint32_t audit_arch) {
  return Walk(program, audit_arch).run();
}

Outcomes possible_outcomes(const Program& program, uint32_t audit_arch, uint32_t first, uint32_t last) {
  Outcomes outcomes;
  const AbstractVisitor visitor = collect(outcomes);
  run_abstract(program, 0, AbstractState::at_start(audit_arch, AbstractValue::between(first, last)), visitor);
  if (!outcomes.any) outcomes.add_unknown();
  return outcomes;
}

}  // namespace srun::bpf
