#pragma once
// From a path in a target's memory to a pinned object, as the target's own walk would go: from its root, working
// directory or descriptor, `/proc/self` meaning the target, magic links resolved by hand (H1, pitfalls 5.18, 5.19).
// Service thread.
#include <sys/types.h>

#include <array>
#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "supervisor/notification.h"
#include "supervisor/process_tree.h"

namespace srun::supervisor {

// What a walk found. The object and its parent are O_PATH descriptors: whatever happens to the names, acts go to them.
struct Walked {
  UniqueFd parent;  // the directory that holds `name`; empty where the walk ended at a directory itself ("/", ".",
                    // "..", a link of procfs)
  UniqueFd object;  // empty: there is nothing of that name in `parent`
  std::array<char, NAME_MAX + 1> name{};  // the last component
  bool nameless = false;         // a pipe, a socket …, reached by /proc/self/fd/N: `path` is only for messages
  bool wants_directory = false;  // the path ended in a slash
  std::array<char, PATH_MAX + NAME_MAX + 2> path{};
  size_t path_length = 0;
  std::string_view canonical() const { return {path.data(), path_length}; }
  // For each symbolic link that was followed, the name as it was before: what rules say about that holds as well.
  std::vector<std::string> aliases;
};

enum class Last : uint8_t {
  kFollow,    // the object behind a last symbolic link
  kNoFollow,  // the link itself
  kParent,    // only up to the directory that holds the last component, which is not looked at
};

class PathWalker {
 public:
  explicit PathWalker(Membership membership) : membership_(membership) {}

  // `directory`: a descriptor number of the target, or AT_FDCWD. `path` is the copy that was read once; an empty one is
  // ENOENT here. `absent_is_fine`: a missing last component is no error (O_CREAT). Returns 0 or an errno as the
  // kernel's own walk gives it.
  int walk(const Notification& notification, int directory, std::string_view path, Last last, bool absent_is_fine,
           Walked& walked) const;
  // The object of a descriptor of the target (AT_EMPTY_PATH, fchmod …).
  int walk_descriptor(const Notification& notification, int descriptor, Walked& walked) const;

 private:
  int walk_by_hand(const Notification& notification, UniqueFd start, std::string_view path, Last last,
                   bool absent_is_fine, Walked& walked) const;
  bool is_open_process(const Notification& notification, pid_t pid) const;

  Membership membership_;
};

// The path of what `fd` stands for, as the mount namespace of the object has it. False if it has none (deleted,
// unreachable, longer than PATH_MAX, or a name that looks like these).
bool path_of(BorrowedFd fd, std::array<char, PATH_MAX + NAME_MAX + 2>& path, size_t& length);

}  // namespace srun::supervisor
