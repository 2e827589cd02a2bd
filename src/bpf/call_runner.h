#pragma once
#include <optional>

#include "bpf/interpreter.h"
#include "bpf/jit.h"
#include "bpf/program.h"

namespace srun::bpf {

struct RunnerOptions {
  bool jit = true;  // where there is one for this processor; else, and where pages are refused, the interpreter
};

// A seccomp program ready to run with the fastest engine at hand. Immutable; any number of threads at once.
class CallRunner {
 public:
  explicit CallRunner(const Program& program, const RunnerOptions& options = {});

  uint32_t run(const CallData& call) const noexcept { return jit_ ? jit_->run(&call) : interpreter_->run(&call); }
  bool is_jitted() const { return jit_.has_value(); }

 private:
  std::optional<JitCode> jit_;
  std::optional<InterpreterCode> interpreter_;  // exactly one of the two is there
};

}  // namespace srun::bpf
