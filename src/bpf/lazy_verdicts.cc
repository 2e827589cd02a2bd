#include "bpf/lazy_verdicts.h"

#include <exception>
#include <optional>

#include "bpf/branch_facts.h"
#include "bpf/branch_graph.h"
#include "bpf/constancy.h"
#include "bpf/emitter.h"
#include "bpf/program_graph.h"
#include "bpf/reference.h"

namespace srun::bpf {

static_assert(LazyVerdicts::kNumbers <= kSingleNumbers);
static_assert(LazyVerdicts::kNumbers < LazyVerdicts::kInFull);  // so every index of a residual is below the marks

LazyVerdicts::LazyVerdicts(Program program, uint32_t audit_arch, const RunnerOptions& options)
    : program_(std::move(program)), audit_arch_(audit_arch), options_(options) {}

uint32_t LazyVerdicts::evaluate_rest(const CallData& call) noexcept {
  const auto nr = static_cast<uint32_t>(call.nr);
  if (call.arch != audit_arch_ || nr >= kNumbers) return run_reference(program_, call);
  Entry& entry = entries_[nr];
  if (entry.residual == kUnknown && ++entry.value >= kWorthIt) settle(nr);
  if (entry.residual == kConstant) return entry.value;
  if (entry.residual < runners_.size()) return runners_[entry.residual]->run(call);
  return run_reference(program_, call);
}

void LazyVerdicts::settle(uint32_t nr) noexcept {
  Entry& entry = entries_[nr];
  if (entry.residual != kUnknown) return;
  try {
    entry = work_out(nr);
  } catch (const std::exception&) {
    entry = {0, kInFull};  // no memory: slower, never wrong
  }
}

LazyVerdicts::Entry LazyVerdicts::work_out(uint32_t nr) {
  const Outcomes outcomes = possible_outcomes(program_, audit_arch_, nr, nr);
  if (outcomes.constant) return {outcomes.value, kConstant};
  BranchGraph graph;
  const std::optional<NodeId> root = specialised_graph(graph, program_, audit_arch_, nr, kMaxInstructions);
  if (!root) return {0, kInFull};
  const std::vector<Instruction> code = emit(graph, without_known_answers(graph, *root));
  // The analysis may have seen outcomes that cannot happen; what asks nothing any more is a constant.
  if (code.size() == 1 && code[0].code == kRetK) return {code[0].k, kConstant};
  const Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  if (!program) return {0, kInFull};

  std::vector<uint64_t> key;
  key.reserve(code.size());
  for (const Instruction& insn : code)
    key.push_back(uint64_t{insn.code} << 48 | uint64_t{insn.jt} << 40 | uint64_t{insn.jf} << 32 | insn.k);
  if (const auto known = shared_.find(key); known != shared_.end()) return {0, known->second};
  const auto index = static_cast<uint16_t>(runners_.size());
  runners_.push_back(std::make_unique<const CallRunner>(*program, options_));
  // If this throws, the runner is merely not shared.
  shared_.emplace(std::move(key), index);
  return {0, index};
}

}  // namespace srun::bpf
