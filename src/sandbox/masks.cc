#include "sandbox/masks.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace srun::sandbox {
namespace {

// Numbers and constants of linux/mount.h, the same on every architecture; glibc 2.36 declares them, older ones do not.
constexpr long kOpenTree = 428, kMoveMount = 429, kFsopen = 430, kFsconfig = 431, kFsmount = 432, kMountSetattr = 442;
constexpr unsigned kTreeClone = 1, kTreeCloexec = O_CLOEXEC, kRecursive = 0x8000, kNoFollow = 0x100,
                   kEmptyPath = 0x1000;
constexpr unsigned kMoveFromDescriptor = 4;  // MOVE_MOUNT_F_EMPTY_PATH; a link at the end of the target is not followed
constexpr uint64_t kReadOnly = 1, kNoSuid = 2, kNoDev = 4, kNoExec = 8;

struct mount_attr_v0 {
  uint64_t attr_set = 0, attr_clr = 0, propagation = 0, userns_fd = 0;
};

int set_read_only(int mount_fd) {
  mount_attr_v0 attributes;
  attributes.attr_set = kReadOnly;
  return syscall(kMountSetattr, mount_fd, "", kEmptyPath | kRecursive, &attributes, sizeof attributes) == 0 ? 0 : errno;
}

int clone_tree(int directory, const char* path) {
  return static_cast<int>(syscall(kOpenTree, directory, path, kTreeClone | kTreeCloexec | kRecursive | kNoFollow));
}

int attach(int tree, const char* path) {
  return syscall(kMoveMount, tree, "", AT_FDCWD, path, kMoveFromDescriptor) == 0 ? 0 : errno;
}

// A file system with a file that can't be opened and a directory that can't be entered; nothing can be changed in it.
// `content`: one more, with this text; null: none.
int make_masks(const std::string* content, int (&trees)[3]) {
  const int context = static_cast<int>(syscall(kFsopen, "tmpfs", 1u /* FSOPEN_CLOEXEC */));
  if (context < 0) return errno;
  int error = 0;
  if (syscall(kFsconfig, context, 1 /* FSCONFIG_SET_STRING */, "mode", "755", 0) != 0 ||
      syscall(kFsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, nullptr, nullptr, 0) != 0)
    error = errno;
  const int mount_fd = error == 0 ? static_cast<int>(syscall(kFsmount, context, 1u, kNoSuid | kNoDev | kNoExec)) : -1;
  if (error == 0 && mount_fd < 0) error = errno;
  close(context);
  if (error != 0) return error;
  // Device 0:0 needs no CAP_MKNOD (Linux 5.8).
  if (mknodat(mount_fd, "file", S_IFCHR, 0) != 0 || mkdirat(mount_fd, "directory", 0) != 0) error = errno;
  if (error == 0 && content != nullptr) {
    const int fd = openat(mount_fd, "content", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || fchmod(fd, 0644) != 0 ||
        write(fd, content->data(), content->size()) != static_cast<ssize_t>(content->size()))
      error = errno != 0 ? errno : EIO;
    if (fd >= 0) close(fd);
  }
  // A detached mount can't be cloned before Linux 6.15: it is attached somewhere for a moment, in our own namespace.
  if (error == 0) {
    error = ENOENT;
    for (const char* const place : {"/tmp", "/run", "/var", "/usr"}) {
      if ((error = attach(mount_fd, place)) != 0) continue;
      const char* const names[] = {"file", "directory", "content"};
      for (int i = 0; i < (content != nullptr ? 3 : 2); ++i)
        if ((trees[i] = clone_tree(mount_fd, names[i])) < 0) error = errno;
      if (umount2(place, MNT_DETACH) != 0) error = errno;
      break;
    }
  }
  close(mount_fd);
  for (const int tree : trees)
    if (error == 0 && tree >= 0) error = set_read_only(tree);
  return error;
}

int write_file(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const ssize_t size = write(fd, text, std::strlen(text));
  const int error = size < 0 ? errno : 0;
  close(fd);
  return error;
}

}  // namespace

int enter_user_namespace(uid_t uid, gid_t gid) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return errno;
  // Made undumpable by the change of credentials, a process may not write its own maps.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return errno;
  char text[48];
  if (const int error = write_file("/proc/self/setgroups", "deny"); error != 0 && error != ENOENT) return error;
  std::snprintf(text, sizeof text, "%u %u 1\n", uid, uid);
  if (const int error = write_file("/proc/self/uid_map", text)) return error;
  std::snprintf(text, sizeof text, "%u %u 1\n", gid, gid);
  return write_file("/proc/self/gid_map", text);
}

int cover_paths(std::span<const policy::Mask> masks, const char** failed_path) {
  *failed_path = nullptr;
  int error = 0;
  const char* covered[3] = {nullptr, nullptr,
                            nullptr};  // a place of each kind that is covered already: the next are its clones
  int trees[3] = {-1, -1, -1};
  const std::string* content = nullptr;
  for (const policy::Mask& mask : masks)
    if (mask.kind == policy::Mask::Kind::kContent) content = &mask.content;
  for (const policy::Mask& mask : masks) {
    int tree = -1;
    if (mask.kind == policy::Mask::Kind::kReadOnly) {
      tree = clone_tree(AT_FDCWD, mask.path.c_str());
      if (tree < 0)
        error = errno;
      else
        error = set_read_only(tree);
    } else {
      if (trees[0] < 0 && (error = make_masks(content, trees)) != 0) return error;
      const int kind = mask.kind == policy::Mask::Kind::kContent ? 2 : mask.directory ? 1 : 0;
      tree = covered[kind] == nullptr ? trees[kind] : clone_tree(AT_FDCWD, covered[kind]);
      if (tree < 0) error = errno;
      covered[kind] = mask.path.c_str();
    }
    if (error == 0) error = attach(tree, mask.path.c_str());
    if (tree >= 0 && tree != trees[0] && tree != trees[1] && tree != trees[2]) close(tree);
    if (error != 0) {
      *failed_path = mask.path.c_str();
      return error;
    }
  }
  for (const int tree : trees)
    if (tree >= 0) close(tree);
  return 0;
}

}  // namespace srun::sandbox
