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

// One line per instruction, each with a trailing newline:
//
//   0002  L0001: jeq   257 openat ? L0002 : next
//
// index, label if something jumps there, operation, operand, and for a conditional jump where it goes if true and if
// false. Words are named after seccomp_data unless the program is one for packets; a constant that A is compared with
// is printed after what A holds there. Any instructions, verified or not; the text depends on nothing but the
// arguments.
std::string disassemble(std::span<const Instruction> code, const DisassemblyOptions& options = {});

// "ERRNO(13)", "ALLOW", "0x00010000" for a value that is no known action.
std::string return_value_text(uint32_t value);
// "x86_64" for an AUDIT_ARCH_* value, "0x12345678" for one without a name here.
std::string audit_arch_text(uint32_t audit_arch);
// "nr", "arch", "ip.lo", "arg3.hi" for an aligned offset below 64.
std::string call_word_text(uint32_t offset);

}  // namespace srun::bpf
