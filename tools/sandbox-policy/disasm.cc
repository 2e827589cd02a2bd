#include "bpf/disassembler.h"

#include "base/text.h"
#include "report/call_text.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {

int disassemble(const std::string& policy, bool copy, kernel::Arch arch, OutputFormat format) {
  const auto loaded = load(policy, this_host(arch));
  if (!loaded) {
    complain(loaded.error().text());
    return kBadPolicy;
  }
  const policy::Enforcement& enforcement = loaded->enforcement;
  bpf::DisassemblyOptions options = names_of_calls();
  if (copy) {
    // The copy's data is the index of the verdict: the rule behind it says more than the number.
    options.return_text = [&](uint32_t value) {
      const uint32_t index = value & bpf::kRetDataMask;
      if (index >= enforcement.verdicts.size()) return std::string();
      const policy::Verdict& verdict = enforcement.verdicts[index];
      return escape_for_terminal(verdict_text(verdict) + " [" + rule_text(verdict.rule) + "]");
    };
  }
  const bpf::Program& program = copy ? enforcement.programs->copy : enforcement.programs->kernel;
  if (!format)
    print("# " + escape_for_terminal(policy) + " for " + std::string(kernel::arch_name(arch)) +
          (copy ? ", the supervisor's copy: " : ", the kernel's program: ") +
          count_of(program.code().size(), "instruction") + "\n");
  print(program_text(program.code(), format, options));
  return kFine;
}

int disassemble_file(const std::string& file, bool packet, OutputFormat format) {
  const auto code = read_program_file(file);
  if (!code) {
    complain(code.error().message());
    return kBadPolicy;
  }
  if (!format) print("# " + escape_for_terminal(file) + ": " + count_of(code->size(), "instruction") + "\n");
  print(program_text(*code, format, names_of_calls()));
  const auto program = bpf::verify(*code, packet ? bpf::Flavour::kPacket : bpf::Flavour::kSeccomp);
  if (program) return kFine;
  complain("the kernel would refuse this program for " + std::string(packet ? "packets" : "system calls") + ": " +
           program.error().message());
  return kFinding;
}

}  // namespace srun::tool
