#include "bpf/call_runner.h"

#include "bpf/converter.h"

namespace srun::bpf {

CallRunner::CallRunner(const Program& program, const RunnerOptions& options) {
  const isa::Code code = convert(program);
  if (options.jit) {
    if (Result<JitCode> compiled = JitCode::compile(code)) jit_.emplace(std::move(*compiled));
  }
  if (!jit_) interpreter_.emplace(code);
}

}  // namespace srun::bpf
