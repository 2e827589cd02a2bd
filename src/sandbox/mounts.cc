#include "sandbox/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace srun::sandbox {
namespace {

// runtime-spec defaults of Docker (oci/defaults.go), plus the ways to configure the kernel that it leaves to other
// parts.
constexpr const char* kMasked[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security",
};
constexpr const char* kReadOnly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"};

// File systems whose files configure the kernel, with no check but the owner's permissions on some of them.
constexpr std::array<std::string_view, 13> kControlTypes = {
    "proc",     "sysfs",       "cgroup",   "cgroup2",   "debugfs", "tracefs", "securityfs",
    "configfs", "binfmt_misc", "efivarfs", "selinuxfs", "pstore",  "fusectl"};

// mountinfo writes blanks, backslashes and line ends as \ooo (proc_pid_mountinfo(5)).
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

// Read-only, with whatever is mounted below it (mount_setattr(2), Linux 5.12; before that the mount itself at least).
bool make_read_only(const char* path) {
  struct mount_attr_v0 {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
  } attributes{0x1 /* MOUNT_ATTR_RDONLY */, 0, 0, 0};
  if (syscall(442 /* SYS_mount_setattr */, AT_FDCWD, path, 0x8000 /* AT_RECURSIVE */, &attributes, sizeof attributes) ==
      0)
    return true;
  return errno == ENOSYS && mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

// What the host mounts there later would come writable and unmasked: binfmt_misc by its automount, for one.
bool receive_nothing(const char* path) { return mount(nullptr, path, nullptr, MS_REC | MS_PRIVATE, nullptr) == 0; }

}  // namespace

std::span<const char* const> masked_paths() { return kMasked; }
std::span<const char* const> read_only_paths() { return kReadOnly; }

std::vector<std::string> control_mounts_elsewhere(std::string_view mountinfo) {
  std::vector<std::string> found;
  while (!mountinfo.empty()) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(mountinfo.size(), line.size() + 1));
    // "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS"
    size_t at = 0;
    for (int field = 0; field < 4 && at != std::string_view::npos; ++field) {
      at = line.find(' ', at);
      if (at != std::string_view::npos) ++at;
    }
    const size_t dash = line.find(" - ");
    if (at == std::string_view::npos || dash == std::string_view::npos || dash < at) continue;
    const std::string_view type = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
    std::string point = unescaped(line.substr(at, line.find(' ', at) - at));
    if (std::find(kControlTypes.begin(), kControlTypes.end(), type) == kControlTypes.end()) continue;
    if (!is_below(point, "/proc") && !is_below(point, "/sys")) found.push_back(std::move(point));
  }
  return found;
}

int enter_private_mounts(std::span<const std::string> elsewhere, const char** failed_path) {
  *failed_path = nullptr;
  if (unshare(CLONE_NEWNS) != 0) return errno;
  // Slave, not private: mounts that the host makes later still appear, nothing of ours goes out.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return errno;
  for (const char* path : kReadOnly) {
    if (mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) continue;
      *failed_path = path;
      return errno;
    }
    // Recursively: a control group or other tree is mounted below /sys.
    if (!make_read_only(path) || !receive_nothing(path)) {
      *failed_path = path;
      return errno;
    }
  }
  for (const std::string& path : elsewhere) {
    if (make_read_only(path.c_str()) && receive_nothing(path.c_str())) continue;
    // Covered by another mount, or unmounted since the list was made: it can't be reached by that path either.
    if (errno == ENOENT || errno == ENOTDIR || errno == EINVAL) continue;
    *failed_path = path.c_str();
    return errno;
  }
  for (const char* path : kMasked) {
    struct stat status {};
    if (stat(path, &status) != 0) continue;
    const bool directory = S_ISDIR(status.st_mode);
    const int result =
        directory ? mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=0k,mode=755")
                  : mount("/dev/null", path, nullptr, MS_BIND, nullptr);
    if (result != 0 || !receive_nothing(path)) {
      *failed_path = path;
      return errno;
    }
  }
  return 0;
}

}  // namespace srun::sandbox
