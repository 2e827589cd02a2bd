#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bpf/program.h"

namespace srun::bpf {

// How a program came to its answer for one call: for explanations, not for deciding.
struct CallTrace {
  uint32_t value = 0;
  std::vector<size_t> instructions;  // executed, in order; the last one decided

  size_t deciding_instruction() const { return instructions.back(); }
};

// Seccomp programs only. `value` is what run_reference() gives.
CallTrace trace_call(const Program& program, const CallData& call);

}  // namespace srun::bpf
