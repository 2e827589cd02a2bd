#pragma once
#include <cerrno>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace srun {

// What failed, in the three parts a message needs. `code` is an errno, or 0 where no system call is to blame.
// Rooms below cli return errors and neither log them nor exit.
struct Error {
  int code = 0;
  std::string operation;  // "open", "seccomp(SECCOMP_SET_MODE_FILTER)"
  std::string subject;    // the path, policy or process it was about; may be empty
  std::string detail;     // more than strerror can say: the remedy, the host's mechanism; may be empty

  // Takes the errno as an argument so that it is captured at once after the failing call.
  static Error from_errno(int error_number, std::string operation, std::string subject = {}, std::string detail = {});
  static Error from_text(std::string operation, std::string subject, std::string detail);

  // "open policies/x.json: No such file or directory (detail)"; one line, hostile bytes of the subject escaped.
  std::string message() const;
};

template <typename T, typename E = Error>
using Result = tl::expected<T, E>;

template <typename E>
tl::unexpected<std::decay_t<E>> failure(E&& error) {
  return tl::unexpected<std::decay_t<E>>(std::forward<E>(error));
}

inline tl::unexpected<Error> errno_failure(int error_number, std::string operation, std::string subject = {},
                                           std::string detail = {}) {
  return failure(Error::from_errno(error_number, std::move(operation), std::move(subject), std::move(detail)));
}

// "EPERM" for 1; "errno 4000" for a number that has no name.
std::string errno_name(int error_number);

}  // namespace srun
