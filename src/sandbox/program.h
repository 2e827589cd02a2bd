#pragma once
#include <string>

#include "base/error.h"

namespace srun::sandbox {

// The file that execve(2) shall get for `name`, by the rules of execvp(3) except its fall-back to a shell: a name with
// a slash as it is, else the first executable regular file on `path`. Error code ENOENT: not found (exit 127); EACCES:
// found but not executable (exit 126).
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace srun::sandbox
