#include "supervisor/path_walk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace srun::supervisor {
namespace {

constexpr int kMaxLinks = 40;        // MAXSYMLINKS of the kernel
constexpr ino_t kProcRootInode = 1;  // PROC_ROOT_INO of the kernel

UniqueFd open_path(BorrowedFd directory, const char* path, int flags, uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(O_PATH | O_CLOEXEC | flags);
  how.resolve = resolve;
  UniqueFd found;
  int tries = 0;
  do {
    found.reset(static_cast<int>(syscall(SYS_openat2, directory.get(), path, &how, sizeof how)));
    // EAGAIN: a rename raced with ".." (openat2(2)).
  } while (!found && errno == EAGAIN && ++tries < 8);
  return found;
}

bool same_object(BorrowedFd a, BorrowedFd b) {
  struct stat first {};
  struct stat second {};
  return fstat(a.get(), &first) == 0 && fstat(b.get(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool on_procfs(BorrowedFd fd) {
  struct statfs status {};
  return fstatfs(fd.get(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

bool set_path(Walked& walked, BorrowedFd base, std::string_view name) {
  if (!path_of(base, walked.path, walked.path_length)) return false;
  if (name.empty()) return true;
  if (walked.path_length == 0 || walked.path[walked.path_length - 1] != '/') walked.path[walked.path_length++] = '/';
  std::memcpy(walked.path.data() + walked.path_length, name.data(), name.size());
  walked.path_length += name.size();
  return true;
}

// fs.protected_symlinks (proc_sys_fs(5)), which the kernel asks only in walks of its own: in a sticky directory that
// everybody writes to, only links of the follower or of the directory's owner are followed.
bool link_is_protected(BorrowedFd directory, const struct stat& link) {
  static const bool on = [] {
    const UniqueFd file(open("/proc/sys/fs/protected_symlinks", O_RDONLY | O_CLOEXEC));
    char value = '1';
    return !file || read(file.get(), &value, 1) != 1 || value != '0';
  }();
  if (!on) return false;
  struct stat parent {};
  if (fstat(directory.get(), &parent) != 0) return true;
  if ((parent.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH)) return false;
  // setfsuid(2) tells the present one when it is asked for an impossible one.
  const auto follower = static_cast<uid_t>(syscall(SYS_setfsuid, -1));
  return link.st_uid != follower && link.st_uid != parent.st_uid;
}

// Appends `rest` to the name of a link as text, ".." taken back. False where that leads out of the link: what follows
// is no name below it. If one of the names taken back is a link itself, the text may name something else than the walk
// reaches: then a rule may take away more than it says, never less.
bool append_below(std::string& alias, std::string_view rest) {
  const size_t link = alias.size();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part == "..") {
      if (alias.size() == link) return false;
      alias.erase(alias.rfind('/'));
    } else if (!part.empty() && part != ".") {
      alias.append("/").append(part);
    }
  }
  return true;
}

bool is_number(const char* text) {
  if (*text == '\0') return false;
  for (; *text != '\0'; ++text)
    if (*text < '0' || *text > '9') return false;
  return true;
}

}  // namespace

bool path_of(BorrowedFd fd, std::array<char, PATH_MAX + NAME_MAX + 2>& path, size_t& length) {
  std::array<char, 32> link;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd.get());
  const ssize_t size = readlink(link.data(), path.data(), PATH_MAX);
  length = size > 0 ? static_cast<size_t>(size) : 0;
  if (size <= 0 || size >= PATH_MAX || path[0] != '/') return false;
  // d_path marks what has no name any more; a file that is really called so is refused with it (H36).
  return !std::string_view(path.data(), length).ends_with(" (deleted)");
}

// Which process directories of procfs may be entered on behalf: those of the run. Supervisor and guard look absent
// (H1).
bool PathWalker::is_open_process(const Notification& notification, pid_t pid) const {
  return pid == notification.tid || membership_.is_member(pid);
}

int PathWalker::walk_descriptor(const Notification& notification, int descriptor, Walked& walked) const {
  walked.object = notification.pin_descriptor(descriptor);
  if (!walked.object) return errno == ENOENT ? EBADF : errno;
  // No name any more, or never one: no rule can mean it, and the task has it already.
  walked.nameless = !set_path(walked, walked.object.borrow(), "");
  return 0;
}

int PathWalker::walk(const Notification& notification, int directory, std::string_view path, Last last,
                     bool absent_is_fine, Walked& walked) const {
  if (path.empty()) return ENOENT;
  if (path.size() >= PATH_MAX) return ENAMETOOLONG;
  UniqueFd start;
  if (path.front() == '/')
    start = notification.pin_root();
  else if (directory == AT_FDCWD)
    start = notification.pin_working_directory();
  else
    start = notification.pin_descriptor(directory);
  if (!start) return errno;
  walked.wants_directory = path.back() == '/';
  if (last != Last::kParent) {
    // One system call where no link is on the way and procfs is not involved. A buffer of our own, since the view is
    // not necessarily of a string with a NUL.
    std::array<char, PATH_MAX> text;
    const std::string_view relative = path.substr(std::min(path.find_first_not_of('/'), path.size()));
    std::memcpy(text.data(), relative.data(), relative.size());
    text[relative.size()] = '\0';
    if (!relative.empty()) {
      const uint64_t below = path.front() == '/' ? RESOLVE_IN_ROOT : 0;
      UniqueFd found = open_path(start.borrow(), text.data(), last == Last::kNoFollow ? O_NOFOLLOW : 0,
                                 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | below);
      if (found && set_path(walked, found.borrow(), "") && !on_procfs(found.borrow())) {
        walked.object = std::move(found);
        return 0;
      }
      const int error = found ? ELOOP : errno;
      // ENOSYS: before Linux 5.6, or hidden by a container. What failed for another reason than a link fails for good.
      if (!found && error != ELOOP && error != ENOSYS && error != EXDEV && !(error == ENOENT && absent_is_fine))
        return error;
    }
  }
  return walk_by_hand(notification, std::move(start), path, last, absent_is_fine, walked);
}

int PathWalker::walk_by_hand(const Notification& notification, UniqueFd start, std::string_view path, Last last,
                             bool absent_is_fine, Walked& walked) const {
  // Links make the rest longer; the kernel bounds each by PATH_MAX.
  std::string rest(path);
  UniqueFd current = std::move(start);
  UniqueFd root;
  const auto own_root = [&]() -> BorrowedFd {
    if (!root) root = notification.pin_root();
    return root.borrow();
  };
  int links = 0;
  bool wants_directory = false;
  size_t at = 0;
  while (true) {
    at = std::min(rest.find_first_not_of('/', at), rest.size());
    if (at == rest.size()) {
      // The walk ended at a directory that has no last name of its own.
      if (!set_path(walked, current.borrow(), "")) return ENOENT;
      walked.parent.reset();
      walked.object = std::move(current);
      walked.wants_directory = true;
      return 0;
    }
    const size_t end = std::min(rest.find('/', at), rest.size());
    const std::string_view component(rest.data() + at, end - at);
    const size_t next = std::min(rest.find_first_not_of('/', end), rest.size());
    const bool is_last = next == rest.size();
    wants_directory = is_last && end != rest.size();
    if (component.size() > NAME_MAX) return ENAMETOOLONG;
    std::array<char, NAME_MAX + 1> name;
    std::memcpy(name.data(), component.data(), component.size());
    name[component.size()] = '\0';
    at = next;

    struct stat status {};
    if (fstat(current.get(), &status) != 0) return errno;
    if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    const ino_t directory_inode = status.st_ino;
    if (is_last && last == Last::kParent) {
      const bool itself = component == "." || component == "..";
      if (!set_path(walked, current.borrow(), itself ? std::string_view() : component)) return ENOENT;
      walked.name = name;
      walked.wants_directory = wants_directory;
      walked.parent = std::move(current);
      return 0;
    }
    if (component == ".") {
      // Search permission is asked for "." too.
      UniqueFd same(openat(current.get(), ".", O_PATH | O_CLOEXEC));
      if (!same) return errno;
      continue;
    }
    if (component == "..") {
      if (!own_root()) return errno;
      if (same_object(current.borrow(), own_root())) continue;
      UniqueFd up(openat(current.get(), "..", O_PATH | O_CLOEXEC | O_DIRECTORY));
      if (!up) return errno;
      current = std::move(up);
      continue;
    }
    const bool procfs = on_procfs(current.borrow());
    if (procfs && is_number(name.data())) {
      // Process directories at the top, threads below task/, descriptors below fd/ (those are links, looked at below).
      // In all three a number that is no member's is not entered.
      std::array<char, PATH_MAX + NAME_MAX + 2> where;
      size_t length = 0;
      if (!path_of(current.borrow(), where, length)) return ENOENT;
      const std::string_view directory(where.data(), length);
      const bool descriptors = directory.ends_with("/fd") || directory.ends_with("/fdinfo");
      if (!descriptors && !is_open_process(notification, static_cast<pid_t>(std::strtol(name.data(), nullptr, 10))))
        return ENOENT;
    }
    UniqueFd found(openat(current.get(), name.data(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!found) {
      if (errno != ENOENT || !is_last || !absent_is_fine) return errno;
      if (!set_path(walked, current.borrow(), component)) return ENOENT;
      walked.name = name;
      walked.wants_directory = wants_directory;
      walked.parent = std::move(current);
      walked.object.reset();
      return 0;
    }
    if (fstat(found.get(), &status) != 0) return errno;
    if (!S_ISLNK(status.st_mode) || (is_last && last == Last::kNoFollow && !wants_directory)) {
      if (is_last) {
        if (wants_directory && !S_ISDIR(status.st_mode)) return ENOTDIR;
        if (!set_path(walked, found.borrow(), "")) return ENOENT;
        walked.name = name;
        walked.wants_directory = wants_directory;
        walked.parent = std::move(current);
        walked.object = std::move(found);
        return 0;
      }
      current = std::move(found);
      continue;
    }
    if (++links > kMaxLinks) return ELOOP;
    const bool procfs_top = procfs && directory_inode == kProcRootInode;
    if (procfs && !procfs_top) {
      // A magic link: /proc/PID/{exe,cwd,root,fd/N,ns/…}, or the same below task/TID. Whose it is was checked when its
      // process directory was entered; opening it goes to the object itself.
      UniqueFd behind(openat(current.get(), name.data(), O_PATH | O_CLOEXEC));
      if (!behind) return errno;
      if (is_last && !wants_directory) {
        if (!set_path(walked, behind.borrow(), "")) {
          // A pipe, a socket, an anonymous file: no rule can name it, and the task has it already.
          if (walked.path_length == 0 || walked.path[0] == '/') return ENOENT;
          walked.nameless = true;
        }
        walked.parent.reset();
        walked.object = std::move(behind);
        return 0;
      }
      current = std::move(behind);
      continue;
    }
    size_t length = 0;
    if (!procfs && link_is_protected(current.borrow(), status)) return EACCES;
    std::array<char, PATH_MAX> text;
    ssize_t size = readlinkat(found.get(), "", text.data(), text.size());
    if (procfs_top && (component == "self" || component == "thread-self")) {
      // Their text depends on who reads it.
      const std::optional<TaskStatus> task = task_status(notification.tid);
      if (!task) return ENOENT;
      size = component == "self" ? std::snprintf(text.data(), text.size(), "%d", task->tgid)
                                 : std::snprintf(text.data(), text.size(), "%d/task/%d", task->tgid, notification.tid);
    }
    if (size < 0) return errno;
    if (size == 0) return ENOENT;
    if (static_cast<size_t>(size) == text.size()) return ENAMETOOLONG;
    if (std::array<char, PATH_MAX + NAME_MAX + 2> above; path_of(current.borrow(), above, length)) {
      std::string alias(above.data(), length == 1 ? 0 : length);
      alias.append("/").append(component);
      if (append_below(alias, std::string_view(rest).substr(next))) walked.aliases.push_back(std::move(alias));
    }
    std::string longer(text.data(), static_cast<size_t>(size));
    if (wants_directory && is_last) longer += '/';
    if (next < rest.size()) longer.append("/").append(rest, next);
    if (longer.size() >= 4 * PATH_MAX) return ENAMETOOLONG;
    rest = std::move(longer);
    at = 0;
    if (rest.front() == '/') {
      if (!own_root()) return errno;
      current.reset(fcntl(own_root().get(), F_DUPFD_CLOEXEC, 3));
      if (!current) return errno;
    }
  }
}

}  // namespace srun::supervisor
