#pragma once
// The `files` sections of a stack as one question: may this path be used so? Built at load, then read-only and shared
// by all threads; asking allocates nothing and makes no system call.
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "bpf/rules.h"

namespace srun::policy {

// What an act needs of the path it names; a set. The verbs of a policy are fewer: everything from kWrite on but
// kExecute and kMetadata is `write`.
enum class FileAccess : uint16_t {
  kNone = 0,
  kRead = 1 << 0,    // open for reading, list a directory, watch
  kWrite = 1 << 1,   // open for writing, truncate
  kCreate = 1 << 2,  // the path becomes a new name: O_CREAT of what is absent, mkdir, mknod, symlink, link, rename to
  kRemove = 1 << 3,  // the name goes: unlink, rmdir, rename from
  kAttributes = 1 << 4,  // mode, owner, times, extended attributes, inode flags
  kExecute = 1 << 5,
  kMetadata = 1 << 6,  // stat, readlink, access, statfs, chdir: always allowed, but redirected and logged
};
constexpr FileAccess operator|(FileAccess a, FileAccess b) {
  return static_cast<FileAccess>(static_cast<uint16_t>(a) | static_cast<uint16_t>(b));
}
constexpr FileAccess& operator|=(FileAccess& a, FileAccess b) { return a = a | b; }
constexpr bool has(FileAccess set, FileAccess part) {
  return (static_cast<uint16_t>(set) & static_cast<uint16_t>(part)) != 0;
}

enum class FileEffect : uint8_t { kAllow, kLog, kRedirect, kDeny };

struct FileDecision {
  FileEffect effect = FileEffect::kDeny;
  // The kernel alone lets this act pass exactly where the policy does: Landlock grants this path, or nothing about it
  // is restricted. Only then may the supervisor let the call run on (I1). Never with kRedirect or kDeny; with kLog only
  // under --audit.
  bool kernel_grants = false;
  int32_t error = 0;         // kDeny: the errno, positive
  bpf::VerdictId verdict{};  // index into Enforcement::verdicts: the rule that decided; meaningless for a plain kAllow
  uint16_t redirect = 0;     // kRedirect: index into FileEnforcement::redirects
};

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class FileMatcher {
 public:
  virtual ~FileMatcher() = default;
  // `path` is canonical as the target sees it: absolute, no "." or "..", no "//", no trailing slash but "/" itself, no
  // symbolic link in it but perhaps the object itself. The strictest layer decides.
  virtual FileDecision decide(std::string_view path, FileAccess wanted) const = 0;
  // The same for an object that was reached under another name: a denial if it is one of the protected ones (H8).
  virtual std::optional<FileDecision> decide_object(const FileIdentity& object, FileAccess wanted) const = 0;
  // A name with a symbolic link in it, as it was before the link was followed: a denial if an entry that takes away
  // means that name.
  virtual std::optional<FileDecision> decide_alias(std::string_view name, FileAccess wanted) const = 0;
  // True if decide_object() can ever say something: else nobody needs to look up identities.
  virtual bool has_objects() const = 0;
  // H2: moving or linking `from` to `to` (both canonical; `exchange` swaps them; `directory`: one of them is one). A
  // denial (EACCES on a protected object, else EXDEV) if a rule that takes away can match at or below one of them, or
  // the new name grants a verb that the old one lacked. The create and remove rights themselves are decide()'s
  // business.
  virtual std::optional<FileDecision> decide_move(std::string_view from, std::string_view to, bool exchange,
                                                  bool directory) const = 0;
};

// A file that stands for another (H15).
struct Redirect {
  std::string path;    // what the target names
  std::string target;  // for messages
  UniqueFd object;     // O_PATH, pinned at load
  bool writable = false;
};

// A path covered in the private mount namespace: denied, read-only, or a file with another text.
struct Mask {
  enum class Kind : uint8_t { kDeny, kReadOnly, kContent } kind = Kind::kDeny;
  std::string path;
  bool directory = false;
  std::string content;  // kContent, at most one in a run
};

// Disks, and the kernel's view of all memory: whoever reads them reads every file.
bool is_raw_device(const struct stat& status);

// What the files sections make of a run.
struct FileEnforcement {
  bool present = false;  // some layer has "files": matcher is set
  bool audit = false;    // --audit: everything is let go on, and recorded if it would have been denied
  std::shared_ptr<const FileMatcher> matcher;
  std::vector<Redirect> redirects;
  std::vector<Mask> masks;
  bool reads_named = true;  // denied reads are asked about, so they are named
  // Some allowed act is withheld from the kernel, so the supervisor does it on behalf of the target.
  bool broker = false;
};

}  // namespace srun::policy
