#include "sandbox/landlock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "kernel/sys.h"

namespace srun::sandbox {
namespace {

bool is_below(std::string_view path, std::string_view top) {
  return top == "/" || path == top || (path.starts_with(top) && path[top.size()] == '/');
}

// Grants `rights` on everything below `path` but for `except`. Symbolic links are not followed: what they lead to is
// granted by where it is.
Result<void> grant(BorrowedFd ruleset, const std::string& path, const policy::LandlockPlan::PathGrant& plan) {
  bool whole = true;
  for (const std::string& taken : plan.except) {
    if (is_below(path, taken)) return {};
    whole = whole && !is_below(taken, path);
  }
  const UniqueFd object(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  // Gone meanwhile, or not to be looked at: not granted.
  if (!object || fstat(object.get(), &status) != 0 || S_ISLNK(status.st_mode)) return {};
  if (whole) return kernel::landlock_grant(ruleset, object.borrow(), S_ISDIR(status.st_mode), path, plan.rights);
  if (!S_ISDIR(status.st_mode)) return {};
  const std::unique_ptr<DIR, decltype([](DIR* directory) { closedir(directory); })> directory(opendir(path.c_str()));
  if (!directory) return {};
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    const Result<void> granted = grant(ruleset, (path == "/" ? "/" : path + "/") + entry->d_name, plan);
    if (!granted) return granted;
  }
  return {};
}

}  // namespace

Result<UniqueFd> make_ruleset(const policy::LandlockPlan& plan, uint64_t scopes) {
  Result<UniqueFd> ruleset = kernel::landlock_ruleset(plan.handled_fs, plan.handled_net, plan.scoped | scopes);
  if (!ruleset) return ruleset;
  for (const policy::LandlockPlan::PathGrant& entry : plan.paths) {
    const Result<void> granted = grant(ruleset->borrow(), entry.path, entry);
    if (!granted) return failure(granted.error());
  }
  for (const policy::LandlockPlan::PortGrant& entry : plan.ports) {
    const Result<void> granted = kernel::landlock_grant_port(ruleset->borrow(), entry.port, entry.rights);
    if (!granted) return failure(granted.error());
  }
  return ruleset;
}

}  // namespace srun::sandbox
