#include "sandbox/launch_plan.h"

#include "base/text.h"
#include "sandbox/capabilities.h"
#include "sandbox/mounts.h"

namespace srun::sandbox {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

std::vector<std::string> LaunchPlan::describe() const {
  std::vector<std::string> lines;
  lines.push_back(
      "die with the supervisor (PDEATHSIG); guard and supervisor end the whole tree whichever of them is killed");
  if (!directory.empty()) lines.push_back("chdir " + escape_for_terminal(directory));
  if (private_mounts)
    lines.push_back("private mount namespace: " + count_of(masked_paths().size(), "path") +
                    " of /proc and /sys masked, " + std::to_string(read_only_paths().size()) + " read-only");
  if (user_namespace)
    lines.push_back("user namespace with a private mount namespace: files of other users are shown as nobody's");
  for (const policy::Mask& mask : masks)
    lines.push_back((mask.kind == policy::Mask::Kind::kDeny       ? "covered: "
                     : mask.kind == policy::Mask::Kind::kReadOnly ? "read-only: "
                                                                  : "with a text of its own: ") +
                    escape_for_terminal(mask.path));
  for (const std::string& path : control_mounts) lines.push_back("read-only there: " + escape_for_terminal(path));
  if (restrict_capabilities) lines.push_back("capabilities: only " + joined(capability_names(capabilities)));
  lines.push_back("no_new_privs: set-user-id programs and sudo gain no rights here");
  if (landlock.handled_fs != 0 || landlock.handled_net != 0)
    lines.push_back("Landlock domain: " + std::to_string(landlock.paths.size()) + " grants for paths, " +
                    std::to_string(landlock.ports.size()) +
                    " for ports; everything else of what it handles is refused");
  if (scope_signals) lines.push_back("Landlock domain: signals and ptrace reach only the sandbox's own processes");
  std::string descriptors = "descriptors: 0 1 2";
  for (const int fd : kept_descriptors) descriptors += " " + std::to_string(fd);
  lines.push_back(descriptors + "; all others closed");
  lines.push_back("seccomp filter: " + count_of(filter.size(), "instruction") + ", notification listener" +
                  (wait_killable ? ", killable wait" : ""));
  lines.push_back("execve " + escape_for_terminal(program) + " with " + count_of(arguments.size(), "argument") +
                  " and " + count_of(environment.size(), "variable"));
  return lines;
}

}  // namespace srun::sandbox
