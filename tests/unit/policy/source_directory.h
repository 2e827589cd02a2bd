#pragma once
#include <cstdlib>
#include <string>

namespace srun::policy::test {

// The checkout, or the copy of it that an unprivileged user can reach (tests/support/as_user.py moves the variable).
inline std::string source_directory() {
  const char* moved = std::getenv("SANDBOX_RUN_SOURCE_DIR");
  return moved != nullptr && *moved != '\0' ? moved : SANDBOX_RUN_SOURCE_DIR;
}

}  // namespace srun::policy::test
