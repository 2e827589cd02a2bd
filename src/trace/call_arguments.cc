#include "trace/call_arguments.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "kernel/remote_memory.h"

namespace srun::trace {
namespace {

std::string link_target(const char* format, pid_t tid, int fd) {
  char link[64];
  char buffer[PATH_MAX];
  if (fd >= 0)
    snprintf(link, sizeof link, "/proc/%d/fd/%d", tid, fd);
  else
    snprintf(link, sizeof link, format, tid);
  const ssize_t length = ::readlink(link, buffer, sizeof buffer);
  return length <= 0 ? std::string() : std::string(buffer, static_cast<size_t>(length));
}

// Without asking the file system: "." and ".." are taken away, symbolic links stay.
std::string tidy(const std::string& path) {
  std::vector<std::string_view> parts;
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(part);
    }
  }
  std::string out;
  for (const std::string_view part : parts) {
    out += '/';
    out += part;
  }
  return out.empty() ? "/" : out;
}

bool below(std::string_view path, std::string_view prefix) {
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.remove_suffix(1);
  return prefix == "/" || path == prefix ||
         (path.starts_with(prefix) && path.size() > prefix.size() && path[prefix.size()] == '/');
}

}  // namespace

bool changes_affinity(std::string_view call) {
  return call == "clone" || call == "clone3" || call == "fork" || call == "vfork" || call == "sched_getaffinity" ||
         call == "sched_setaffinity";
}

bool set_call_number(pid_t tid, int64_t number) {
#if defined(__x86_64__)
  return ::ptrace(PTRACE_POKEUSER, tid, offsetof(user_regs_struct, orig_rax), number) == 0;
#else
  int value = static_cast<int>(number);
  iovec vector{&value, sizeof value};
  return ::ptrace(PTRACE_SETREGSET, tid, 0x404 /* NT_ARM_SYSTEM_CALL */, &vector) == 0;
#endif
}

bool set_call_result(pid_t tid, int64_t result) {
#if defined(__x86_64__)
  return ::ptrace(PTRACE_POKEUSER, tid, offsetof(user_regs_struct, rax), result) == 0;
#else
  user_regs_struct registers{};
  iovec vector{&registers, sizeof registers};
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &vector) != 0) return false;
  registers.regs[0] = static_cast<unsigned long long>(result);
  vector = {&registers, sizeof registers};
  return ::ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &vector) == 0;
#endif
}

pid_t thread_group(pid_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", tid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tid;
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return tid;
  text[length] = 0;
  const char* const at = std::strstr(text, "\nTgid:");
  return at == nullptr ? tid : ::atoi(at + 6);
}

uint64_t call_cpu_ns(pid_t tid, uint64_t& last) {
  // schedstat counts user and system time in nanoseconds together; the clock ticks of stat are too coarse for one call.
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", tid, tid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[96];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const uint64_t now = std::strtoull(text, nullptr, 10);
  const uint64_t before = std::exchange(last, now);
  return before == 0 || now < before ? 0 : now - before;
}

bool call_touches(const Call& call, const std::vector<std::string>& paths, const std::vector<std::string>& prefixes) {
  if (call.row == nullptr) return false;
  const kernel::ArgList list = kernel::arguments(*call.row, kernel::kNativeArch);
  const auto matches = [&](const std::string& text, const std::string& absolute) {
    for (const std::string& path : paths)
      if (path == text) return true;
    for (const std::string& prefix : prefixes)
      if (!absolute.empty() && absolute.front() == '/' && below(absolute, prefix)) return true;
    return false;
  };
  int directory = AT_FDCWD;
  for (uint8_t i = 0; i < list.count; ++i) {
    const uint64_t value = call.args[i];
    switch (list.args[i].kind) {
      case kernel::ArgKind::kDirFd:
      case kernel::ArgKind::kFd: {
        const auto fd = static_cast<int>(value);
        if (list.args[i].kind == kernel::ArgKind::kDirFd) directory = fd;
        if (fd < 0) break;
        const std::string target = link_target("", call.tid, fd);
        if (!target.empty() && matches(target, target)) return true;
        break;
      }
      case kernel::ArgKind::kPath: {
        char buffer[PATH_MAX];
        std::string_view text;
        if (kernel::read_string(call.tid, value, buffer, text) != 0) break;
        std::string absolute(text);
        if (!prefixes.empty()) {
          if (!absolute.starts_with('/'))
            absolute = (directory == AT_FDCWD ? link_target("/proc/%d/cwd", call.tid, -1)
                                              : link_target("", call.tid, directory)) +
                       "/" + absolute;
          absolute = tidy(absolute);
        }
        if (matches(std::string(text), absolute)) return true;
        directory = AT_FDCWD;
        break;
      }
      default:
        break;
    }
  }
  return false;
}

}  // namespace srun::trace
