#include "supervisor/file_broker.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/scope_exit.h"
#include "kernel/arch.h"
#include "kernel/syscall_table.h"
#include "supervisor/file_calls.h"

namespace srun::supervisor {

using policy::FileAccess;
using policy::FileDecision;
using policy::FileEffect;

namespace {

// The name by which system calls of ours reach a pinned object: a magic link to the object itself.
struct SelfPath {
  explicit SelfPath(BorrowedFd fd) { std::snprintf(text.data(), text.size(), "/proc/self/fd/%d", fd.get()); }
  const char* get() const { return text.data(); }
  std::array<char, 32> text;
};

int32_t argument(const Notification& notification, int index) {
  return static_cast<int32_t>(notification.call.args[index]);
}

constexpr uint64_t kTmpfileBit = O_TMPFILE & ~static_cast<uint64_t>(O_DIRECTORY);

FileAccess access_of_flags(uint64_t flags) {
  if ((flags & O_PATH) != 0) return FileAccess::kMetadata;
  FileAccess access = FileAccess::kNone;
  const uint64_t mode = flags & O_ACCMODE;
  if (mode == O_RDONLY || mode == O_RDWR || mode == O_ACCMODE) access |= FileAccess::kRead;
  if (mode != O_RDONLY || (flags & O_TRUNC) != 0) access |= FileAccess::kWrite;
  if ((flags & kTmpfileBit) != 0) access |= FileAccess::kCreate | FileAccess::kWrite;
  return access;
}

int64_t result_of(long value) { return value < 0 ? -errno : value; }

// Opening it may wait for somebody else, or for a device.
bool may_block(const struct stat& status, uint64_t flags) {
  if ((flags & (O_NONBLOCK | O_PATH)) != 0) return false;
  if (S_ISFIFO(status.st_mode)) return (flags & O_ACCMODE) != O_RDWR;
  if (S_ISCHR(status.st_mode)) {
    constexpr unsigned kMemory = 1, kTty = 5, kPts = 136;
    const unsigned kind = major(status.st_rdev);
    return kind != kMemory && kind != kTty && kind != kPts;
  }
  return false;
}

constexpr unsigned kTtyMajor = 5;

// /dev/tty is the controlling terminal of whoever opens it: ours, if that is also the task's.
bool same_terminal(pid_t tid) {
  const auto terminal = [](const char* path) -> long {
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    std::array<char, 512> text;
    const ssize_t size = file ? read(file.get(), text.data(), text.size() - 1) : -1;
    if (size <= 0) return -1;
    text[static_cast<size_t>(size)] = '\0';
    const char* const after = std::strrchr(text.data(), ')');  // comm may hold anything
    long number = -1;
    if (after == nullptr || std::sscanf(after + 1, " %*c %*d %*d %*d %ld", &number) != 1) return -1;
    return number;
  };
  std::array<char, 48> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", tid);
  const long theirs = terminal(path.data());
  return theirs > 0 && theirs == terminal("/proc/self/stat");
}

// The blocking part of an open, on a thread of its own. The object is pinned and allowed already.
class SlowOpen final : public SlowCall {
 public:
  SlowOpen(UniqueFd object, uint64_t flags) : object_(std::move(object)), flags_(flags) {}

  Answer run(const Notification& notification, const std::atomic<Interruption>& interruption) override {
    while (true) {
      const UniqueFd opened(::open(SelfPath(object_.borrow()).get(), static_cast<int>(flags_ | O_CLOEXEC | O_NOCTTY)));
      if (opened) {
        const int error = notification.inject_and_answer(opened.borrow(), (flags_ & O_CLOEXEC) != 0);
        return error == 0 || error == ENOENT ? Answer::done() : Answer::fail(error);
      }
      if (errno != EINTR) return Answer::fail(errno);
      if (interruption.load() == Interruption::kSignal) return Answer::fail(kRestart);
      if (interruption.load() == Interruption::kGone) return Answer::fail(EINTR);
    }
  }

 private:
  UniqueFd object_;
  uint64_t flags_;
};

}  // namespace

FileBroker::FileBroker(const policy::FileEnforcement& files, Membership membership, SlowCalls& slow)
    : files_(files), membership_(membership), slow_(slow), walker_(membership) {
  for (const FileCall& call : file_calls()) {
    const kernel::Syscall* const found = kernel::find_syscall(call.name);
    const std::optional<uint32_t> number = found != nullptr ? found->number(kernel::kNativeArch) : std::nullopt;
    if (number && *number < rows_.size()) rows_[*number] = &call;
  }
  object_.reserve(2 * PATH_MAX);
}

FileBroker::~FileBroker() = default;

Answer FileBroker::serve(const Notification& notification) {
  const auto number = static_cast<uint32_t>(notification.call.nr);
  if (notification.call.arch != kernel::audit_arch(kernel::kNativeArch) || number >= rows_.size() ||
      rows_[number] == nullptr) {
    // Lowering asks about this call and nobody here knows it: an error of ours, refused.
    Answer answer = Answer::refuse(EPERM);
    answer.internal_error = true;
    return answer;
  }
  logged_.reset();
  for (Walked& walked : walked_) {
    walked.parent.reset();
    walked.object.reset();
    walked.nameless = false;
    walked.wants_directory = false;
    walked.path_length = 0;
    walked.aliases.clear();
  }
  const ScopeExit own_identity([this] { identity_.restore(); });
  Answer answer = serve(notification, *rows_[number]);
  // Under --audit a walk that fails only means that there is nothing to tell; nothing is done on behalf then.
  if (files_.audit && answer.kind != Answer::Kind::kContinue) answer = Answer::go_on(ContinueReason::kNotRestricted);
  return finish(answer);
}

Answer FileBroker::finish(Answer answer) const {
  if (!logged_ || answer.report) return answer;
  answer.report = true;
  answer.outcome = logged_->kernel_grants ? report::Outcome::kAudited : report::Outcome::kLogged;
  answer.verdict = logged_->verdict;
  answer.object = object_;
  answer.access = static_cast<uint16_t>(logged_access_);
  return answer;
}

int FileBroker::read_path(const Notification& notification, uint64_t address, Path& buffer,
                          std::string_view& path) const {
  return -notification.read_string(address, buffer, path);
}

std::optional<Answer> FileBroker::take_identity(const Notification& notification, bool real, bool needs_umask) {
  if (!identity_.can_differ() && !needs_umask) return std::nullopt;
  if (!read_credentials(notification.tid, task_)) return Answer::refuse(EACCES);
  if (needs_umask) ::umask(task_.umask);  // nothing else in this process makes files
  if (!identity_.become(task_, real)) return Answer::refuse(EACCES);
  return std::nullopt;
}

Answer FileBroker::refuse(const FileDecision& decision, size_t which, FileAccess access) {
  Answer answer = Answer::refuse(decision.error != 0 ? decision.error : EACCES);
  object_.assign(walked_[which].canonical());
  answer.object = object_;
  answer.access = static_cast<uint16_t>(access);
  answer.verdict = decision.verdict;
  return answer;
}

std::optional<Answer> FileBroker::decide(const Notification& notification, size_t which, FileAccess access) {
  Walked& walked = walked_[which];
  // What was read belongs to the task that still waits (pitfalls 5.3); nothing has been changed so far.
  if (!notification.valid()) return Answer::fail(EINTR);
  if (walked.nameless)
    return files_.audit ? std::optional(Answer::go_on(ContinueReason::kNotRestricted)) : std::nullopt;
  FileDecision decision = files_.matcher->decide(walked.canonical(), access);
  if (decision.effect != FileEffect::kDeny && walked.object && files_.matcher->has_objects()) {
    struct stat status {};
    if (fstat(walked.object.get(), &status) != 0) return Answer::refuse(EACCES);
    if (const auto other = files_.matcher->decide_object({status.st_dev, status.st_ino}, access)) decision = *other;
  }
  for (const std::string& alias : walked.aliases)
    if (decision.effect != FileEffect::kDeny)
      if (const auto other = files_.matcher->decide_alias(alias, access)) decision = *other;
  switch (decision.effect) {
    case FileEffect::kDeny:
      return refuse(decision, which, access);
    case FileEffect::kRedirect: {
      const policy::Redirect& redirect = files_.redirects.at(decision.redirect);
      constexpr FileAccess kChanges =
          FileAccess::kWrite | FileAccess::kCreate | FileAccess::kRemove | FileAccess::kAttributes;
      if (has(access, kChanges) && !redirect.writable) {
        decision.error = EACCES;
        return refuse(decision, which, access);
      }
      walked.object.reset(fcntl(redirect.object.get(), F_DUPFD_CLOEXEC, 3));
      if (!walked.object) return Answer::fail(errno);
      return std::nullopt;
    }
    case FileEffect::kLog:
      logged_ = decision;
      logged_access_ = access;
      object_.assign(walked.canonical());
      break;
    case FileEffect::kAllow:
      break;
  }
  if (decision.kernel_grants)
    return Answer::go_on(files_.audit ? ContinueReason::kNotRestricted : ContinueReason::kKernelEnforces);
  return std::nullopt;
}

std::optional<Answer> FileBroker::refuse_by_name(const Notification& notification, int directory, std::string_view path,
                                                 FileAccess access) {
  if (files_.masks.empty() || files_.audit) return std::nullopt;
  std::string name;
  if (!path.starts_with('/')) {
    std::array<char, 64> link;
    if (directory == AT_FDCWD)
      std::snprintf(link.data(), link.size(), "/proc/%d/cwd", notification.tid);
    else
      std::snprintf(link.data(), link.size(), "/proc/%d/fd/%d", notification.tid, directory);
    std::array<char, PATH_MAX> target;
    const ssize_t size = readlink(link.data(), target.data(), target.size());
    if (size <= 0 || target[0] != '/') return std::nullopt;
    name.assign(target.data(), static_cast<size_t>(size)).append("/");
  }
  name.append(path);
  std::string canonical;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part(name.data() + at, end - at);
    if (part == "..")
      canonical.erase(std::min(canonical.rfind('/'), canonical.size()));
    else if (!part.empty() && part != ".")
      canonical.append("/").append(part);
    at = end + 1;
  }
  if (canonical.empty()) return std::nullopt;
  const FileDecision decision = files_.matcher->decide(canonical, access);
  if (decision.effect != FileEffect::kDeny) return std::nullopt;
  Answer answer = Answer::refuse(decision.error != 0 ? decision.error : EACCES);
  object_ = std::move(canonical);
  answer.object = object_;
  answer.access = static_cast<uint16_t>(access);
  answer.verdict = decision.verdict;
  return answer;
}

Answer FileBroker::inject(const Notification& notification, const UniqueFd& fd, uint64_t flags) {
  const int error = notification.inject_and_answer(fd.borrow(), (flags & O_CLOEXEC) != 0);
  return error == 0 || error == ENOENT ? Answer::done() : Answer::fail(error);
}

Answer FileBroker::open_how(const Notification& notification) {
  struct ::open_how how {};
  const uint64_t size = notification.call.args[3];
  if (size < sizeof how) return Answer::fail(EINVAL);
  if (size > 4096) return Answer::fail(E2BIG);
  std::array<std::byte, 4096> bytes;
  if (const int error = notification.read(notification.call.args[2], std::span(bytes).first(size)))
    return Answer::fail(-error);
  for (size_t i = sizeof how; i < size; ++i)
    if (bytes[i] != std::byte{0}) return Answer::fail(E2BIG);
  std::memcpy(&how, bytes.data(), sizeof how);
  // Walks with rules of their own are the kernel's; programs that use them fall back on ENOSYS.
  if (how.resolve != 0) return Answer::fail(ENOSYS);
  if ((how.flags & (O_CREAT | kTmpfileBit)) == 0 && how.mode != 0) return Answer::fail(EINVAL);
  // The flags are in memory here, so the call may not go on for being O_PATH.
  if ((how.flags & O_PATH) != 0) return Answer::fail(ENOSYS);
  return open(notification, argument(notification, 0), notification.call.args[1], how.flags, how.mode);
}

Answer FileBroker::open(const Notification& notification, int directory, uint64_t address, uint64_t flags,
                        uint64_t mode) {
  if ((flags & O_PATH) != 0) return Answer::go_on(ContinueReason::kPathOnly);
  const bool creates = (flags & O_CREAT) != 0;
  if (creates && (flags & O_DIRECTORY) != 0) return Answer::fail(EINVAL);
  const bool temporary = (flags & kTmpfileBit) != 0;
  if (temporary && ((flags & O_TMPFILE) != O_TMPFILE || (flags & O_ACCMODE) == O_RDONLY)) return Answer::fail(EINVAL);
  std::string_view path;
  if (const int error = read_path(notification, address, text_[0], path)) return Answer::fail(error);
  if (auto answer = take_identity(notification, false, creates || temporary)) return *answer;
  if (creates && path.ends_with('/') && path.find_first_not_of('/') != std::string_view::npos) {
    // Whatever is there: a file can't be made under such a name.
    const int error = walker_.walk(notification, directory, path, Last::kParent, false, walked_[0]);
    return Answer::fail(error != 0 ? error : EISDIR);
  }
  const bool follow = (flags & O_NOFOLLOW) == 0 && !(creates && (flags & O_EXCL) != 0);
  Walked& walked = walked_[0];
  // A name that somebody makes or removes meanwhile costs another round; each ends at a checked object or an error.
  for (int round = 0; round < 16; ++round) {
    const int error =
        walker_.walk(notification, directory, path, follow ? Last::kFollow : Last::kNoFollow, creates, walked);
    if (error != 0)
      return refuse_by_name(notification, directory, path, access_of_flags(flags)).value_or(Answer::fail(error));
    if (walked.object) return open_existing(notification, flags, mode, access_of_flags(flags));
    if (auto answer = decide(notification, 0, access_of_flags(flags) | FileAccess::kCreate)) return *answer;
    if (walked.object)
      return open_existing(notification, flags & ~static_cast<uint64_t>(O_CREAT | O_EXCL), mode,
                           access_of_flags(flags));
    const UniqueFd made(
        openat(walked.parent.get(), walked.name.data(),
               static_cast<int>((flags | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC) & ~static_cast<uint64_t>(O_TRUNC)),
               static_cast<mode_t>(mode & 07777)));
    if (made) return inject(notification, made, flags);
    if (errno != EEXIST || (flags & O_EXCL) != 0) return Answer::fail(errno);
    walked.parent.reset();
  }
  return Answer::fail(EAGAIN);
}

Answer FileBroker::open_existing(const Notification& notification, uint64_t flags, uint64_t mode, FileAccess access) {
  Walked& walked = walked_[0];
  if (auto answer = decide(notification, 0, access)) return *answer;
  struct stat status {};
  if (fstat(walked.object.get(), &status) != 0) return Answer::fail(errno);
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return Answer::fail(EEXIST);
  if (S_ISLNK(status.st_mode)) return Answer::fail(ELOOP);
  if ((flags & O_CREAT) != 0 && S_ISDIR(status.st_mode)) return Answer::fail(EISDIR);
  if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(status.st_mode)) return Answer::fail(ENOTDIR);
  // What the device would show is no longer a matter of paths. An ordinary user can't open it anyway.
  if (policy::is_raw_device(status)) return Answer::refuse(EACCES);
  const std::string_view path = walked.canonical();
  if (path.starts_with("/proc/") && path.ends_with("/mem")) {
    // Another process's memory is never opened on behalf: our right to it is not the task's (H1).
    const std::optional<TaskStatus> task = task_status(notification.tid);
    const std::string own = task ? "/proc/" + std::to_string(task->tgid) + "/" : std::string();
    if (!task || !path.starts_with(own)) return Answer::fail(EACCES);
  }
  if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(kTtyMajor, 0) && !same_terminal(notification.tid))
    return Answer::fail(ENXIO);
  flags &= ~static_cast<uint64_t>(O_CREAT | O_EXCL | O_NOFOLLOW);
  if (may_block(status, flags)) {
    // Under another identity the thread would have to take it too; such a task is refused rather than served by root.
    if (identity_.can_differ() && (task_.fs_uid != geteuid() || task_.fs_gid != getegid())) return Answer::fail(EACCES);
    return slow_.take(notification, std::make_unique<SlowOpen>(std::move(walked.object), flags)) ? Answer::later()
                                                                                                 : Answer::fail(EAGAIN);
  }
  const UniqueFd opened(::open(SelfPath(walked.object.borrow()).get(), static_cast<int>(flags | O_NOCTTY | O_CLOEXEC),
                               static_cast<mode_t>(mode & 07777)));
  return opened ? inject(notification, opened, flags) : Answer::fail(errno);
}

// mkdir, mknod, symlink, unlink, rmdir: one name in one directory.
Answer FileBroker::create(const Notification& notification, const FileCall& row) {
  const int directory = row.directory >= 0 ? argument(notification, row.directory) : AT_FDCWD;
  std::string_view path;
  if (const int error = read_path(notification, notification.call.args[row.path], text_[0], path))
    return Answer::fail(error);
  std::string_view target;
  if (row.op == FileOp::kSymlink) {
    if (const int error = read_path(notification, notification.call.args[0], text_[1], target))
      return Answer::fail(error);
    if (target.empty()) return Answer::fail(ENOENT);
  }
  const bool removes = row.op == FileOp::kUnlink || row.op == FileOp::kRmdir;
  if (auto answer = take_identity(notification, false, !removes)) return *answer;
  Walked& walked = walked_[0];
  if (const int error = walker_.walk(notification, directory, path, Last::kParent, false, walked))
    return Answer::fail(error);
  if (auto answer = decide(notification, 0, removes ? FileAccess::kRemove : FileAccess::kCreate)) return *answer;
  // "/" itself: the kernel's words for it.
  if (!walked.parent) return Answer::fail(removes ? (row.op == FileOp::kRmdir ? EBUSY : EISDIR) : EEXIST);
  std::string name(walked.name.data());
  if (walked.wants_directory) name += '/';
  const int parent = walked.parent.get();
  const auto mode = static_cast<mode_t>(notification.call.args[row.path + 1] & 0xffff);
  switch (row.op) {
    case FileOp::kMkdir:
      break;
    case FileOp::kMknod: {
      // Device nodes are never part of "write" (H7).
      if (S_ISCHR(mode) || S_ISBLK(mode)) return Answer::refuse(EPERM);
      const int64_t made = result_of(mknodat(parent, name.c_str(), mode, 0));
      return made < 0 ? Answer::fail(static_cast<int>(-made)) : Answer::result(0);
    }
    case FileOp::kSymlink: {
      const int64_t made = result_of(symlinkat(text_[1].data(), parent, name.c_str()));
      return made < 0 ? Answer::fail(static_cast<int>(-made)) : Answer::result(0);
    }
    default: {
      int flags = row.op == FileOp::kRmdir ? AT_REMOVEDIR : 0;
      if (row.flags >= 0) flags = argument(notification, row.flags);
      const int64_t gone = result_of(unlinkat(parent, name.c_str(), flags));
      return gone < 0 ? Answer::fail(static_cast<int>(-gone)) : Answer::result(0);
    }
  }
  const int64_t made = result_of(mkdirat(parent, name.c_str(), mode));
  return made < 0 ? Answer::fail(static_cast<int>(-made)) : Answer::result(0);
}

// rename and link: two names.
Answer FileBroker::move(const Notification& notification, const FileCall& row) {
  const bool at_form = row.directory >= 0;
  const int from_directory = at_form ? argument(notification, 0) : AT_FDCWD;
  const int to_directory = at_form ? argument(notification, 2) : AT_FDCWD;
  const int flags = row.flags >= 0 ? argument(notification, row.flags) : 0;
  std::string_view from;
  std::string_view to;
  if (const int error = read_path(notification, notification.call.args[at_form ? 1 : 0], text_[0], from))
    return Answer::fail(error);
  if (const int error = read_path(notification, notification.call.args[at_form ? 3 : 1], text_[1], to))
    return Answer::fail(error);
  if (auto answer = take_identity(notification, false, false)) return *answer;
  const bool links = row.op == FileOp::kLink;
  if (links && (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0) return Answer::fail(EINVAL);
  int error = 0;
  if (links && from.empty() && (flags & AT_EMPTY_PATH) != 0)
    error = walker_.walk_descriptor(notification, from_directory, walked_[0]);
  else
    error = walker_.walk(notification, from_directory, from,
                         links ? ((flags & AT_SYMLINK_FOLLOW) != 0 ? Last::kFollow : Last::kNoFollow) : Last::kParent,
                         false, walked_[0]);
  if (error != 0) return Answer::fail(error);
  error = walker_.walk(notification, to_directory, to, Last::kParent, false, walked_[1]);
  if (error != 0) return Answer::fail(error);
  const bool exchange = !links && (flags & RENAME_EXCHANGE) != 0;
  FileAccess source = links ? FileAccess::kRead : FileAccess::kRemove;
  FileAccess destination = FileAccess::kCreate;
  if (exchange) source |= FileAccess::kCreate;
  struct stat existing {};
  const bool replaces = !links && walked_[1].parent &&
                        fstatat(walked_[1].parent.get(), walked_[1].name.data(), &existing, AT_SYMLINK_NOFOLLOW) == 0;
  if (exchange || replaces) destination |= FileAccess::kRemove;
  bool kernel_grants = true;
  for (const auto& [which, access] : {std::pair<size_t, FileAccess>{0, source}, {1, destination}}) {
    if (auto answer = decide(notification, which, access)) {
      if (answer->kind != Answer::Kind::kContinue) return *answer;
    } else {
      kernel_grants = false;
    }
  }
  if (!walked_[0].nameless) {
    struct stat moved {};
    // What can't be looked at counts as a directory: the stricter question.
    const bool looked = walked_[0].object
                            ? fstat(walked_[0].object.get(), &moved) == 0
                            : walked_[0].parent && fstatat(walked_[0].parent.get(), walked_[0].name.data(), &moved,
                                                           AT_SYMLINK_NOFOLLOW) == 0;
    const bool directory = !looked || S_ISDIR(moved.st_mode) || (exchange && S_ISDIR(existing.st_mode));
    if (const auto refused =
            files_.matcher->decide_move(walked_[0].canonical(), walked_[1].canonical(), exchange, directory)) {
      if (refused->effect == FileEffect::kDeny) return refuse(*refused, 0, source);
    }
  }
  if (kernel_grants && files_.audit) return Answer::go_on(ContinueReason::kNotRestricted);
  // Never left to the kernel: what moves along with a directory is no business of Landlock's (H2).
  if (!walked_[1].parent || (!links && !walked_[0].parent)) return Answer::fail(EBUSY);
  std::string name(walked_[1].name.data());
  if (walked_[1].wants_directory) name += '/';
  int64_t result = 0;
  if (links) {
    result = result_of(linkat(AT_FDCWD, SelfPath(walked_[0].object.borrow()).get(), walked_[1].parent.get(),
                              name.c_str(), AT_SYMLINK_FOLLOW));
  } else {
    std::string old(walked_[0].name.data());
    if (walked_[0].wants_directory) old += '/';
    result = result_of(
        syscall(SYS_renameat2, walked_[0].parent.get(), old.c_str(), walked_[1].parent.get(), name.c_str(), flags));
  }
  return result < 0 ? Answer::fail(static_cast<int>(-result)) : Answer::result(0);
}

Answer FileBroker::on_object(const Notification& notification, const FileCall& row) {
  const int flags = row.flags >= 0 ? argument(notification, row.flags) : 0;
  const int directory = row.directory >= 0 ? argument(notification, row.directory) : AT_FDCWD;
  const bool real = row.op == FileOp::kAccess && (flags & AT_EACCESS) == 0;
  if (auto answer = take_identity(notification, real, false)) return *answer;
  int error = 0;
  std::string_view path;
  if (row.path < 0) {
    error = walker_.walk_descriptor(notification, directory, walked_[0]);
  } else {
    const uint64_t address = notification.call.args[row.path];
    // utimensat(fd, NULL) is futimens; statx and newfstatat take NULL with AT_EMPTY_PATH since Linux 6.11.
    const bool null_is_descriptor = address == 0 && (row.op == FileOp::kUtimensat || (flags & AT_EMPTY_PATH) != 0);
    if (!null_is_descriptor) error = read_path(notification, address, text_[0], path);
    if (error != 0) return Answer::fail(error);
    const bool empty_is_descriptor = (flags & AT_EMPTY_PATH) != 0 || row.op == FileOp::kReadlink;
    if (null_is_descriptor || (path.empty() && row.directory >= 0 && empty_is_descriptor)) {
      if (directory == AT_FDCWD)
        error = walker_.walk(notification, AT_FDCWD, ".", Last::kFollow, false, walked_[0]);
      else
        error = walker_.walk_descriptor(notification, directory, walked_[0]);
    } else {
      bool follow = row.follows;
      if ((flags & AT_SYMLINK_NOFOLLOW) != 0 && row.flags_nofollow) follow = false;
      error = walker_.walk(notification, directory, path, follow ? Last::kFollow : Last::kNoFollow, false, walked_[0]);
    }
  }
  if (error != 0) return Answer::fail(error);
  if (auto answer = decide(notification, 0, row.access)) return *answer;
  if (row.op == FileOp::kChdir) return Answer::go_on(ContinueReason::kNotRestricted);
  if (row.op == FileOp::kExec) {
    // Allowed, but no kernel decides about it: nothing can be run on behalf (H9).
    return Answer::refuse(EACCES);
  }
  const int64_t result = act_on_object(notification, row, directory);
  return result < 0 ? Answer::fail(static_cast<int>(-result)) : Answer::result(result);
}

int64_t FileBroker::act_on_object(const Notification& notification, const FileCall& row, int descriptor) {
  const int fd = walked_[0].object.get();
  const SelfPath self(walked_[0].object.borrow());
  const auto& args = notification.call.args;
  switch (row.op) {
    case FileOp::kStat: {
      struct stat status {};
      if (fstat(fd, &status) != 0) return -errno;
      return notification.write(args[row.data], std::as_bytes(std::span(&status, 1)));
    }
    case FileOp::kStatx: {
      struct statx status {};
      const int flags = (argument(notification, row.flags) & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) | AT_EMPTY_PATH;
      if (statx(fd, "", flags, static_cast<unsigned>(args[3]), &status) != 0) return -errno;
      return notification.write(args[row.data], std::as_bytes(std::span(&status, 1)));
    }
    case FileOp::kStatfs: {
      struct statfs status {};
      if (fstatfs(fd, &status) != 0) return -errno;
      return notification.write(args[row.data], std::as_bytes(std::span(&status, 1)));
    }
    case FileOp::kAccess: {
      // With the identity that take_identity() chose as the effective one (faccessat2, Linux 5.8).
      constexpr int kFaccessat2 = 439;
      return result_of(syscall(kFaccessat2, fd, "", argument(notification, row.data), AT_EACCESS | AT_EMPTY_PATH));
    }
    case FileOp::kReadlink: {
      const int32_t size = argument(notification, row.data + 1);
      if (size <= 0) return -EINVAL;
      std::array<char, PATH_MAX> text;
      ssize_t length = readlinkat(fd, "", text.data(), text.size());
      // No link: ENOENT if it was named by an empty path, else EINVAL (readlink(2)); ours is always empty.
      if (length < 0) return errno == ENOENT && text_[0][0] != '\0' ? -EINVAL : -errno;
      const std::string_view path = walked_[0].canonical();
      if (path == "/proc/self" || path == "/proc/thread-self") {
        const std::optional<TaskStatus> task = task_status(notification.tid);
        if (!task) return -ESRCH;
        length = path == "/proc/self"
                     ? std::snprintf(text.data(), text.size(), "%d", task->tgid)
                     : std::snprintf(text.data(), text.size(), "%d/task/%d", task->tgid, notification.tid);
      }
      const auto used = std::min<size_t>(static_cast<size_t>(length), static_cast<size_t>(size));
      const int written = notification.write(args[row.data], std::as_bytes(std::span(text.data(), used)));
      return written < 0 ? written : static_cast<int64_t>(used);
    }
    case FileOp::kChmod:
      return result_of(chmod(self.get(), static_cast<mode_t>(args[row.data] & 07777)));
    case FileOp::kChown:
      return result_of(
          fchownat(fd, "", static_cast<uid_t>(args[row.data]), static_cast<gid_t>(args[row.data + 1]), AT_EMPTY_PATH));
    case FileOp::kTruncate:
      return result_of(truncate(self.get(), static_cast<off_t>(args[row.data])));
    case FileOp::kUtimensat: {
      timespec times[2];
      if (args[row.data] != 0) {
        if (const int error = notification.read(args[row.data], std::as_writable_bytes(std::span(times)))) return error;
      }
      return result_of(utimensat(AT_FDCWD, self.get(), args[row.data] != 0 ? times : nullptr, 0));
    }
    case FileOp::kUtimes: {
      timeval times[2];
      if (args[row.data] != 0) {
        if (const int error = notification.read(args[row.data], std::as_writable_bytes(std::span(times)))) return error;
      }
      return result_of(utimes(self.get(), args[row.data] != 0 ? times : nullptr));
    }
    case FileOp::kUtime: {
      time_t seconds[2];
      if (args[row.data] == 0) return result_of(utimes(self.get(), nullptr));
      if (const int error = notification.read(args[row.data], std::as_writable_bytes(std::span(seconds)))) return error;
      const timeval times[2] = {{seconds[0], 0}, {seconds[1], 0}};
      return result_of(utimes(self.get(), times));
    }
    case FileOp::kGetxattr:
    case FileOp::kSetxattr:
    case FileOp::kRemovexattr: {
      std::array<char, XATTR_NAME_MAX + 2> buffer;
      std::string_view name;
      if (const int error = notification.read_string(args[row.data], buffer, name))
        return error == -ENAMETOOLONG ? -ERANGE : error;
      if (row.op == FileOp::kRemovexattr) return result_of(removexattr(self.get(), buffer.data()));
      const uint64_t size = args[row.data + 2];
      if (row.op == FileOp::kSetxattr) {
        if (size > XATTR_SIZE_MAX) return -E2BIG;
        std::vector<std::byte> value(size);
        if (const int error = size != 0 ? notification.read(args[row.data + 1], value) : 0) return error;
        return result_of(setxattr(self.get(), buffer.data(), value.data(), size, argument(notification, row.data + 3)));
      }
      std::vector<std::byte> value(std::min<uint64_t>(size, XATTR_SIZE_MAX));
      const int64_t length = result_of(getxattr(self.get(), buffer.data(), value.data(), value.size()));
      if (length <= 0 || value.empty()) return length;
      const int written = notification.write(args[row.data + 1], std::span(value).first(static_cast<size_t>(length)));
      return written < 0 ? written : length;
    }
    case FileOp::kListxattr: {
      std::vector<std::byte> value(std::min<uint64_t>(args[row.data + 1], XATTR_LIST_MAX));
      const int64_t length = result_of(listxattr(self.get(), reinterpret_cast<char*>(value.data()), value.size()));
      if (length <= 0 || value.empty()) return length;
      const int written = notification.write(args[row.data], std::span(value).first(static_cast<size_t>(length)));
      return written < 0 ? written : length;
    }
    case FileOp::kInotify: {
      const UniqueFd watcher = notification.duplicate(argument(notification, 0));
      if (!watcher) return -errno;
      return result_of(inotify_add_watch(watcher.get(), self.get(), static_cast<uint32_t>(args[2])));
    }
    default:
      break;
  }
  static_cast<void>(descriptor);
  return -EPERM;
}

Answer FileBroker::serve(const Notification& notification, const FileCall& row) {
  const auto& args = notification.call.args;
  switch (row.op) {
    case FileOp::kOpen:
      return open(notification, AT_FDCWD, args[0], static_cast<uint32_t>(args[1]), args[2]);
    case FileOp::kOpenat:
      return open(notification, argument(notification, 0), args[1], static_cast<uint32_t>(args[2]), args[3]);
    case FileOp::kCreat:
      return open(notification, AT_FDCWD, args[0], O_CREAT | O_WRONLY | O_TRUNC, args[1]);
    case FileOp::kOpenat2:
      return open_how(notification);
    case FileOp::kMkdir:
    case FileOp::kMknod:
    case FileOp::kSymlink:
    case FileOp::kUnlink:
    case FileOp::kRmdir:
      return create(notification, row);
    case FileOp::kRename:
    case FileOp::kLink:
      return move(notification, row);
    default:
      return on_object(notification, row);
  }
}

}  // namespace srun::supervisor
