#include "sandbox/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace srun::sandbox {
namespace {

// runtime-spec defaults of Docker (oci/defaults.go), plus the ways to configure the kernel that it leaves to other parts.
constexpr const char* kMasked[] = {
    "/proc/acpi",        "/proc/asound",    "/proc/interrupts",  "/proc/kcore",       "/proc/keys",
    "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",      "/proc/timer_list",  "/proc/timer_stats",
    "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security",
};
constexpr const char* kReadOnly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"};

}  // namespace

std::span<const char* const> masked_paths() { return kMasked; }
std::span<const char* const> read_only_paths() { return kReadOnly; }

int enter_private_mounts(const char** failed_path) {
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
    struct mount_attr_v0 {
      uint64_t attr_set, attr_clr, propagation, userns_fd;
    } attributes{0x1 /* MOUNT_ATTR_RDONLY */, 0, 0, 0};
    // Recursively, so that a cgroup or other tree mounted below /sys becomes read-only too (mount_setattr(2), Linux 5.12).
    if (syscall(442 /* SYS_mount_setattr */, AT_FDCWD, path, 0x8000 /* AT_RECURSIVE */, &attributes, sizeof attributes) != 0) {
      // Older kernels: the mount itself at least.
      if (errno != ENOSYS || mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
        *failed_path = path;
        return errno;
      }
    }
  }
  for (const char* path : kMasked) {
    struct stat status {};
    if (stat(path, &status) != 0) continue;
    const bool directory = S_ISDIR(status.st_mode);
    const int result = directory ? mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=0k,mode=755")
                                 : mount("/dev/null", path, nullptr, MS_BIND, nullptr);
    if (result != 0) {
      *failed_path = path;
      return errno;
    }
  }
  return 0;
}

}  // namespace srun::sandbox
