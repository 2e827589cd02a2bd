#include <map>

#include "base/text.h"
#include "policy/catalog.h"
#include "policy/guard.h"
#include "sandbox-policy/commands.h"
#include "sandbox-policy/evaluate.h"
#include "sandbox-policy/host.h"

namespace srun::tool {
namespace {

int show_group(const std::string& name) {
  const auto group = kernel::find_group(name);
  if (!group) {
    const std::string near = policy::nearest_group(name);
    complain("unknown group " + name + (near.empty() ? "" : "; did you mean " + near + "?"));
    return kBadPolicy;
  }
  std::vector<std::string> names;
  for (const kernel::Syscall& call : kernel::syscalls())
    if (kernel::in_group(call, *group)) names.emplace_back(call.name);
  print(name + ": " + std::string(kernel::groups()[*group].description) + "; " + count_of(names.size(), "call") + "\n" +
        wrapped(names, "  "));
  return kFine;
}

int show_guard() {
  for (const policy::GuardPart& part : policy::guard_parts())
    print(std::string(part.name) + (part.liftable ? "" : " (cannot be lifted)") + "\n    " + std::string(part.reason) +
          "\n");
  return kFine;
}

int show_text(const std::string& what) {
  if (what == "none") return show_guard();
  const auto text = policy::is_policy_name(what)
                        ? policy::read_policy_by_name(what, policy::PolicyDirectories::of_this_process())
                        : policy::read_policy_file(what);
  if (!text) {
    complain(text.error().text());
    return kBadPolicy;
  }
  print(text->text);
  return kFine;
}

std::string ruled(const policy::Verdict& verdict) {
  return verdict_text(verdict) + "  [" + escape_for_terminal(rule_text(verdict.rule)) + "]";
}

// The layers' rules for one call, each layer that has something to say.
std::string conditional_text(const policy::Enforcement& enforcement, uint32_t audit, uint32_t number) {
  std::string text;
  for (const bpf::Layer& layer : enforcement.rules) {
    const std::vector<Candidate> possible = candidates(layer, audit, number, {});
    for (const Candidate& entry : possible) {
      const policy::Verdict& verdict = enforcement.verdicts[entry.verdict];
      if (possible.size() == 1 && verdict.action == policy::Action::kAllow) continue;
      text += "    " +
              (entry.rule == nullptr ? std::string(possible.size() == 1 ? "always" : "else")
                                     : conditions_text(entry.rule->all_of)) +
              ": " + ruled(verdict) + "\n";
    }
  }
  return text;
}

int show_effective(const std::string& what, kernel::Arch arch) {
  const auto loaded = load(what, this_host(arch));
  if (!loaded) {
    complain(loaded.error().text());
    return kBadPolicy;
  }
  const policy::Enforcement& enforcement = loaded->enforcement;
  const uint32_t audit = kernel::audit_arch(arch);
  std::map<std::string, std::vector<std::string>> settled;
  std::string conditional;
  size_t conditional_count = 0;
  for (const kernel::Syscall& call : kernel::syscalls()) {
    const auto number = call.number(arch);
    if (!number) continue;
    if (const auto verdict = certain_verdict(enforcement, audit, *number, {})) {
      settled[verdict_text(enforcement.verdicts[*verdict])].emplace_back(call.name);
    } else {
      ++conditional_count;
      conditional += "  " + std::string(call.name) + "\n" + conditional_text(enforcement, audit, *number);
    }
  }
  std::string text = escape_for_terminal(what) + " on " + std::string(kernel::arch_name(arch)) + "\n";
  for (const policy::LayerInfo& layer : enforcement.layers)
    text += "  layer " + escape_for_terminal(layer.name) + (layer.oci ? " (OCI profile)" : "") + "\n";
  for (const auto& [verdict, names] : settled)
    text += "\n" + verdict + ": " + count_of(names.size(), "call") + "\n" + wrapped(names, "  ");
  if (conditional_count != 0) text += "\nby arguments: " + count_of(conditional_count, "call") + "\n" + conditional;

  const auto others = [&](const std::string& label, uint32_t other_audit, uint32_t number) {
    if (const auto verdict = certain_verdict(enforcement, other_audit, number, {}))
      text += "  " + label + ": " + ruled(enforcement.verdicts[*verdict]) + "\n";
  };
  text += "\nanything else\n";
  others("number " + std::to_string(kernel::first_unknown_number(arch)) + " and above", audit, kernel::kX32Bit - 1);
  if (arch == kernel::Arch::kX86_64) {
    others("x32 calls", audit, kernel::kX32Bit);
    others("i386 calls", kernel::kAuditI386, 0);
  }
  for (const std::string& warning : enforcement.warnings) text += "\nwarning: " + escape_for_terminal(warning) + "\n";
  if (!enforcement.notes.empty()) text += "\nnotes\n";
  for (const std::string& note : enforcement.notes) text += "  " + escape_for_terminal(note) + "\n";
  print(text);
  return kFine;
}

}  // namespace

int show(const std::string& what, bool effective, kernel::Arch arch) {
  if (what.starts_with('@')) return show_group(what);
  return effective ? show_effective(what, arch) : show_text(what);
}

}  // namespace srun::tool
