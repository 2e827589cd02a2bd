#pragma once
// Listings of filter programs, and programs as files.
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "bpf/disassembler.h"
#include "bpf/formats.h"

namespace srun::tool {

// How a program is written; nullopt: as a listing.
using OutputFormat = std::optional<bpf::ProgramFormat>;

// Options for a listing with the names of calls.
bpf::DisassemblyOptions names_of_calls();
// A listing or one of the file formats, ready to be printed.
std::string program_text(std::span<const bpf::Instruction> code, OutputFormat format,
                         const bpf::DisassemblyOptions& options);
// A program file in any of the formats, told apart by content; "-" is standard input. Not verified.
[[nodiscard]] Result<std::vector<bpf::Instruction>> read_program_file(const std::string& path);

}  // namespace srun::tool
