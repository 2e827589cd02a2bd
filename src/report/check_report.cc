#include "report/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bpf/kernel_bitmap.h"
#include "bpf/rules.h"
#include "kernel/arch.h"
#include "kernel/syscall_table.h"
#include "report/denial_text.h"

namespace srun::report {
namespace {

using kernel::Arch;
using policy::Action;
using policy::Check;
using policy::Verdict;

constexpr size_t kColumns = 100;

// "  title: a, b, c" wrapped with a hanging indent.
void append_wrapped(std::string& out, const std::string& title, const std::vector<std::string>& words) {
  std::string line = title;
  size_t length = title.size();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 == words.size() ? "" : ",");
    if (length + 1 + word.size() > kColumns && length > 6) {
      line += "\n     ";
      length = 5;
    }
    line += " " + word;
    length += 1 + word.size();
  }
  out += line + "\n";
}

std::string action_text(const Verdict& verdict) {
  if (verdict.audited != Action::kAllow) {
    Verdict audited = verdict;
    audited.action = verdict.audited;
    audited.audited = Action::kAllow;
    return "would be " + action_text(audited) + " (--audit)";
  }
  switch (verdict.action) {
    case Action::kAllow:
      return "allowed";
    case Action::kLog:
      return "allowed and recorded";
    case Action::kReturn:
      return fmt::format("answered with {}", verdict.value);
    case Action::kErrno:
      return "refused with " + errno_name(verdict.value);
    case Action::kTrap:
      return "trapped with SIGSYS";
    case Action::kKill:
      return "killed";
    case Action::kCheck:
      return "checked";
  }
  return "refused";
}

std::string_view check_text(Check check) {
  switch (check) {
    case Check::kNone:
      return "by the supervisor";
    case Check::kAffinity:
      return "answered from the task's own CPU mask";
    case Check::kKill:
      return "groups and -1 are expanded over members of the run";
    case Check::kFile:
      return "by the files section, for the object that is named";
    case Check::kNetwork:
      return "by the network section, for the address that is named";
    default:
      return "allowed on members of the run only";
  }
}

// Who carries the verdict out, and what that costs each call.
std::string enforcer_text(const Verdict& verdict) {
  if (verdict.check != Check::kNone) return std::string(check_text(verdict.check)) + "; supervisor, one notification";
  if (verdict.notified) return "supervisor, one notification";
  switch (verdict.action) {
    case Action::kErrno:
    case Action::kReturn:
      return verdict.quiet ? "kernel filter, not reported" : "kernel filter, not explained";
    case Action::kTrap:
      return "kernel filter, not reported";
    case Action::kKill:
      return "kernel filter, explained from the wait status";
    default:
      return "kernel filter";
  }
}

// What can become of one call number: the verdicts that its decisions mention, or the one that always wins.
struct Outlook {
  bool constant = true;
  std::set<bpf::VerdictId> verdicts;
};

const bpf::Decision* decision_for(const bpf::Layer& layer, uint32_t audit_arch, uint32_t nr) {
  for (const bpf::ArchRules& arch : layer.arches) {
    if (arch.audit_arch != audit_arch) continue;
    const auto range = std::ranges::lower_bound(arch.ranges, nr, {}, &bpf::NumberRange::last);
    if (range != arch.ranges.end() && range->first <= nr) return &range->decision;
  }
  return nullptr;
}

Outlook outlook(const policy::Enforcement& enforcement, uint32_t audit_arch, uint32_t nr) {
  Outlook found;
  for (const bpf::Layer& layer : enforcement.rules) {
    const bpf::Decision* decision = decision_for(layer, audit_arch, nr);
    if (decision == nullptr || decision->rules.empty()) continue;
    found.constant = false;
    for (const bpf::ArgRule& rule : decision->rules) found.verdicts.insert(rule.verdict);
  }
  if (!found.constant) {
    for (const bpf::Layer& layer : enforcement.rules) {
      const bpf::Decision* decision = decision_for(layer, audit_arch, nr);
      found.verdicts.insert(decision != nullptr ? decision->otherwise : layer.foreign_arch);
    }
    return found;
  }
  bpf::CallData call;
  call.arch = audit_arch;
  call.nr = static_cast<int32_t>(nr);
  found.verdicts.insert(bpf::decide(enforcement.rules, enforcement.returns, call));
  return found;
}

bool plainly_allowed(const Verdict& verdict) {
  return verdict.action == Action::kAllow && verdict.check == Check::kNone && !verdict.notified;
}

void append_layers(std::string& out, const policy::Enforcement& enforcement) {
  out += "layers (the strictest verdict wins)\n";
  for (const policy::LayerInfo& layer : enforcement.layers) {
    out += "  " + escape_for_terminal(layer.name, 300);
    if (layer.oci) out += " (OCI seccomp profile)";
    if (!layer.description.empty()) out += ": " + escape_for_terminal(layer.description, 500);
    out += "\n";
  }
  if (enforcement.audit) out += "  --audit: only the guard layer is enforced; the rest is reported\n";
}

// What the kernel's emulator makes of the program that it gets, which is less than what the rules mean.
bool in_allow_bitmap(const policy::Enforcement& enforcement, uint32_t audit_arch, uint32_t nr) {
  bpf::KernelBitmapRules kernel;
  kernel.native_arch = audit_arch;
  return enforcement.programs && bpf::kernel_sees_allow(enforcement.programs->kernel.code(), kernel, audit_arch, nr);
}

void append_native_calls(std::string& out, const policy::Enforcement& enforcement) {
  const uint32_t audit_arch = kernel::audit_arch(kernel::kNativeArch);
  size_t known = 0;
  size_t allowed = 0;
  size_t in_bitmap = 0;
  size_t by_arguments = 0;
  std::map<bpf::VerdictId, std::vector<std::string>> calls;  // of verdicts that are not plain allows
  for (const kernel::Syscall& call : kernel::syscalls()) {
    const std::optional<uint32_t> nr = call.number(kernel::kNativeArch);
    if (!nr) continue;
    ++known;
    const Outlook found = outlook(enforcement, audit_arch, *nr);
    if (!found.constant) ++by_arguments;
    bool all_allowed = true;
    for (const bpf::VerdictId id : found.verdicts) {
      if (id < enforcement.verdicts.size() && plainly_allowed(enforcement.verdicts[id])) continue;
      all_allowed = false;
      calls[id].push_back(std::string(call.name) + (found.constant ? "" : "*"));
    }
    if (!found.constant || !all_allowed) continue;
    ++allowed;
    if (in_allow_bitmap(enforcement, audit_arch, *nr)) ++in_bitmap;
  }
  out += fmt::format("system calls ({}, {} known)\n", kernel::arch_name(kernel::kNativeArch), known);
  out += fmt::format("  {} allowed whatever their arguments: kernel filter, {} by one test in its allow bitmap\n",
                     allowed, in_bitmap);
  out += fmt::format("  {} decided by their arguments, marked *: kernel filter, its instructions for each call\n",
                     by_arguments);
  for (const auto& [id, names] : calls) {
    if (id >= enforcement.verdicts.size()) continue;
    const Verdict& verdict = enforcement.verdicts[id];
    append_wrapped(out,
                   fmt::format("  {}: {} ({}):", rule_text(verdict.rule), action_text(verdict), enforcer_text(verdict)),
                   names);
  }
}

// What an architecture or number range that no policy names ends in, if that is one and the same verdict.
void append_elsewhere(std::string& out, const policy::Enforcement& enforcement, const std::string& name,
                      uint32_t audit_arch, const std::vector<uint32_t>& numbers) {
  std::set<bpf::VerdictId> all;
  for (const uint32_t nr : numbers) all.merge(outlook(enforcement, audit_arch, nr).verdicts);
  if (all.size() == 1 && *all.begin() < enforcement.verdicts.size()) {
    const Verdict& verdict = enforcement.verdicts[*all.begin()];
    out +=
        fmt::format("  {}: {} ({}); {}\n", name, action_text(verdict), enforcer_text(verdict), rule_text(verdict.rule));
  } else if (!all.empty()) {
    out += fmt::format("  {}: by rules of its own\n", name);
  }
}

void append_other_calls(std::string& out, const policy::Enforcement& enforcement) {
  const uint32_t native = kernel::audit_arch(kernel::kNativeArch);
  const uint32_t unknown = kernel::first_unknown_number(kernel::kNativeArch);
  append_elsewhere(out, enforcement, fmt::format("numbers from {} on", unknown), native,
                   {unknown, unknown + 1, 0x3fffffff});
  if (kernel::kNativeArch == Arch::kX86_64)
    append_elsewhere(out, enforcement, "x32 calls", native,
                     {kernel::kX32Bit, kernel::kX32Bit | 39, kernel::kX32Bit | 520});
  for (const Arch arch : {Arch::kX86_64, Arch::kI386, Arch::kAArch64}) {
    // A kernel runs its own calls and, on x86-64, i386's; 32-bit ARM is in no table and falls under the last line.
    if (arch == kernel::kNativeArch || (kernel::kNativeArch == Arch::kX86_64) != (arch == Arch::kI386)) continue;
    std::vector<uint32_t> numbers;
    for (const kernel::Syscall& call : kernel::syscalls())
      if (const std::optional<uint32_t> nr = call.number(arch)) numbers.push_back(*nr);
    append_elsewhere(out, enforcement, fmt::format("{} calls", kernel::arch_name(arch)), kernel::audit_arch(arch),
                     numbers);
  }
  append_elsewhere(out, enforcement, "other architectures", 0, {0});
}

void append_environment(std::string& out, const policy::Enforcement& enforcement) {
  for (const policy::EnvironmentRules& rules : enforcement.environment) {
    const auto patterns = [](const std::vector<std::string>& list) {
      std::vector<std::string> shown;
      for (const std::string& one : list) shown.push_back(escape_for_terminal(one, 100));
      return shown;
    };
    if (!rules.drop.empty()) append_wrapped(out, "  dropped before the program starts:", patterns(rules.drop));
    if (!rules.keep.empty()) append_wrapped(out, "  kept all the same:", patterns(rules.keep));
    std::vector<std::string> names;
    for (const auto& [name, value] : rules.set) names.push_back(escape_for_terminal(name, 100));
    if (!names.empty()) append_wrapped(out, "  set:", names);
  }
}

}  // namespace

std::string check_report(const policy::Enforcement& enforcement, std::span<const std::string> launch_plan) {
  std::string out;
  append_layers(out, enforcement);
  append_native_calls(out, enforcement);
  append_other_calls(out, enforcement);
  if (!enforcement.environment.empty()) {
    out += "environment\n";
    append_environment(out, enforcement);
  }
  out += "not restricted:";
  for (size_t i = 0; i < enforcement.unrestricted.size(); ++i)
    out += (i == 0 ? " " : ", ") + escape_for_terminal(enforcement.unrestricted[i], 100);
  out += enforcement.unrestricted.empty() ? " nothing that a policy can name\n" : "\n";
  for (const std::string& warning : enforcement.warnings)
    out += "warning: " + escape_for_terminal(warning, 1000) + "\n";
  if (!enforcement.notes.empty()) out += "notes\n";
  for (const std::string& note : enforcement.notes) out += "  " + escape_for_terminal(note, 1000) + "\n";
  if (!launch_plan.empty()) out += "launch\n";
  for (const std::string& step : launch_plan) out += "  " + escape_for_terminal(step, 1000) + "\n";
  // Case 64: the one effect that surprises people who use sudo, ping or mount inside.
  out += "no_new_privs is set: set-user-ID programs and file capabilities gain no rights inside\n";
  return out;
}

}  // namespace srun::report
