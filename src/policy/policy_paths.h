#pragma once
// Where policies are found and whom they must belong to (H16).
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/policy_error.h"

namespace srun::policy {

// A word with no slash that does not end in ".json" is a NAME, everything else a file.
bool is_policy_name(std::string_view word);

struct PolicyDirectories {
  std::vector<std::string> directories;  // in order of preference
  // The user's ($XDG_CONFIG_HOME or ~/.config)/sandbox-run/policies, then the installed one: the directory compiled in,
  // or, for an executable in a build tree, <its directory>/../../../policies. A directory that does not belong to root
  // or the effective user, or that others can write to, is left out. Reads the environment and /proc/self/exe.
  static PolicyDirectories of_this_process();
};

struct NamedPolicy {
  std::string name;
  std::string path;
};
// Every NAME that can be given, sorted, the preferred file for each.
std::vector<NamedPolicy> list_policies(const PolicyDirectories& directories);

struct PolicyText {
  std::string text;
  std::string path;     // for what it extends: relative files start at its directory
  uint64_t device = 0;  // with inode: the identity of the file
  uint64_t inode = 0;
};
// Errors name the remedy. The file must be regular, belong to root or the effective user and not be writable by others;
// its group may write if it is the caller's own. A symbolic link is followed: what it leads to is checked.
[[nodiscard]] Result<PolicyText, PolicyError> read_policy_file(const std::string& path);
// By NAME, never below the current directory.
[[nodiscard]] Result<PolicyText, PolicyError> read_policy_by_name(const std::string& name,
                                                                  const PolicyDirectories& directories);

}  // namespace srun::policy
