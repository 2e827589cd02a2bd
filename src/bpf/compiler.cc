#include "bpf/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "bpf/branch_graph.h"
#include "bpf/decision_builder.h"
#include "bpf/emitter.h"
#include "bpf/search_tree.h"

namespace srun::bpf {
namespace {

constexpr uint32_t kNrWord = 0;
constexpr uint32_t kArchWord = 4;
constexpr uint32_t kLastNumber = 0xffffffff;
constexpr uint32_t kWeighedNumbers = 1024;
constexpr size_t kCostliestShown = 5;

// One stretch of call numbers with the same rules in every layer.
struct MergedRange {
  uint32_t audit_arch = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  std::vector<const Decision*> decisions;  // per layer, oldest first
};

tl::unexpected<Error> refused(std::string detail) {
  return failure(Error::from_text("compile filter", {}, std::move(detail)));
}

std::string check_test(const ArgTest& test) {
  if (test.arg >= 6) return fmt::format("argument {} does not exist", test.arg);
  const bool is_set = test.op == CompareOp::kIn || test.op == CompareOp::kNotIn;
  const size_t expected = test.op == CompareOp::kSubset ? 0 : 1;
  if (!is_set && test.values.size() != expected) {
    return fmt::format("a test has {} where {} expected", count_of(test.values.size(), "value"), expected);
  }
  return {};
}

std::string check_decision(const Decision& decision, size_t verdicts) {
  if (decision.otherwise >= verdicts) return fmt::format("verdict {} does not exist", decision.otherwise);
  for (const ArgRule& rule : decision.rules) {
    if (rule.verdict >= verdicts) return fmt::format("verdict {} does not exist", rule.verdict);
    for (const ArgTest& test : rule.all_of) {
      if (std::string problem = check_test(test); !problem.empty()) return problem;
    }
  }
  return {};
}

std::string check_arch(const ArchRules& arch, size_t verdicts) {
  uint64_t next = 0;
  for (const NumberRange& range : arch.ranges) {
    if (range.first != next || range.last < range.first) {
      return fmt::format("arch {:#x}: no rule or two for number {}", arch.audit_arch, next);
    }
    next = uint64_t{range.last} + 1;
    if (std::string problem = check_decision(range.decision, verdicts); !problem.empty()) {
      return fmt::format("arch {:#x}, number {}: {}", arch.audit_arch, range.first, problem);
    }
  }
  if (next != uint64_t{kLastNumber} + 1) return fmt::format("arch {:#x}: no rule for number {}", arch.audit_arch, next);
  return {};
}

// Empty if the layers are what compile() promises to understand.
std::string check(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts) {
  if (layers.empty()) return "no layers";
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].foreign_arch >= verdicts.size()) {
      return fmt::format("layer {}: verdict {} does not exist", i, layers[i].foreign_arch);
    }
    std::vector<uint32_t> seen;
    for (const ArchRules& arch : layers[i].arches) {
      if (std::find(seen.begin(), seen.end(), arch.audit_arch) != seen.end()) {
        return fmt::format("layer {}: arch {:#x} is listed twice", i, arch.audit_arch);
      }
      seen.push_back(arch.audit_arch);
      if (std::string problem = check_arch(arch, verdicts.size()); !problem.empty()) {
        return fmt::format("layer {}, {}", i, problem);
      }
    }
  }
  return {};
}

std::vector<uint32_t> listed_arches(std::span<const Layer> layers) {
  std::vector<uint32_t> arches;
  for (const Layer& layer : layers) {
    for (const ArchRules& arch : layer.arches) {
      if (std::find(arches.begin(), arches.end(), arch.audit_arch) == arches.end()) arches.push_back(arch.audit_arch);
    }
  }
  return arches;
}

std::vector<MergedRange> merge_ranges(std::span<const Layer> layers, const std::vector<Decision>& foreign,
                                      uint32_t audit_arch) {
  struct Cursor {
    const std::vector<NumberRange>* ranges = nullptr;  // nullptr: the layer does not list the arch
    const Decision* foreign = nullptr;
    size_t at = 0;
  };
  std::vector<Cursor> cursors;
  for (size_t i = 0; i < layers.size(); ++i) {
    Cursor cursor{nullptr, &foreign[i], 0};
    for (const ArchRules& arch : layers[i].arches) {
      if (arch.audit_arch == audit_arch) cursor.ranges = &arch.ranges;
    }
    cursors.push_back(cursor);
  }
  std::vector<MergedRange> merged;
  for (uint64_t next = 0; next <= kLastNumber;) {
    MergedRange range{audit_arch, static_cast<uint32_t>(next), kLastNumber, {}};
    for (const Cursor& cursor : cursors) {
      if (cursor.ranges != nullptr) range.last = std::min(range.last, (*cursor.ranges)[cursor.at].last);
      range.decisions.push_back(cursor.ranges != nullptr ? &(*cursor.ranges)[cursor.at].decision : cursor.foreign);
    }
    for (Cursor& cursor : cursors) {
      if (cursor.ranges != nullptr && (*cursor.ranges)[cursor.at].last == range.last) ++cursor.at;
    }
    next = uint64_t{range.last} + 1;
    merged.push_back(std::move(range));
  }
  return merged;
}

double range_weight(const MergedRange& range, const CompileOptions& options) {
  // Numbers that nobody assigned still need a place, but never a short path.
  double weight = 1e-3;
  for (uint32_t nr = range.first; nr <= range.last && nr < kWeighedNumbers; ++nr) {
    weight += options.frequency ? std::max(0.0, options.frequency(range.audit_arch, nr)) : nr < 512 ? 1.0 : 0.0;
  }
  return weight;
}

// One program under construction.
class ProgramBuilder {
 public:
  ProgramBuilder(std::span<const VerdictReturn> verdicts, ReturnKind kind, Goal goal, const CompileOptions& options)
      : decisions_(graph_, verdicts, kind, goal), goal_(goal), options_(options) {}

  std::vector<Instruction> build(const std::vector<MergedRange>& ranges, const std::vector<uint32_t>& arches,
                                 const std::vector<Decision>& foreign) {
    std::map<const Decision*, DecisionBuilder::RulesId> interned;
    const auto intern = [&](const Decision* decision) {
      const auto [position, added] = interned.try_emplace(decision, 0);
      if (added) position->second = decisions_.intern(*decision);
      return position->second;
    };
    std::vector<DecisionBuilder::RulesId> rules;
    for (const Decision& decision : foreign) rules.push_back(intern(&decision));
    const NodeId foreign_root = decisions_.build(rules);

    std::map<uint32_t, std::vector<Segment>> by_arch;
    for (const MergedRange& range : ranges) {
      rules.clear();
      for (const Decision* decision : range.decisions) rules.push_back(intern(decision));
      const NodeId root = decisions_.build(rules);
      range_roots_.push_back(root);
      by_arch[range.audit_arch].push_back({range.first, range.last, root, range_weight(range, options_)});
    }

    std::vector<Segment> arch_segments;
    uint64_t next = 0;
    for (auto& [arch, segments] : by_arch) {
      if (arch > next) arch_segments.push_back({static_cast<uint32_t>(next), arch - 1, foreign_root, 1e-3});
      const NodeId root = build_search(graph_, kNrWord, 0xffffffff, std::move(segments), goal_);
      arch_segments.push_back({arch, arch, root, arch == arches.front() ? 100.0 : 1.0});
      next = uint64_t{arch} + 1;
    }
    if (next <= 0xffffffff) arch_segments.push_back({static_cast<uint32_t>(next), 0xffffffff, foreign_root, 1e-3});
    return emit(graph_, build_search(graph_, kArchWord, 0xffffffff, std::move(arch_segments), goal_));
  }

  // For the error text: what the argument rules of each range need when they stand alone.
  std::vector<std::pair<size_t, const MergedRange*>> costliest(const std::vector<MergedRange>& ranges) const {
    std::vector<std::pair<size_t, const MergedRange*>> costs;
    std::map<NodeId, bool> seen;  // shared by several ranges: named once
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (graph_[range_roots_[i]].leaf || !seen.try_emplace(range_roots_[i], true).second) continue;
      costs.emplace_back(emitted_size(graph_, range_roots_[i]), &ranges[i]);
    }
    std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (costs.size() > kCostliestShown) costs.resize(kCostliestShown);
    return costs;
  }

 private:
  BranchGraph graph_;
  DecisionBuilder decisions_;
  Goal goal_;
  const CompileOptions& options_;
  std::vector<NodeId> range_roots_;
};

std::string describe(const MergedRange& range, size_t instructions, const CompileOptions& options) {
  size_t rules = 0;
  for (const Decision* decision : range.decisions) rules += decision->rules.size();
  std::string name = options.call_name ? options.call_name(range.audit_arch, range.first) : std::string{};
  if (name.empty()) name = fmt::format("number {}", range.first);
  if (range.last != range.first) name += fmt::format(" to {}", range.last);
  const std::string size = instructions > kMaxInstructions ? fmt::format("more than {} instructions", kMaxInstructions)
                                                           : count_of(instructions, "instruction");
  return fmt::format("{} on arch {:#x}: {} for {}", name, range.audit_arch, size, count_of(rules, "rule"));
}

Result<Program> build_program(const std::vector<MergedRange>& ranges, const std::vector<uint32_t>& arches,
                              const std::vector<Decision>& foreign, std::span<const VerdictReturn> verdicts,
                              ReturnKind kind, const CompileOptions& options) {
  std::vector<Instruction> code;
  std::optional<ProgramBuilder> builder;
  // The copy is asked about few calls, and its frequent answers are taken from entries (lazy_verdicts.h).
  for (const Goal goal : {kind == ReturnKind::kKernel ? Goal::kBalanced : Goal::kQuick, Goal::kSmallest}) {
    builder.emplace(verdicts, kind, goal, options);
    code = builder->build(ranges, arches, foreign);
    if (!code.empty()) break;
  }
  if (code.empty()) {
    std::string detail =
        fmt::format("the rules need more than the {} instructions that the kernel takes", kMaxInstructions);
    for (const auto& [cost, range] : builder->costliest(ranges)) detail += "; " + describe(*range, cost, options);
    return refused(std::move(detail));
  }
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  // Cannot happen; but a program that the verifier refuses must never count as one.
  if (!program) return refused("internal error: " + program.error().message());
  return std::move(*program);
}

}  // namespace

Result<CompiledStack> compile(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts,
                              const CompileOptions& options) {
  if (std::string problem = check(layers, verdicts); !problem.empty()) return refused(std::move(problem));
  std::vector<Decision> foreign;
  for (const Layer& layer : layers) foreign.push_back({{}, layer.foreign_arch});
  const std::vector<uint32_t> arches = listed_arches(layers);
  std::vector<MergedRange> ranges;
  for (const uint32_t arch : arches) {
    for (MergedRange& range : merge_ranges(layers, foreign, arch)) ranges.push_back(std::move(range));
  }
  Result<Program> kernel = build_program(ranges, arches, foreign, verdicts, ReturnKind::kKernel, options);
  if (!kernel) return failure(std::move(kernel.error()));
  Result<Program> copy = build_program(ranges, arches, foreign, verdicts, ReturnKind::kCopy, options);
  if (!copy) return failure(std::move(copy.error()));
  return CompiledStack{std::move(*kernel), std::move(*copy)};
}

}  // namespace srun::bpf
