#include "policy/kernel_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

namespace srun::policy {
namespace {

constexpr int kLeastAbi = 3;  // truncating is Landlock's business from ABI 3 on (Linux 6.2)
constexpr FileAccess kWriting = FileAccess::kWrite | FileAccess::kCreate | FileAccess::kRemove;

// LANDLOCK_ACCESS_FS_*
constexpr uint64_t kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3, kRemoveDir = 1 << 4,
                   kRemoveFile = 1 << 5, kMakeChar = 1 << 6, kMakeDir = 1 << 7, kMakeReg = 1 << 8, kMakeSock = 1 << 9,
                   kMakeFifo = 1 << 10, kMakeBlock = 1 << 11, kMakeSym = 1 << 12, kRefer = 1 << 13, kTruncate = 1 << 14;
constexpr uint64_t kReads = kReadFile | kReadDir;
constexpr uint64_t kWrites =
    kWriteFile | kRemoveDir | kRemoveFile | kMakeDir | kMakeReg | kMakeSock | kMakeFifo | kMakeSym | kRefer | kTruncate;

bool is_below(std::string_view path, std::string_view top) {
  return top == "/" || path == top || (path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/');
}
bool strictly_below(std::string_view path, std::string_view top) { return path != top && is_below(path, top); }

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? std::string_view("/") : path.substr(0, slash);
}

// The part of a pattern that is certain.
std::string literal_of(const FilePattern& pattern) {
  if (!pattern.wild) return pattern.text;
  const size_t slash = pattern.text.rfind('/', pattern.text.find_first_of("*?["));
  return slash == 0 ? "/" : pattern.text.substr(0, slash);
}

enum class Presence : uint8_t { kAbsent, kElsewhere, kHere };
// kElsewhere: a symbolic link, or reached by one: what it leads to is another pattern of the same entry.
Presence presence(const std::string& path, struct stat& status) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return Presence::kAbsent;
  if (path != resolved) return Presence::kElsewhere;
  return lstat(path.c_str(), &status) == 0 ? Presence::kHere : Presence::kAbsent;
}

class Planner {
 public:
  Planner(const std::vector<FileLayer>& layers, const LoweringOptions& options) : options_(options) {
    matcher_ = make_file_matcher(layers, {});
    for (const FileLayer& layer : layers) sections_.push_back(layer.section);
  }

  KernelFiles plan() {
    KernelFiles out;
    if (std::optional<std::string> reason = unfit()) {
      out.why_not = std::move(*reason);
      return out;
    }
    for (const FilesSection* section : sections_) {
      reads_listed_ = reads_listed_ || section->present[static_cast<size_t>(FileVerb::kRead)];
      for (const FileEntry& entry : section->entries)
        if (takes_away(entry.verb))
          for (const FilePattern& pattern : entry.patterns)
            if (std::optional<std::string> reason = take_away(entry, pattern.text, out)) {
              out = {};
              out.why_not = std::move(*reason);
              return out;
            }
    }
    cover_raw_devices("/dev", 3, out);
    out.reads_handled = reads_listed_ || !around_.empty();
    // A directory on the way to something that is granted around is not granted itself: listing it is served.
    out.reads_exact = around_.empty();
    add_grants(out);
    // A mask on a directory must not hide another one's place: what is above comes first.
    std::sort(out.masks.begin(), out.masks.end(), [](const Mask& a, const Mask& b) {
      return a.kind != b.kind ? a.kind == Mask::Kind::kReadOnly : a.path < b.path;
    });
    out.masks.erase(std::unique(out.masks.begin(), out.masks.end(),
                                [](const Mask& a, const Mask& b) { return a.kind == b.kind && a.path == b.path; }),
                    out.masks.end());
    drop_hidden_masks(out.masks);
    out.used = true;
    return out;
  }

 private:
  static std::string place(const FileEntry& entry) {
    return entry.file + (entry.line != 0 ? ":" + std::to_string(entry.line) : "") + " " + entry.pointer;
  }

  std::optional<std::string> unfit() const {
    if (options_.landlock_abi < kLeastAbi) return "Landlock ABI 3 (Linux 6.2) is not there";
    for (const FilesSection* section : sections_)
      for (const FileEntry& entry : section->entries) {
        if (entry.verb == FileVerb::kLog) return place(entry) + " records";
        if (entry.error != 0 && entry.error != EACCES) return place(entry) + " names an errno of its own";
        if (!takes_away(entry.verb)) continue;
        for (const FilePattern& pattern : entry.patterns)
          if (pattern.wild)
            return place(entry) +
                   " is a pattern that holds for later files (\"at\": \"start\" would hold for present ones)";
      }
    return std::nullopt;
  }

  // Somebody may make or remove names at `path`.
  bool is_writable_place(const std::string& path) const {
    for (const FilesSection* section : sections_)
      for (const FileEntry& entry : section->entries)
        if (entry.verb == FileVerb::kWrite)
          for (const FilePattern& pattern : entry.patterns)
            if (is_below(path, literal_of(pattern))) return true;
    return false;
  }

  // A grant of `verb` or more below `path`, which a mask over it would hide.
  bool is_pierced(const std::string& path, bool for_writing) const {
    for (const FilesSection* section : sections_)
      for (const FileEntry& entry : section->entries) {
        if (takes_away(entry.verb) || entry.verb == FileVerb::kLog || (for_writing && entry.verb != FileVerb::kWrite))
          continue;
        for (const FilePattern& pattern : entry.patterns) {
          const std::string literal = literal_of(pattern);
          if (strictly_below(literal, path) || (pattern.wild && is_below(literal, path))) return true;
        }
      }
    return false;
  }

  std::optional<std::string> take_away(const FileEntry& entry, const std::string& path, KernelFiles& out) {
    const bool deny = closes(entry.verb);
    const bool writable = is_writable_place(path);
    out.guards_names = out.guards_names || writable;
    struct stat status {};
    switch (presence(path, status)) {
      case Presence::kElsewhere:
        return std::nullopt;
      case Presence::kAbsent:
        if (entry.at_start || (!deny && !writable)) return std::nullopt;
        return place(entry) + ": " + path + " does not exist yet";
      case Presence::kHere:
        break;
    }
    if (!deny && !writable) return std::nullopt;
    if (path == "/") return place(entry) + ": the root directory can't be covered";
    if (S_ISREG(status.st_mode) && status.st_nlink > 1) return place(entry) + ": " + path + " has other links";
    if (is_pierced(path, !deny)) return place(entry) + ": something below " + path + " is granted";
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof directory) != nullptr && is_below(directory, path) && deny)
      return place(entry) + ": " + path + " holds the working directory";
    if (options_.masks) {
      out.masks.push_back({deny ? Mask::Kind::kDeny : Mask::Kind::kReadOnly, path, S_ISDIR(status.st_mode), {}});
      return std::nullopt;
    }
    if (writable)
      return place(entry) + ": " + path +
             " is in a place for writing, and it can't be covered without a mount namespace";
    around_.push_back(path);
    return std::nullopt;
  }

  // Root reads what is denied from the disk below it, or from memory.
  void cover_raw_devices(const std::string& directory, int depth, KernelFiles& out) const {
    if (geteuid() != 0 || !options_.masks || depth == 0) return;
    const std::unique_ptr<DIR, decltype([](DIR* opened) { closedir(opened); })> opened(opendir(directory.c_str()));
    while (const dirent* const entry = opened ? readdir(opened.get()) : nullptr) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == ".." || entry->d_type == DT_LNK || entry->d_type == DT_REG) continue;
      const std::string path = directory + "/" + entry->d_name;
      struct stat status {};
      if (lstat(path.c_str(), &status) != 0) continue;
      if (S_ISDIR(status.st_mode))
        cover_raw_devices(path, depth - 1, out);
      else if (is_raw_device(status))
        out.masks.push_back({Mask::Kind::kDeny, path, false, {}});
    }
  }

  void add_grants(KernelFiles& out) {
    std::vector<FilePattern> candidates;
    if (!reads_listed_) candidates.push_back({"/", false});
    for (const std::string& device : *find_path_group("@devices")) candidates.push_back({device, false});
    for (const FilesSection* section : sections_)
      for (const FileEntry& entry : section->entries)
        if (entry.verb == FileVerb::kRead || entry.verb == FileVerb::kWrite)
          candidates.insert(candidates.end(), entry.patterns.begin(), entry.patterns.end());
    std::vector<FilePattern> inexact;
    for (const FilePattern& candidate : candidates) {
      struct stat status {};
      const Presence present = candidate.wild ? Presence::kAbsent : presence(candidate.text, status);
      if (present == Presence::kElsewhere) continue;
      if (present == Presence::kAbsent) {
        inexact.push_back(candidate);
        continue;
      }
      KernelGrant grant;
      grant.path = candidate.text;
      grant.directory = S_ISDIR(status.st_mode);
      grant.read = allows(grant.path, FileAccess::kRead);
      grant.write = allows(grant.path, grant.directory ? kWriting : FileAccess::kWrite);
      if (grant.read)
        for (const std::string& path : around_)
          if (is_below(path, grant.path)) grant.except.push_back(path);
      if (grant.read || grant.write) out.grants.push_back(std::move(grant));
    }
    std::sort(out.grants.begin(), out.grants.end(),
              [](const KernelGrant& a, const KernelGrant& b) { return a.path < b.path; });
    out.grants.erase(std::unique(out.grants.begin(), out.grants.end(),
                                 [](const KernelGrant& a, const KernelGrant& b) { return a.path == b.path; }),
                     out.grants.end());
    // What appears later, or matches a pattern, is granted only where something above it is.
    for (const FilePattern& pattern : inexact) {
      const std::string literal = literal_of(pattern);
      const auto covered = [&](bool KernelGrant::*kind) {
        return std::any_of(out.grants.begin(), out.grants.end(), [&](const KernelGrant& grant) {
          return grant.*kind && grant.directory && grant.except.empty() &&
                 (pattern.wild ? is_below(literal, grant.path) : strictly_below(literal, grant.path));
        });
      };
      const bool may_write =
          pattern.wild ? granted_anywhere(FileVerb::kWrite, pattern) : allows(pattern.text, kWriting);
      const bool may_read = pattern.wild || allows(pattern.text, FileAccess::kRead);
      if (may_write && !covered(&KernelGrant::write)) out.writes_exact = false;
      if (may_read && out.reads_handled && !covered(&KernelGrant::read)) out.reads_exact = false;
    }
  }

  bool granted_anywhere(FileVerb verb, const FilePattern& pattern) const {
    for (const FilesSection* section : sections_)
      for (const FileEntry& entry : section->entries)
        if (entry.verb == verb &&
            std::find(entry.patterns.begin(), entry.patterns.end(), pattern) != entry.patterns.end())
          return true;
    return false;
  }

  bool allows(std::string_view path, FileAccess access) const {
    return matcher_->decide(path, access).effect != FileEffect::kDeny;
  }

  // Below a covered directory nothing is left to cover.
  static void drop_hidden_masks(std::vector<Mask>& masks) {
    const std::vector<Mask> all = masks;
    std::erase_if(masks, [&all](const Mask& mask) {
      return std::any_of(all.begin(), all.end(), [&mask](const Mask& other) {
        return other.kind == Mask::Kind::kDeny &&
               (strictly_below(mask.path, other.path) || (mask.path == other.path && mask.kind != other.kind));
      });
    });
  }

  const LoweringOptions& options_;
  std::shared_ptr<const FileMatcher> matcher_;
  std::vector<const FilesSection*> sections_;
  bool reads_listed_ = false;
  std::vector<std::string> around_;  // denied, and not covered
};

}  // namespace

KernelFiles plan_kernel_files(const std::vector<FileLayer>& layers, const LoweringOptions& options) {
  return Planner(layers, options).plan();
}

bool KernelFiles::grants_all(std::string_view path, FileAccess access) const {
  if (!used || has(access, FileAccess::kAttributes | FileAccess::kExecute | FileAccess::kMetadata)) return false;
  const auto granted = [&](bool KernelGrant::*kind, bool below) {
    return std::any_of(grants.begin(), grants.end(), [&](const KernelGrant& grant) {
      if (!(grant.*kind) || !(below ? strictly_below(path, grant.path) : is_below(path, grant.path))) return false;
      // Beside something that was granted around only what was there at the start is granted.
      return std::none_of(grant.except.begin(), grant.except.end(),
                          [&](const std::string& taken) { return is_below(parent_of(taken), parent_of(path)); });
    });
  };
  if (has(access, FileAccess::kRead) && reads_handled && !granted(&KernelGrant::read, false)) return false;
  if (has(access, FileAccess::kWrite) && !granted(&KernelGrant::write, false)) return false;
  return !has(access, FileAccess::kCreate | FileAccess::kRemove) || granted(&KernelGrant::write, true);
}

uint64_t landlock_handled(const KernelFiles& files) {
  uint64_t rights = kWrites | kMakeChar | kMakeBlock;
  if (files.reads_handled) rights |= kReads;
  return rights;
}

uint64_t landlock_rights(const KernelGrant& grant) { return (grant.read ? kReads : 0) | (grant.write ? kWrites : 0); }

}  // namespace srun::policy
