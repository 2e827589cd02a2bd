#pragma once
// Programs as text and bytes: raw struct sock_filter records, `[[code,jt,jf,k],…]` as JSON, and the C array that
// `tcpdump -dd` prints. Reading is strict and bounded; what was read still has to be verified.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bpf/instruction.h"

namespace srun::bpf {

enum class ProgramFormat : uint8_t {
  kRaw,   // 8 bytes an instruction in this machine's byte order, as in a struct sock_fprog
  kJson,  // an array of arrays of four numbers
  kC,     // { 0x28, 0, 0, 0x0000000c }, one initialiser an instruction
};

// Errors say where: "line 3, column 7: jt is above 255". At most kMaxInstructions instructions.
[[nodiscard]] Result<std::vector<Instruction>> read_raw(std::string_view bytes);
[[nodiscard]] Result<std::vector<Instruction>> read_json(std::string_view text);
// Accepts what surrounds the initialisers in a source file too: comments, a declaration, the outer braces.
[[nodiscard]] Result<std::vector<Instruction>> read_c(std::string_view text);
[[nodiscard]] Result<std::vector<Instruction>> read_program(std::string_view bytes, ProgramFormat format);
// By content: JSON begins with '[', a C array is text with '{', everything else is raw.
ProgramFormat guess_format(std::string_view bytes);

std::string write_raw(std::span<const Instruction> code);
std::string write_json(std::span<const Instruction> code);  // one line, newline at the end
std::string write_c(std::span<const Instruction> code);     // as tcpdump -dd
std::string write_program(std::span<const Instruction> code, ProgramFormat format);

}  // namespace srun::bpf
