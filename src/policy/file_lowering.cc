#include "policy/file_lowering.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "kernel/syscall_table.h"
#include "policy/file_matcher.h"

namespace srun::policy {
namespace {

constexpr uint64_t kOPath = 010000000;             // the same on x86-64 and aarch64
constexpr uint64_t kMfdNoexecSeal = 8;             // Linux 6.3
constexpr uint64_t kPrSetDumpable = 4;
constexpr uint64_t kFsIocSetflags = 0x40086602;
constexpr uint64_t kFsIoc32Setflags = 0x40046602;
constexpr uint64_t kFsIocFssetxattr = 0x401c5820;
constexpr uint64_t kLandlockExecute = 1 << 0;      // LANDLOCK_ACCESS_FS_EXECUTE, ABI 1
constexpr uint64_t kLandlockMakeSock = 1 << 9;     // LANDLOCK_ACCESS_FS_MAKE_SOCK, ABI 1

bpf::ArgTest test(uint8_t arg, bpf::CompareOp op, std::vector<uint64_t> values, uint64_t mask = ~uint64_t{0}) {
  bpf::ArgTest out;
  out.arg = arg;
  out.width = bpf::CompareWidth::kU32;
  out.op = op;
  out.mask = mask;
  out.values = std::move(values);
  return out;
}

class RuleList {
 public:
  void add(std::initializer_list<std::string_view> names, ActionSpec action, std::vector<bpf::ArgTest> when = {}) {
    Rule rule;
    for (const std::string_view name : names)
      if (const kernel::Syscall* const call = kernel::find_syscall(name)) rule.calls.push_back({call, true});
    rule.when = std::move(when);
    rule.action = action;
    rule.place.pointer = "files";
    rule.place.file = "(guard layer)";
    rule.reason = "what a path leads to is decided by the supervisor, and this would go past it";
    rules_.push_back(std::move(rule));
  }
  std::vector<Rule> take() { return std::move(rules_); }

 private:
  std::vector<Rule> rules_;
};

bool has_verb(const PolicyStack& stack, FileVerb verb) {
  return std::any_of(stack.layers.begin(), stack.layers.end(), [verb](const StackLayer& layer) {
    return layer.policy != nullptr && layer.policy->files && layer.policy->files->present[static_cast<size_t>(verb)];
  });
}

bool is_wild(const std::string& pattern) { return pattern.find_first_of("*?[") != std::string::npos; }

}  // namespace

bool restricts_files(const PolicyStack& stack) {
  return std::any_of(stack.layers.begin(), stack.layers.end(),
                     [](const StackLayer& layer) { return layer.policy != nullptr && layer.policy->files.has_value(); });
}

std::vector<Rule> file_rules(const PolicyStack& stack) {
  if (!restricts_files(stack)) return {};
  const ActionSpec ask{Action::kCheck, 0, Check::kFile};
  const ActionSpec refuse{Action::kErrno, EPERM, Check::kNone};
  const ActionSpec absent{Action::kErrno, ENOSYS, Check::kNone};
  RuleList list;
  // An O_PATH descriptor grants nothing; each use of it is decided then.
  const auto path_only = [](uint8_t arg) { return std::vector{test(arg, bpf::CompareOp::kMasked, {kOPath}, kOPath)}; };
  list.add({"open"}, {}, path_only(1));
  list.add({"openat"}, {}, path_only(2));
  list.add({"open", "openat", "openat2", "creat"}, ask);
  list.add({"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir"}, ask);
  list.add({"rename", "renameat", "renameat2", "link", "linkat"}, ask);
  list.add({"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "truncate"}, ask);
  list.add({"utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"}, ask);
  list.add({"inotify_add_watch", "execve", "execveat"}, ask);
  if (has_verb(stack, FileVerb::kLog)) {
    list.add({"stat", "lstat", "newfstatat", "statx", "statfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat"}, ask);
    list.add({"getxattr", "lgetxattr", "listxattr", "llistxattr", "chdir", "fchdir"}, ask);
  }
  // Newer forms, for which every program has an older one to fall back on.
  list.add({"setxattrat", "removexattrat", "file_setattr"}, absent);
  list.add({"fanotify_mark", "chroot"}, refuse);
  // Inode flags change a file through any descriptor (H35).
  list.add({"ioctl"}, refuse, {test(1, bpf::CompareOp::kIn, {kFsIocSetflags, kFsIoc32Setflags, kFsIocFssetxattr})});
  // The supervisor must be able to read what it decides about (H34): said to have worked, without effect.
  list.add({"prctl"}, {Action::kReturn, 0, Check::kNone}, {test(0, bpf::CompareOp::kEqual, {kPrSetDumpable})});
  if (has_verb(stack, FileVerb::kExecute)) {
    // Landlock does not see what runs from memory (H10).
    list.add({"memfd_create"}, {}, {test(1, bpf::CompareOp::kMasked, {kMfdNoexecSeal}, kMfdNoexecSeal)});
    list.add({"memfd_create"}, {Action::kErrno, EACCES, Check::kNone});
  }
  return list.take();
}

Result<void, PolicyError> lower_files(const PolicyStack& stack, const LoweringOptions& options, VerdictTableBuilder& verdicts,
                                      Enforcement& out) {
  if (!restricts_files(stack)) return {};
  std::vector<FileLayer> layers;
  std::vector<const FilesSection*> sections;
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    const Policy* const policy = stack.layers[i].policy.get();
    if (policy == nullptr) continue;
    for (const UnsafeEntry& entry : policy->unsafe) {
      // Each of these changes what a path leads to, or names files where no rule sees it.
      if (entry.part == "namespaces" || entry.part == "mount" || entry.part == "open-by-handle" || entry.part == "io_uring" || entry.part == "foreign-abi")
        return failure(PolicyError{entry.place.file, entry.place.line, entry.place.pointer,
                                   "\"" + entry.part + "\" cannot be lifted together with a files section: paths would not mean what the section says", {}});
    }
    if (!policy->files) continue;
    const FilesSection& section = *policy->files;
    FileLayer layer;
    layer.section = &section;
    const auto verdict = [&](std::string file, uint32_t line, std::string pointer, std::string reason, int32_t error) {
      Verdict made;
      made.action = Action::kErrno;
      made.value = error != 0 ? error : EACCES;
      made.quiet = options.denials == Denials::kNone;
      made.rule.layer = static_cast<uint16_t>(i + 1);
      made.rule.file = std::move(file);
      made.rule.line = line;
      made.rule.pointer = std::move(pointer);
      made.rule.reason = std::move(reason);
      return verdicts.add(std::move(made));
    };
    for (const FileEntry& entry : section.entries)
      layer.entries.push_back(verdict(entry.file, entry.line, entry.pointer, entry.reason.empty() ? entry.text : entry.reason, entry.error));
    constexpr std::string_view kNames[] = {"read", "write", "execute"};
    for (size_t verb = 0; verb < 3; ++verb) {
      const std::string& file = section.list_file[verb].empty() ? policy->name : section.list_file[verb];
      layer.unmatched[verb] = verdict(file, section.list_line[verb], "#/files/" + std::string(kNames[verb]), "no entry matches", 0);
    }
    sections.push_back(&section);
    layers.push_back(std::move(layer));
    out.notes.insert(out.notes.end(), policy->notes.begin(), policy->notes.end());
  }
  out.files.present = true;
  out.files.broker = true;
  out.files.matcher = make_file_matcher(layers, {options.audit});
  if (options.audit) return {};

  // Executing has no on-behalf form (H9), and making a socket's name no call of its own: both are Landlock's.
  const bool executes = has_verb(stack, FileVerb::kExecute);
  if (options.landlock_abi < 1) {
    if (executes) return failure(PolicyError{{}, 0, {}, "files: an execute list needs Landlock, which this kernel does not offer; leave out \"execute\"", {}});
    out.notes.push_back("without Landlock a socket can be bound to a name in any directory where permissions allow it");
    return {};
  }
  out.landlock.handled_fs = kLandlockMakeSock | (executes ? kLandlockExecute : 0);
  for (const FilesSection* section : sections) {
    for (const FileEntry& entry : section->entries) {
      uint64_t rights = 0;
      FileAccess access = FileAccess::kNone;
      if (entry.verb == FileVerb::kExecute) {
        rights = kLandlockExecute;
        access = FileAccess::kExecute;
      } else if (entry.verb == FileVerb::kWrite || entry.verb == FileVerb::kLog) {
        rights = kLandlockMakeSock;
        access = FileAccess::kCreate;
      } else {
        continue;
      }
      for (const std::string& pattern : entry.patterns) {
        if (is_wild(pattern)) {
          if (entry.verb == FileVerb::kExecute)
            return failure(PolicyError{entry.file, entry.line, entry.pointer, "\"" + entry.text + "\": executing is enforced by the kernel, which knows no patterns", {}});
          continue;
        }
        if (out.files.matcher->decide(pattern, access).effect != FileEffect::kDeny) out.landlock.paths.push_back({pattern, rights});
      }
    }
  }
  return {};
}

}  // namespace srun::policy
