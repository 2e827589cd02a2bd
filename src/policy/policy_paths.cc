#include "policy/policy_paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/scope_exit.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "policy/json_document.h"

namespace srun::policy {

namespace {

constexpr std::string_view kSuffix = ".json";

PolicyError file_error(const std::string& path, std::string message) {
  return PolicyError{path, 0, {}, std::move(message), {}};
}

bool trusted_owner(const struct stat& status) { return status.st_uid == 0 || status.st_uid == ::geteuid(); }
// A group that is the caller's own alone is common (umask 002), so its members are trusted as far as the caller is.
bool others_can_write(const struct stat& status) {
  return (status.st_mode & S_IWOTH) != 0 || ((status.st_mode & S_IWGRP) != 0 && status.st_gid != ::getegid());
}

bool trusted_directory(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && trusted_owner(status) &&
         !others_can_write(status);
}

std::optional<std::string> user_directory() {
  // An unset or relative value is to be ignored, says the XDG base directory specification.
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && config[0] == '/') {
    return std::string(config) + "/sandbox-run/policies";
  }
  std::string home;
  if (const char* variable = std::getenv("HOME"); variable != nullptr && variable[0] == '/') {
    home = variable;
  } else if (const struct passwd* entry = ::getpwuid(::geteuid()); entry != nullptr && entry->pw_dir != nullptr) {
    home = entry->pw_dir;
  }
  if (home.empty()) return std::nullopt;
  return home + "/.config/sandbox-run/policies";
}

// <directory of the executable>/../../../policies, for build/<preset>/bin/sandbox-run; nullopt: /proc is not there.
std::optional<std::string> source_directory() {
  std::array<char, 4096> buffer;
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length <= 0 || static_cast<size_t>(length) == buffer.size()) return std::nullopt;
  std::string path(buffer.data(), static_cast<size_t>(length));
  for (int level = 0; level < 4; ++level) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return std::nullopt;
    path.resize(slash);
  }
  return path + "/policies";
}

}  // namespace

bool is_policy_name(std::string_view word) {
  return word.find('/') == std::string_view::npos && !word.ends_with(kSuffix);
}

PolicyDirectories PolicyDirectories::of_this_process() {
  PolicyDirectories out;
  const auto add = [&out](const std::optional<std::string>& path) {
    if (path && trusted_directory(*path)) out.directories.push_back(*path);
  };
  add(user_directory());
  add(std::string(SANDBOX_RUN_INSTALLED_POLICIES));
  add(source_directory());
  return out;
}

std::vector<NamedPolicy> list_policies(const PolicyDirectories& directories) {
  std::vector<NamedPolicy> out;
  for (const std::string& directory : directories.directories) {
    DIR* stream = ::opendir(directory.c_str());
    if (stream == nullptr) continue;  // gone since it was checked: it has no policies
    const ScopeExit close([stream] { ::closedir(stream); });
    while (const struct dirent* entry = ::readdir(stream)) {
      const std::string_view file = entry->d_name;
      if (!file.ends_with(kSuffix) || file.size() == kSuffix.size()) continue;
      const std::string name(file.substr(0, file.size() - kSuffix.size()));
      const bool known =
          std::any_of(out.begin(), out.end(), [&name](const NamedPolicy& row) { return row.name == name; });
      if (!known) out.push_back({name, directory + "/" + std::string(file)});
    }
  }
  std::sort(out.begin(), out.end(), [](const NamedPolicy& a, const NamedPolicy& b) { return a.name < b.name; });
  return out;
}

Result<PolicyText, PolicyError> read_policy_file(const std::string& path) {
  // Non-blocking and no terminal: the path may lead to a FIFO or a tty, which is refused once it is known.
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (!fd) {
    const int error_number = errno;
    return failure(file_error(path, std::string("cannot be opened: ") + std::strerror(error_number)));
  }
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) {
    const int error_number = errno;
    return failure(file_error(path, std::string("cannot be examined: ") + std::strerror(error_number)));
  }
  if (!S_ISREG(status.st_mode)) return failure(file_error(path, "is not a regular file"));
  if (!trusted_owner(status)) {
    return failure(file_error(path, "belongs to user " + std::to_string(status.st_uid) +
                                        ", who could change it; a policy belongs to root or to you: copy it"));
  }
  if (others_can_write(status)) {
    return failure(file_error(path, "can be changed by other users; chmod go-w " + path));
  }
  PolicyText out;
  out.path = path;
  out.device = status.st_dev;
  out.inode = status.st_ino;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) {
      const int error_number = errno;
      if (error_number == EINTR) continue;
      return failure(file_error(path, std::string("cannot be read: ") + std::strerror(error_number)));
    }
    if (count == 0) return out;
    out.text.append(buffer.data(), static_cast<size_t>(count));
    if (out.text.size() > kMaxDocumentBytes) {
      return failure(file_error(path, "is larger than " + std::to_string(kMaxDocumentBytes) + " bytes"));
    }
  }
}

Result<PolicyText, PolicyError> read_policy_by_name(const std::string& name, const PolicyDirectories& directories) {
  std::string searched;
  for (const std::string& directory : directories.directories) {
    const std::string path = directory + "/" + name + std::string(kSuffix);
    // Only a name that is not there goes on to the next directory: one that is there and bad must not be replaced by
    // another policy of the same name.
    if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return read_policy_file(path);
    searched += (searched.empty() ? "" : ", ") + directory;
  }
  std::vector<std::string_view> names;
  const std::vector<NamedPolicy> known = list_policies(directories);
  for (const NamedPolicy& row : known) names.push_back(row.name);
  return failure(PolicyError{{},
                             0,
                             {},
                             "no policy is called \"" + name + "\"" +
                                 (searched.empty() ? ": no directory of policies is installed" : " in " + searched) +
                                 "; a file is given with a slash or as NAME.json",
                             std::string(nearest_name(name, names))});
}

}  // namespace srun::policy
