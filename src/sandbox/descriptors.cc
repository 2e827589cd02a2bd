#include "sandbox/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "base/unique_fd.h"

namespace srun::sandbox {
namespace {

std::optional<int> leading_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data() || value < 0) return std::nullopt;
  return value;
}

bool is_io_uring(int fd) {
  std::array<char, 64> target{};
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target.data(), target.size() - 1);
  return length > 0 &&
         std::string_view(target.data(), static_cast<size_t>(length)).find("[io_uring]") != std::string_view::npos;
}

}  // namespace

Result<std::vector<int>> take_inherited_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (opened < 0) return errno_failure(errno, "open", "/dev/null");
    if (opened != fd) {  // cannot happen: open(2) takes the lowest free number and all below are open
      UniqueFd surplus(opened);
      return failure(Error::from_text("descriptors", std::to_string(fd), "could not be occupied"));
    }
  }

  struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
  };
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir("/proc/self/fd"));
  if (!directory) return errno_failure(errno, "opendir", "/proc/self/fd", "sandbox-run needs /proc");
  std::vector<int> inherited;
  while (const dirent* entry = readdir(directory.get())) {
    const std::optional<int> fd = leading_number(entry->d_name);
    if (!fd || *fd <= 2 || *fd == dirfd(directory.get())) continue;
    const int flags = fcntl(*fd, F_GETFD);
    if (flags < 0) continue;
    // One that already is close-on-exec was not meant for the program.
    if ((flags & FD_CLOEXEC) == 0) inherited.push_back(*fd);
    if (fcntl(*fd, F_SETFD, FD_CLOEXEC) != 0) return errno_failure(errno, "fcntl(F_SETFD)", std::to_string(*fd));
  }
  std::sort(inherited.begin(), inherited.end());
  return inherited;
}

std::vector<int> jobserver_descriptors(std::string_view makeflags) {
  std::vector<int> numbers;
  for (const std::string_view option : {std::string_view("--jobserver-auth="), std::string_view("--jobserver-fds=")}) {
    // The last one counts: make appends, and a later one replaces an earlier one.
    const size_t at = makeflags.rfind(option);
    if (at == std::string_view::npos) continue;
    const std::string_view value = makeflags.substr(at + option.size());
    const size_t comma = value.find(',');
    const std::optional<int> read_end = leading_number(value);
    if (comma == std::string_view::npos || !read_end) continue;  // "fifo:PATH"
    const std::optional<int> write_end = leading_number(value.substr(comma + 1));
    if (!write_end) continue;
    numbers.push_back(*read_end);
    numbers.push_back(*write_end);
  }
  return numbers;
}

std::vector<int> descriptors_in_arguments(std::span<const std::string> arguments) {
  std::vector<int> numbers;
  for (const std::string& argument : arguments) {
    for (const std::string_view prefix : {std::string_view("/dev/fd/"), std::string_view("/proc/self/fd/")}) {
      for (size_t at = argument.find(prefix); at != std::string::npos; at = argument.find(prefix, at + 1)) {
        if (const std::optional<int> fd = leading_number(std::string_view(argument).substr(at + prefix.size())))
          numbers.push_back(*fd);
      }
    }
  }
  return numbers;
}

Result<std::vector<int>> kept_descriptors(std::span<const int> inherited, std::span<const std::string> arguments,
                                          std::string_view makeflags, std::span<const int> requested) {
  const auto open_at_start = [&](int fd) {
    return std::find(inherited.begin(), inherited.end(), fd) != inherited.end();
  };
  std::vector<int> kept;
  for (const int fd : requested) {
    if (fd > 2 && !open_at_start(fd))
      return failure(Error::from_text("--keep-fd", std::to_string(fd),
                                      "is not open here, or was marked close-on-exec by the caller"));
    if (fd > 2) kept.push_back(fd);
  }
  for (const int fd : jobserver_descriptors(makeflags))
    if (open_at_start(fd)) kept.push_back(fd);
  for (const int fd : descriptors_in_arguments(arguments))
    if (open_at_start(fd)) kept.push_back(fd);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const int fd : {0, 1, 2})
    if (is_io_uring(fd))
      return failure(Error::from_text("descriptor", std::to_string(fd),
                                      "is an io_uring ring, which passes every filter; close it first"));
  for (const int fd : kept)
    if (is_io_uring(fd))
      return failure(Error::from_text("descriptor", std::to_string(fd),
                                      "is an io_uring ring, which passes every filter; it can't be kept"));
  return kept;
}

}  // namespace srun::sandbox
