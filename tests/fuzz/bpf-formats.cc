// Programs in every file format: whatever the bytes, reading ends with a program or an error; what was read is read
// back from each format as it was written; listing and verifying it is safe.
#include <string>

#include "bpf/disassembler.h"
#include "bpf/formats.h"
#include "bpf/program.h"
#include "fuzz_input.h"

using namespace srun;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr bpf::ProgramFormat kFormats[] = {bpf::ProgramFormat::kRaw, bpf::ProgramFormat::kJson,
                                             bpf::ProgramFormat::kC};
  const Result<std::vector<bpf::Instruction>> guessed = bpf::read_program(bytes, bpf::guess_format(bytes));
  if (!guessed) fuzz::require(!guessed.error().message().empty(), "an error says something");
  for (const bpf::ProgramFormat format : kFormats) {
    const Result<std::vector<bpf::Instruction>> code = bpf::read_program(bytes, format);
    if (!code) continue;
    fuzz::require(code->size() <= bpf::kMaxInstructions, "a program has at most 4096 instructions");
    for (const bpf::ProgramFormat other : kFormats) {
      if (code->empty() && other == bpf::ProgramFormat::kC) continue;  // an empty C array is an error when read
      const std::string text = bpf::write_program(*code, other);
      const Result<std::vector<bpf::Instruction>> back = bpf::read_program(text, other);
      fuzz::require(back.has_value() && *back == *code, "what was written is read back");
    }
    static_cast<void>(bpf::disassemble(*code));
    for (const bpf::Flavour flavour : {bpf::Flavour::kPacket, bpf::Flavour::kSeccomp}) {
      const Result<bpf::Program, bpf::VerifyError> program = bpf::verify(*code, flavour);
      fuzz::require(program.has_value() || code->empty() || program.error().instruction < code->size() ||
                        program.error().kind == bpf::VerifyError::Kind::kLength,
                    "an error names an instruction of the program");
    }
  }
  return 0;
}
