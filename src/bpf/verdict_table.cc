#include "bpf/verdict_table.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "bpf/branch_facts.h"
#include "bpf/constancy.h"
#include "bpf/emitter.h"

namespace srun::bpf {
namespace {

// Merging can multiply the layers' argument tests; beyond this the layers are run one by one.
constexpr size_t kNodeLimit = 4 * kMaxInstructions;

static_assert(VerdictTable::kNumbers <= kSingleNumbers);

}  // namespace

uint32_t effective_action(uint32_t return_value) {
  switch (return_value & kRetActionMask) {
    case kRetKillProcess:
    case kRetKillThread:
    case kRetTrap:
    case kRetErrno:
    case kRetUserNotif:
    case kRetTrace:
    case kRetLog:
    case kRetAllow:
      return return_value & kRetActionMask;
    default:
      return kRetKillProcess;
  }
}

StackVerdict evaluate_stack(const StackLayers& layers, const CallData& call) noexcept {
  size_t winner = layers.size() - 1;
  uint32_t value = layers[winner]->runner.run(call);
  for (size_t layer = winner; layer-- > 0;) {
    const uint32_t candidate = layers[layer]->runner.run(call);
    if (!stricter(candidate, value)) continue;
    value = candidate;
    winner = layer;
  }
  return {value, static_cast<uint16_t>(winner)};
}

// Fills one table; keeps what several numbers share.
class VerdictTable::Builder {
 public:
  Builder(VerdictTable& table, const RunnerOptions& options) : table_(table), options_(options) {}

  // `entries` has room for kNumbers.
  void fill(uint32_t audit_arch, Entry* entries) {
    // Per layer what is known of each number.
    std::vector<std::vector<ConstancyRange>> known;
    for (const auto& layer : table_.layers_) known.push_back(find_constant_calls(layer->program, audit_arch));
    std::vector<size_t> position(known.size());
    for (uint32_t nr = 0; nr < kNumbers; ++nr) {
      std::vector<ConstancyRange> layers;
      for (size_t layer = 0; layer < known.size(); ++layer) {
        while (known[layer][position[layer]].last < nr) ++position[layer];
        layers.push_back(known[layer][position[layer]]);
      }
      entries[nr] = entry_for(audit_arch, nr, layers);
    }
  }

 private:
  Entry entry_for(uint32_t audit_arch, uint32_t nr, const std::vector<ConstancyRange>& layers) {
    if (std::all_of(layers.begin(), layers.end(), [](const ConstancyRange& layer) { return layer.constant; })) {
      StackVerdict verdict{layers.back().value, static_cast<uint16_t>(layers.size() - 1)};
      for (size_t layer = layers.size(); layer-- > 0;) {
        if (stricter(layers[layer].value, verdict.value)) verdict = {layers[layer].value, static_cast<uint16_t>(layer)};
      }
      return {verdict.value, verdict.layer, kConstant};
    }
    std::vector<StackVerdict> outcomes;
    const std::vector<Instruction> code = residual_code(audit_arch, nr, layers, outcomes);
    // A residual that always returns the same means that the layers together are constant.
    if (code.size() == 1) return {outcomes[code[0].k].value, outcomes[code[0].k].layer, kConstant};
    return {0, 0, shared_residual(code, std::move(outcomes))};
  }

  // Empty if the layers have to be run as they are.
  std::vector<Instruction> residual_code(uint32_t audit_arch, uint32_t nr, const std::vector<ConstancyRange>& layers,
                                         std::vector<StackVerdict>& outcomes) const {
    BranchGraph graph;
    std::vector<GraphLayer> newest_first;
    for (size_t layer = layers.size(); layer-- > 0;) {
      const std::optional<NodeId> root =
          layers[layer].constant ? graph.leaf(layers[layer].value)
                                 : specialised_graph(graph, table_.layers_[layer]->program, audit_arch, nr, kNodeLimit);
      if (!root) return {};
      newest_first.push_back({*root, static_cast<uint16_t>(layer)});
    }
    const std::optional<NodeId> merged = merge_layers(graph, newest_first, outcomes, kNodeLimit);
    if (!merged) return {};
    return emit(graph, without_known_answers(graph, *merged));
  }

  uint16_t shared_residual(const std::vector<Instruction>& code, std::vector<StackVerdict> outcomes) {
    std::vector<uint64_t> key;
    for (const Instruction& insn : code) {
      key.push_back(uint64_t{insn.code} << 48 | uint64_t{insn.jt} << 40 | uint64_t{insn.jf} << 32 | insn.k);
    }
    for (const StackVerdict& outcome : outcomes) key.push_back(uint64_t{outcome.layer} << 32 | outcome.value);
    const auto [known, added] = shared_.try_emplace(std::move(key), static_cast<uint16_t>(table_.residuals_.size()));
    if (added) {
      Residual& residual = table_.residuals_.emplace_back();
      if (!code.empty()) {
        // A residual that does not verify cannot happen; the layers themselves are then run, which is always right.
        if (Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp)) {
          residual.runner.emplace(*program, options_);
          residual.program.emplace(std::move(*program));
          residual.outcomes = std::move(outcomes);
        }
      }
    }
    return known->second;
  }

  VerdictTable& table_;
  RunnerOptions options_;
  std::map<std::vector<uint64_t>, uint16_t> shared_;
};

VerdictTable::VerdictTable(StackLayers layers, std::span<const uint32_t> audit_arches, const RunnerOptions& options)
    : layers_(std::move(layers)) {
  // Without a filter there is no verdict, and none may be made up.
  if (layers_.empty() || audit_arches.empty()) std::abort();
  first_arch_ = audit_arches[0];
  other_arches_.assign(audit_arches.begin() + 1, audit_arches.end());
  others_.resize(other_arches_.size() * kNumbers);
  Builder builder(*this, options);
  builder.fill(first_arch_, first_.data());
  for (size_t i = 0; i < other_arches_.size(); ++i) builder.fill(other_arches_[i], &others_[i * kNumbers]);
}

StackVerdict VerdictTable::evaluate_rest(const CallData& call) const noexcept {
  const Entry* const found = entry(call.arch, static_cast<uint32_t>(call.nr));
  if (found == nullptr) return evaluate_stack(layers_, call);
  if (found->residual == kConstant) return {found->value, found->layer};
  const Residual& residual = residuals_[found->residual];
  if (!residual.runner) return evaluate_stack(layers_, call);
  return residual.outcomes[residual.runner->run(call)];
}

}  // namespace srun::bpf
