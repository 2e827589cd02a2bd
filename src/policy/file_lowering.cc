#include "policy/file_lowering.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "kernel/syscall_table.h"
#include "policy/file_matcher.h"

namespace srun::policy {
namespace {

constexpr uint64_t kOPath = 010000000;                             // the same on x86-64 and aarch64
constexpr uint64_t kWritingFlags = 03 | 0100 | 01000 | 020000000;  // O_ACCMODE, O_CREAT, O_TRUNC, O_TMPFILE's own bit
constexpr uint64_t kMfdNoexecSeal = 8;                             // Linux 6.3
constexpr uint64_t kPrSetDumpable = 4;
// ioctl types (bits 8-15 of a request) of file systems: many of their requests change a file, or make a second name for
// what lies below it (snapshots), through a descriptor that was opened for reading (H35).
constexpr uint64_t kFileSystemTypes[] = {'f', 'v', 'X', 0x94, 0xbc};
constexpr uint64_t kIoctlType = 0xff00;
// Those that only look, or write through a descriptor that is open for writing: FS_IOC_GETFLAGS (64 and 32 bit),
// FS_IOC_GETVERSION (both), FS_IOC_FSGETXATTR, FS_IOC_FIEMAP, FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_GETFSLABEL.
constexpr uint64_t kHarmlessIoctls[] = {0x80086601, 0x80046601, 0x80087601, 0x80047601, 0x801c581f,
                                        0xc020660b, 0x40049409, 0x4020940d, 0xc0189436, 0x81009431};
constexpr uint64_t kLandlockExecute = 1 << 0;   // LANDLOCK_ACCESS_FS_EXECUTE, ABI 1
constexpr uint64_t kLandlockMakeSock = 1 << 9;  // LANDLOCK_ACCESS_FS_MAKE_SOCK, ABI 1

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

bool is_below(const std::string& path, const std::string& top) {
  return top == "/" || path == top || path.starts_with(top + "/");
}

// A pattern that takes away can match at or below `top`: by its part without wildcards, which is all that is certain.
bool wild_below(const FilePattern& pattern, const std::string& top) {
  if (!pattern.wild) return false;
  const size_t slash = pattern.text.rfind('/', pattern.text.find_first_of("*?["));
  const std::string literal = slash == 0 ? "/" : pattern.text.substr(0, slash);
  return is_below(literal, top) || is_below(top, literal);
}

// Sockets' names: where a list grants creating, but for what is taken away below. One pattern that takes away and could
// match there withholds the whole.
void grant_sockets(const std::vector<const FilesSection*>& sections, const FileMatcher& matcher, LandlockPlan& plan) {
  plan.handled_fs |= kLandlockMakeSock;
  for (const FilesSection* section : sections)
    for (const FileEntry& entry : section->entries) {
      if (entry.verb != FileVerb::kWrite && entry.verb != FileVerb::kLog) continue;
      for (const FilePattern& pattern : entry.patterns) {
        if (pattern.wild || matcher.decide(pattern.text, FileAccess::kCreate).effect == FileEffect::kDeny) continue;
        LandlockPlan::PathGrant grant{pattern.text, kLandlockMakeSock, {}};
        bool withheld = false;
        for (const FilesSection* other : sections)
          for (const FileEntry& taking : other->entries) {
            if (!takes_away(taking.verb)) continue;
            for (const FilePattern& taken : taking.patterns) {
              withheld = withheld || wild_below(taken, pattern.text);
              if (!taken.wild && is_below(taken.text, pattern.text)) grant.except.push_back(taken.text);
            }
          }
        if (!withheld) plan.paths.push_back(std::move(grant));
      }
    }
}

// Executing: what the lists say (without an execute list, what is readable), around denied programs that are not
// covered.
Result<void, PolicyError> grant_executing(const std::vector<const FilesSection*>& sections, const FileMatcher& matcher,
                                          bool covered, LandlockPlan& plan) {
  std::vector<std::string> programs;
  bool lists = false;
  for (const FilesSection* section : sections) {
    lists = lists || section->present[static_cast<size_t>(FileVerb::kExecute)] ||
            section->present[static_cast<size_t>(FileVerb::kRead)];
    if (covered) continue;  // denied programs can't be reached at all
    for (const FileEntry& entry : section->entries)
      programs.insert(programs.end(), entry.programs.begin(), entry.programs.end());
  }
  if (!lists && programs.empty()) return {};
  plan.handled_fs |= kLandlockExecute;
  const auto grant = [&](const std::string& path) {
    LandlockPlan::PathGrant made{path, kLandlockExecute, {}};
    for (const std::string& program : programs)
      if (is_below(program, path) && matcher.decide(program, FileAccess::kExecute).effect == FileEffect::kDeny)
        made.except.push_back(program);
    plan.paths.push_back(std::move(made));
  };
  if (!lists) grant("/");
  for (const FilesSection* section : sections) {
    const bool own = section->present[static_cast<size_t>(FileVerb::kExecute)];
    if (!own && !section->present[static_cast<size_t>(FileVerb::kRead)]) continue;
    for (const FileEntry& entry : section->entries) {
      const bool grants =
          own ? entry.verb == FileVerb::kExecute : entry.verb == FileVerb::kRead || entry.verb == FileVerb::kWrite;
      if (!grants && entry.verb != FileVerb::kLog) continue;
      for (const FilePattern& pattern : entry.patterns) {
        if (pattern.wild && entry.verb == FileVerb::kExecute)
          return failure(
              PolicyError{entry.file,
                          entry.line,
                          entry.pointer,
                          "\"" + entry.text + "\": executing is enforced by the kernel, which knows no patterns",
                          {}});
        if (!pattern.wild && matcher.decide(pattern.text, FileAccess::kExecute).effect != FileEffect::kDeny)
          grant(pattern.text);
      }
    }
  }
  return {};
}

}  // namespace

bool restricts_files(const PolicyStack& stack) {
  return std::any_of(stack.layers.begin(), stack.layers.end(), [](const StackLayer& layer) {
    return layer.policy != nullptr && layer.policy->files.has_value();
  });
}

std::vector<Rule> file_rules(const PolicyStack& stack, const KernelFiles& kernel, const LoweringOptions& options) {
  if (!restricts_files(stack)) return {};
  // What the kernel enforces is asked about where it lets pass less than the sections do, and to name what it refuses.
  const bool reads = !kernel.used || !kernel.reads_exact || options.denials == Denials::kAll;
  const bool writes = reads || !kernel.writes_exact || options.denials != Denials::kNone;
  const ActionSpec ask{Action::kCheck, 0, Check::kFile};
  const ActionSpec refuse{Action::kErrno, EPERM, Check::kNone};
  const ActionSpec absent{Action::kErrno, ENOSYS, Check::kNone};
  RuleList list;
  // An O_PATH descriptor grants nothing; each use of it is decided then.
  const auto path_only = [](uint8_t arg) { return std::vector{test(arg, bpf::CompareOp::kMasked, {kOPath}, kOPath)}; };
  list.add({"open"}, {}, path_only(1));
  list.add({"openat"}, {}, path_only(2));
  if (!reads) {
    const auto only_reads = [](uint8_t arg) {
      return std::vector{test(arg, bpf::CompareOp::kMasked, {0}, kWritingFlags)};
    };
    list.add({"open"}, {}, only_reads(1));
    list.add({"openat"}, {}, only_reads(2));
  }
  if (writes) {
    list.add({"open", "openat", "creat"}, ask);
    list.add(
        {"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir", "truncate"},
        ask);
    list.add({"execve", "execveat"}, ask);
  }
  // Its flags are in memory: not worth a question to name a refusal.
  if (reads || !kernel.writes_exact) list.add({"openat2"}, ask);
  if (writes || kernel.guards_names) list.add({"rename", "renameat", "renameat2", "link", "linkat"}, ask);
  if (reads || kernel.reads_handled) list.add({"inotify_add_watch"}, ask);
  // Attributes are nothing that Landlock knows.
  list.add({"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"}, ask);
  list.add({"utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr",
            "lremovexattr", "fremovexattr"},
           ask);
  if (has_verb(stack, FileVerb::kLog)) {
    list.add({"stat", "lstat", "newfstatat", "statx", "statfs", "access", "faccessat", "faccessat2", "readlink",
              "readlinkat"},
             ask);
    list.add({"getxattr", "lgetxattr", "listxattr", "llistxattr", "chdir", "fchdir"}, ask);
  }
  if (options.audit) return list.take();
  // Newer forms, for which every program has an older one to fall back on.
  list.add({"setxattrat", "removexattrat", "file_setattr"}, absent);
  list.add({"fanotify_mark", "chroot"}, refuse);
  list.add({"ioctl"}, {}, {test(1, bpf::CompareOp::kIn, {std::begin(kHarmlessIoctls), std::end(kHarmlessIoctls)})});
  for (const uint64_t type : kFileSystemTypes)
    list.add({"ioctl"}, refuse, {test(1, bpf::CompareOp::kMasked, {type << 8}, kIoctlType)});
  // The supervisor must be able to read what it decides about (H34): said to have worked, without effect.
  list.add({"prctl"}, {Action::kReturn, 0, Check::kNone}, {test(0, bpf::CompareOp::kEqual, {kPrSetDumpable})});
  if (has_verb(stack, FileVerb::kExecute)) {
    // Landlock does not see what runs from memory (H10).
    list.add({"memfd_create"}, {}, {test(1, bpf::CompareOp::kMasked, {kMfdNoexecSeal}, kMfdNoexecSeal)});
    list.add({"memfd_create"}, {Action::kErrno, EACCES, Check::kNone});
  }
  return list.take();
}

Result<void, PolicyError> lower_files(const PolicyStack& stack, const std::shared_ptr<const KernelFiles>& kernel,
                                      const LoweringOptions& options, VerdictTableBuilder& verdicts, Enforcement& out) {
  if (!restricts_files(stack)) return {};
  std::vector<FileLayer> layers;
  std::vector<const FilesSection*> sections;
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    const Policy* const policy = stack.layers[i].policy.get();
    if (policy == nullptr) continue;
    for (const UnsafeEntry& entry : policy->unsafe) {
      // Each of these changes what a path leads to, or names files where no rule sees it.
      if (entry.part == "namespaces" || entry.part == "mount" || entry.part == "open-by-handle" ||
          entry.part == "io_uring" || entry.part == "foreign-abi")
        return failure(PolicyError{
            entry.place.file,
            entry.place.line,
            entry.place.pointer,
            "\"" + entry.part +
                "\" cannot be lifted together with a files section: paths would not mean what the section says",
            {}});
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
      layer.entries.push_back(
          verdict(entry.file, entry.line, entry.pointer,
                  entry.reason.empty() ? entry.text + (entry.verb == FileVerb::kAsk ? " (nobody can be asked yet)" : "")
                                       : entry.reason,
                  entry.error));
    constexpr std::string_view kNames[] = {"read", "write", "execute"};
    for (size_t verb = 0; verb < 3; ++verb) {
      const std::string& file = section.list_file[verb].empty() ? policy->name : section.list_file[verb];
      layer.unmatched[verb] =
          verdict(file, section.list_line[verb], "#/files/" + std::string(kNames[verb]), "no entry matches", 0);
    }
    sections.push_back(&section);
    layers.push_back(std::move(layer));
    out.notes.insert(out.notes.end(), policy->notes.begin(), policy->notes.end());
  }
  out.files.present = true;
  out.files.broker = true;
  out.files.audit = options.audit;
  out.files.matcher = make_file_matcher(layers, {options.audit, kernel});
  if (options.audit) return {};
  out.notes.push_back(kernel->used
                          ? "files: enforced by the kernel (Landlock" +
                                std::string(kernel->masks.empty()
                                                ? ")"
                                                : " and " + std::to_string(kernel->masks.size()) + " covered paths)")
                          : "files: every call is served by the supervisor, since " + kernel->why_not);

  // Executing has no on-behalf form (H9), and making a socket's name no call of its own: both are Landlock's.
  if (options.landlock_abi < 1) {
    if (has_verb(stack, FileVerb::kExecute))
      return failure(
          PolicyError{{},
                      0,
                      {},
                      "files: an execute list needs Landlock, which this kernel does not offer; leave out \"execute\"",
                      {}});
    out.warnings.emplace_back(
        "without Landlock, which this kernel does not offer, the files section does not keep unreadable or denied "
        "programs from being executed, nor sockets from getting names");
    return {};
  }
  if (kernel->used) {
    out.files.masks.insert(out.files.masks.end(), kernel->masks.begin(), kernel->masks.end());
    out.files.reads_named = !kernel->reads_exact || options.denials == Denials::kAll;
    out.landlock.handled_fs |= landlock_handled(*kernel);
    for (const KernelGrant& grant : kernel->grants) {
      // Around a denied path only reading is granted piece by piece; nothing may be written there anyway.
      if (const uint64_t rights = landlock_rights(grant) & landlock_handled(*kernel))
        out.landlock.paths.push_back({grant.path, rights, grant.except});
    }
  } else {
    grant_sockets(sections, *out.files.matcher, out.landlock);
  }
  return grant_executing(sections, *out.files.matcher, kernel->used && options.masks, out.landlock);
}

}  // namespace srun::policy
