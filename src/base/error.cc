#include "base/error.h"

#include <cstring>

#include "base/text.h"

namespace srun {

Error Error::from_errno(int error_number, std::string operation, std::string subject, std::string detail) {
  return Error{error_number, std::move(operation), std::move(subject), std::move(detail)};
}

Error Error::from_text(std::string operation, std::string subject, std::string detail) {
  return Error{0, std::move(operation), std::move(subject), std::move(detail)};
}

std::string Error::message() const {
  std::string text = operation;
  // The subject is often a path, so bytes that somebody else chose (I9).
  if (!subject.empty()) text += (text.empty() ? "" : " ") + escape_for_terminal(subject);
  if (code != 0) {
    if (!text.empty()) text += ": ";
    text += strerrordesc_np(code) ? strerrordesc_np(code) : errno_name(code).c_str();
    if (!detail.empty()) text += " (" + detail + ")";
  } else if (!detail.empty()) {
    if (!text.empty()) text += ": ";
    text += detail;
  }
  return text;
}

std::string errno_name(int error_number) {
  const char* name = strerrorname_np(error_number);  // glibc 2.32
  return name != nullptr ? std::string(name) : "errno " + std::to_string(error_number);
}

}  // namespace srun
