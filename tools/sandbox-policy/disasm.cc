#include "bpf/disassembler.h"

#include "base/text.h"
#include "report/call_text.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/host.h"

namespace srun::tool {

int disassemble(const std::string& policy, bool copy, kernel::Arch arch) {
  const auto loaded = load(policy, this_host(arch));
  if (!loaded) {
    complain(loaded.error().text());
    return kBadPolicy;
  }
  const policy::Enforcement& enforcement = loaded->enforcement;
  bpf::DisassemblyOptions options;
  options.call_name = [](uint32_t audit_arch, uint32_t number) {
    const auto known = kernel::arch_from_audit(audit_arch);
    const kernel::Syscall* call = known ? kernel::find_syscall(*known, number) : nullptr;
    return call == nullptr ? std::string() : std::string(call->name);
  };
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
  print("# " + escape_for_terminal(policy) + " for " + std::string(kernel::arch_name(arch)) +
        (copy ? ", the supervisor's copy: " : ", the kernel's program: ") +
        count_of(program.code().size(), "instruction") + "\n");
  print(bpf::disassemble(program.code(), options));
  return kFine;
}

}  // namespace srun::tool
