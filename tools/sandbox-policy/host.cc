#include "sandbox-policy/host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "sandbox/capabilities.h"

namespace srun::tool {

Host this_host(kernel::Arch arch) {
  Host host;
  host.load.oci.arch = arch;
  host.lowering.arch = arch;
  Result<kernel::Features> features = kernel::probe_features({});
  if (!features) {
    complain(features.error().message());
    std::exit(125);
  }
  host.load.oci.kernel = features->kernel;
  if (arch != kernel::kNativeArch) return host;
  host.load.oci.capabilities = sandbox::capability_names(
      sandbox::target_capabilities(features->root, features->bounding_capabilities, features->effective_capabilities));
  host.lowering.signal_scope = features->signal_scope;
  host.lowering.landlock_domain = features->signal_scope;
  return host;
}

kernel::KernelVersion this_kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? kernel::parse_kernel_version(name.release) : kernel::KernelVersion{};
}

Result<LoadedStack, policy::PolicyError> load(const std::string& policies, const Host& host) {
  std::vector<std::string> names;
  if (policies.find(',') == std::string::npos || ::access(policies.c_str(), F_OK) == 0) {
    names.push_back(policies);
  } else {
    for (size_t at = 0; at <= policies.size();) {
      const size_t comma = std::min(policies.find(',', at), policies.size());
      names.push_back(policies.substr(at, comma - at));
      at = comma + 1;
    }
  }
  auto stack = policy::load_stack(names, {}, host.load);
  if (!stack) return failure(std::move(stack.error()));
  auto enforcement = policy::lower(*stack, host.lowering);
  if (!enforcement) return failure(std::move(enforcement.error()));
  return LoadedStack{std::move(*stack), std::move(*enforcement)};
}

void complain(std::string_view text) {
  const std::string line = "sandbox-policy: " + escape_for_terminal(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  complain(std::string("standard output: ") + std::strerror(errno));
  std::exit(125);
}

std::string wrapped(const std::vector<std::string>& words, std::string_view indent, std::string_view separator) {
  constexpr size_t kColumns = 100;
  std::string text;
  std::string line(indent);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? std::string(separator) : "");
    if (line.size() > indent.size() && line.size() + word.size() > kColumns) {
      while (line.ends_with(' ')) line.pop_back();
      text += line + "\n";
      line = indent;
    }
    line += word;
  }
  return text + line + "\n";
}

std::string rule_text(const policy::RuleRef& rule) {
  std::string text = rule.file;
  if (rule.line != 0) text += ":" + std::to_string(rule.line);
  if (!rule.pointer.empty()) text += " " + rule.pointer;
  return text;
}

std::string verdict_text(const policy::Verdict& verdict) {
  switch (verdict.action) {
    case policy::Action::kAllow:
      return "allow";
    case policy::Action::kLog:
      return "allow and record";
    case policy::Action::kReturn:
      return "return " + std::to_string(verdict.value) + " without executing it";
    case policy::Action::kErrno:
      return "errno " + errno_name(verdict.value);
    case policy::Action::kTrap:
      return "trap (SIGSYS)";
    case policy::Action::kKill:
      return "kill the process";
    case policy::Action::kCheck:
      break;
  }
  if (verdict.check == policy::Check::kFile) return "as the files section says of the object that is named";
  if (verdict.check == policy::Check::kNetwork) return "as the network section says of the address that is named";
  return "allow for processes of the run, refuse for others";
}

bool passes(const policy::Verdict& verdict) {
  return verdict.action == policy::Action::kAllow || verdict.action == policy::Action::kLog ||
         verdict.action == policy::Action::kCheck;
}

}  // namespace srun::tool
