#include "policy/sibling_warnings.h"

#include <algorithm>
#include <array>
#include <span>

#include "policy/defaults.h"
#include "policy/policy_error.h"

namespace srun::policy {

namespace {

// Calls that do the same by another name. Not every relative: only those that make the refusal of one pointless.
using Family = std::array<std::string_view, 7>;
constexpr std::array<Family, 27> kFamilies = {{
    {"open", "openat", "openat2", "creat"},
    {"fork", "vfork", "clone"},
    {"execve", "execveat"},
    {"unlink", "unlinkat"},
    {"rmdir", "unlinkat"},
    {"rename", "renameat", "renameat2"},
    {"link", "linkat"},
    {"symlink", "symlinkat"},
    {"mkdir", "mkdirat"},
    {"mknod", "mknodat"},
    {"chmod", "fchmod", "fchmodat", "fchmodat2"},
    {"chown", "lchown", "fchown", "fchownat"},
    {"stat", "lstat", "fstat", "newfstatat", "statx"},
    {"access", "faccessat", "faccessat2"},
    {"readlink", "readlinkat"},
    {"utime", "utimes", "futimesat", "utimensat"},
    {"truncate", "ftruncate"},
    {"setxattr", "lsetxattr", "fsetxattr", "setxattrat"},
    {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"},
    {"send", "sendto", "sendmsg", "sendmmsg"},
    {"recv", "recvfrom", "recvmsg", "recvmmsg"},
    {"accept", "accept4"},
    {"pipe", "pipe2"},
    {"setrlimit", "prlimit64"},
    {"chdir", "fchdir"},
    {"mount", "move_mount", "fsmount", "open_tree"},
    {"init_module", "finit_module"},
}};

bool refuses(Action action) { return action != Action::kAllow && action != Action::kLog; }

// True if the call passes at least under some arguments.
bool can_pass(const Policy& policy, const kernel::Syscall& call) {
  for (const Rule& rule : policy.rules) {
    const bool named =
        std::any_of(rule.calls.begin(), rule.calls.end(), [&](const RuleCall& entry) { return entry.call == &call; });
    if (!named) continue;
    if (!refuses(rule.action.action)) return true;
    if (rule.when.empty()) return false;
  }
  return !refuses(default_verdict(policy, 1, &call).action);
}

// Only unconditional refusals are claims that a whole act is impossible.
std::string open_siblings(const Policy& policy, const Rule& rule, const kernel::Syscall& call) {
  std::string open;
  for (const Family& family : kFamilies) {
    if (std::find(family.begin(), family.end(), call.name) == family.end()) continue;
    for (const std::string_view name : family) {
      const kernel::Syscall* sibling = name.empty() ? nullptr : kernel::find_syscall(name);
      if (sibling == nullptr || sibling == &call || !sibling->number(kernel::kNativeArch)) continue;
      const bool in_rule = std::any_of(rule.calls.begin(), rule.calls.end(),
                                       [&](const RuleCall& entry) { return entry.call == sibling; });
      if (!in_rule && can_pass(policy, *sibling)) open += (open.empty() ? "" : ", ") + std::string(name);
    }
  }
  return open;
}

}  // namespace

std::vector<std::string> sibling_warnings(const Policy& policy) {
  std::vector<std::string> warnings;
  for (const Rule& rule : policy.rules) {
    if (!refuses(rule.action.action) || !rule.when.empty()) continue;
    for (const RuleCall& entry : rule.calls) {
      if (!entry.by_name || !entry.call->number(kernel::kNativeArch)) continue;
      const std::string open = open_siblings(policy, rule, *entry.call);
      if (open.empty()) continue;
      warnings.push_back(PolicyError{
          rule.place.file,
          rule.place.line,
          rule.place.pointer,
          std::string(entry.call->name) + " is refused, but " + open + " can do the same",
          {}}.text());
    }
  }
  return warnings;
}

}  // namespace srun::policy
