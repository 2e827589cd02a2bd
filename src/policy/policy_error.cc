#include "policy/policy_error.h"

#include "base/text.h"

namespace srun::policy {

std::string PolicyError::text() const {
  std::string out = file;
  if (line != 0) out += ":" + std::to_string(line);
  if (!pointer.empty()) out += (out.empty() ? "" : " ") + pointer;
  if (!out.empty()) out += ": ";
  out += message;
  if (!suggestion.empty()) out += "; did you mean \"" + suggestion + "\"?";
  return escape_for_terminal(out);
}

}  // namespace srun::policy
