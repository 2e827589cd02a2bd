#pragma once
// What sandbox-run would find on this host, and the policies as it would load them.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/features.h"
#include "policy/loader.h"
#include "policy/lowering.h"

namespace srun::tool {

struct Host {
  policy::LoadOptions load;
  policy::LoweringOptions lowering;
};
// As sandbox-run without options does on this host. `arch`: for another processor than this one nothing is probed but
// the kernel version, and all protections are taken for present.
Host this_host(kernel::Arch arch = kernel::kNativeArch);

// The running kernel's version; nothing else is probed.
kernel::KernelVersion this_kernel();

struct LoadedStack {
  policy::PolicyStack stack;
  policy::Enforcement enforcement;
};
// "a,b" is the stack of a and b, unless there is a file of that name.
[[nodiscard]] Result<LoadedStack, policy::PolicyError> load(const std::string& policies, const Host& host);

// "sandbox-policy: text" on standard error, one line, hostile bytes escaped.
void complain(std::string_view text);
// Standard output; what cannot be written ends the program with 125, as a cut answer would mislead.
void print(std::string_view text);

// Words as lines of at most 100 columns, each behind `indent`.
std::string wrapped(const std::vector<std::string>& words, std::string_view indent, std::string_view separator = ", ");

// "docker-default:64 #/syscalls/12" or "(guard layer) mount".
std::string rule_text(const policy::RuleRef& rule);
// "allow", "errno EPERM", "return 0", "kill the process" …
std::string verdict_text(const policy::Verdict& verdict);
// True if the call is executed, or may be after a check.
bool passes(const policy::Verdict& verdict);

}  // namespace srun::tool
