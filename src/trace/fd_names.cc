#include "trace/fd_names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string_view>

#include "trace/put.h"

namespace srun::trace {
namespace {

std::string_view read_link(const char* link, char (&buffer)[PATH_MAX + 1]) {
  const ssize_t length = ::readlink(link, buffer, PATH_MAX);
  return length <= 0 ? std::string_view() : std::string_view(buffer, static_cast<size_t>(length));
}

void put_name(std::string& out, std::string_view target, bool device_follows) {
  constexpr std::string_view kDeleted = " (deleted)";
  const bool deleted = target.starts_with('/') && target.ends_with(kDeleted);
  if (deleted) target.remove_suffix(kDeleted.size());
  out += '<';
  put_annotation(out, target);
  if (!device_follows) out += '>';
  if (deleted) out += "(deleted)";
}

}  // namespace

void put_fd_name(std::string& out, pid_t tid, int fd, bool details) {
  char link[64];
  char buffer[PATH_MAX + 1];
  snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, fd);
  const std::string_view target = read_link(link, buffer);
  if (target.empty()) return;
  struct stat st{};
  if (details && target.starts_with('/') && ::stat(link, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) {
    put_name(out, target, true);
    out += S_ISCHR(st.st_mode) ? "<char " : "<block ";
    put_unsigned(out, major(st.st_rdev));
    out += ':';
    put_unsigned(out, minor(st.st_rdev));
    out += ">>";
    return;
  }
  put_name(out, target, false);
}

void put_directory_name(std::string& out, pid_t tid) {
  char link[64];
  char buffer[PATH_MAX + 1];
  snprintf(link, sizeof link, "/proc/%d/cwd", tid);
  const std::string_view target = read_link(link, buffer);
  if (!target.empty()) put_name(out, target, false);
}

}  // namespace srun::trace
