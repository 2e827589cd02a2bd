#pragma once
// Rules → classic BPF. Dispatch is a search tree over call numbers; all layers are merged into one program whose
// verdict is the strictest one. The path of calls whose verdict does not depend on arguments uses only loads of nr and
// arch, JEQ/JGT/JGE/JSET with constants, JA and RET K, so that the kernel's allow bitmap can hold them (bpf.md 1.6).
#include <span>

#include "base/error.h"
#include "bpf/program.h"
#include "bpf/rules.h"

namespace srun::bpf {

struct CompiledStack {
  Program kernel;  // leaves are VerdictReturn::kernel_return
  Program copy;    // leaves are VerdictReturn::copy_return
};

// Layers in order, oldest first. Fails with a text that names what costs most when a program exceeds 4096 instructions.
[[nodiscard]] Result<CompiledStack> compile(std::span<const Layer> layers, std::span<const VerdictReturn> verdicts);

}  // namespace srun::bpf
