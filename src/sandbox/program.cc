#include "sandbox/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

namespace srun::sandbox {

Result<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.empty()) return errno_failure(ENOENT, "run", "(empty program name)");
  if (name.find('/') != std::string::npos) return name;
  bool found_unusable = false;
  std::string_view rest = path;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    // An empty element means the current directory (environ(7)).
    std::string candidate = directory.empty() ? "./" + name : std::string(directory) + "/" + name;
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
      found_unusable = true;
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (found_unusable) return errno_failure(EACCES, "run", name);
  return errno_failure(ENOENT, "run", name, "not found on PATH");
}

}  // namespace srun::sandbox
