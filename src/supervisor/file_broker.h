#pragma once
// Serves the calls that name or change files (Check::kFile): copies what they point to, walks to the object as the
// target would, asks the policy about the object, and then
//   - refuses, telling which rule did;
//   - lets the call run on, only where the kernel enforces the same policy on whatever it will touch (I1);
//   - or acts on the pinned object itself, with the target's identity and umask, and hands over the result (I4).
// Two kinds of calls have no on-behalf form. chdir and fchdir are let go on: a working directory grants nothing, since
// each later access is decided on the object that it resolves to. execve is let go on only where Landlock decides about
// it (H9). Service thread only.
#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "policy/files.h"
#include "supervisor/credentials.h"
#include "supervisor/notification.h"
#include "supervisor/path_walk.h"
#include "supervisor/slow_calls.h"

namespace srun::supervisor {

struct FileCall;  // file_calls.h

class FileBroker {
 public:
  // References are borrowed. Made on the service thread or before it runs; the identity is that of serve()'s thread.
  FileBroker(const policy::FileEnforcement& files, Membership membership, SlowCalls& slow);
  ~FileBroker();

  Answer serve(const Notification& notification);

 private:
  using Path = std::array<char, PATH_MAX>;

  Answer serve(const Notification& notification, const FileCall& row);
  Answer open(const Notification& notification, int directory, uint64_t path, uint64_t flags, uint64_t mode);
  Answer open_how(const Notification& notification);
  Answer open_existing(const Notification& notification, uint64_t flags, uint64_t mode, policy::FileAccess access);
  Answer create(const Notification& notification, const FileCall& row);
  Answer move(const Notification& notification, const FileCall& row);
  Answer on_object(const Notification& notification, const FileCall& row);
  int64_t act_on_object(const Notification& notification, const FileCall& row, int descriptor);
  Answer inject(const Notification& notification, const UniqueFd& fd, uint64_t flags);

  // The policy's word about walked_[which] and `access`. An answer if it is not "act": then it is final.
  std::optional<Answer> decide(const Notification& notification, size_t which, policy::FileAccess access);
  Answer refuse(const policy::FileDecision& decision, size_t which, policy::FileAccess access);
  // Becomes the asking task. An answer if that can't be.
  std::optional<Answer> take_identity(const Notification& notification, bool real, bool needs_umask);
  // A walk that failed may have failed at a covered directory, in which nothing is to be found: then it is that which
  // is told. By the text of the name, which is enough to refuse.
  std::optional<Answer> refuse_by_name(const Notification& notification, int directory, std::string_view path,
                                       policy::FileAccess access);
  int read_path(const Notification& notification, uint64_t address, Path& buffer, std::string_view& path) const;
  Answer finish(Answer answer) const;

  const policy::FileEnforcement& files_;
  Membership membership_;
  SlowCalls& slow_;
  PathWalker walker_;
  Identity identity_;
  TaskCredentials task_;
  std::array<const FileCall*, 512> rows_{};  // by number, native architecture
  std::array<Path, 2> text_;
  std::array<Walked, 2> walked_;
  std::string object_;  // what the last answer's `object` shows; its memory is kept
  // A "log" decision on the way to the act: told with its result.
  std::optional<policy::FileDecision> logged_;
  policy::FileAccess logged_access_ = policy::FileAccess::kNone;
};

}  // namespace srun::supervisor
