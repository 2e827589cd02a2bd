#pragma once
#include <functional>
#include <span>
#include <string>

#include "bpf/instruction.h"

namespace srun::bpf {

struct DisassemblyOptions {
  // Names for call numbers, given the arch known at that point (0: unknown); empty string: print the number only.
  std::function<std::string(uint32_t audit_arch, uint32_t nr)> call_name;
  // Text for a RET value, e.g. the rule behind a verdict id; empty string: the default text.
  std::function<std::string(uint32_t value)> return_text;
};

// One line per instruction with labels for jump targets, one trailing newline per line. Any instructions, verified or not.
std::string disassemble(std::span<const Instruction> code, const DisassemblyOptions& options = {});

}  // namespace srun::bpf
