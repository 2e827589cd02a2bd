#include "bpf/call_trace.h"

#include <cstring>

#include "bpf/abstract_run.h"

namespace srun::bpf {

CallTrace trace_call(const Program& program, const CallData& call) {
  // With every word known the abstract run follows exactly one path.
  AbstractState state;
  for (size_t word = 0; word < state.words.size(); ++word) {
    uint32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(&call) + 4 * word, sizeof value);
    state.words[word] = AbstractValue::constant(value);
  }
  // Words that were not written hold 0, as in the interpreters; the verifier keeps them from being read.
  state.scratch.fill(AbstractValue::constant(0));
  CallTrace trace;
  AbstractVisitor visitor;
  visitor.instruction = [&](size_t pc, const AbstractState&, Ways) { trace.instructions.push_back(pc); };
  visitor.result = [&](const AbstractValue& result) { trace.value = result.min; };
  run_abstract(program, 0, state, visitor);
  return trace;
}

}  // namespace srun::bpf
