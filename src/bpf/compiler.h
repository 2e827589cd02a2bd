#pragma once
// Rules → classic BPF. Dispatch is a search tree over call numbers; all layers are merged into one program whose
// verdict is the strictest one. The path of calls whose verdict does not depend on arguments uses only loads of nr and
// arch, JEQ/JGT/JGE/JSET with constants, JA and RET K, so that the kernel's allow bitmap can hold them (bpf.md 1.6).
#include <functional>
#include <span>
#include <string>

#include "base/error.h"
#include "bpf/program.h"
#include "bpf/rules.h"

namespace srun::bpf {

struct CompiledStack {
  Program kernel;  // leaves are VerdictReturn::kernel_return
  Program copy;    // leaves are VerdictReturn::copy_return
};

struct CompileOptions {
  // How often a call number occurs, in any unit; frequent ones get short paths. Asked for numbers below 1024 only.
  // None given: every number below 512 counts the same.
  std::function<double(uint32_t audit_arch, uint32_t nr)> frequency;
  // Names for error texts; may be empty or answer with an empty string.
  std::function<std::string(uint32_t audit_arch, uint32_t nr)> call_name;
};

// Layers in order, oldest first. The arch that the first layer lists first is taken for the common one. Fails on layers
// that are no partition of the numbers, on ids outside `verdicts`, and with a text that names what costs most when a
// program exceeds 4096 instructions.
[[nodiscard]] Result<CompiledStack> compile(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts,
                                            const CompileOptions& options = {});

}  // namespace srun::bpf
