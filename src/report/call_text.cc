#include "report/call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "kernel/arch.h"
#include "kernel/constants.h"
#include "kernel/syscall_table.h"

namespace srun::report {
namespace {

using kernel::Arch;
using kernel::ArgKind;
using kernel::Width;

enum class Style : uint8_t {
  kOne,            // exactly one of the names
  kFlags,          // names joined by |
  kFlagsWithZero,  // the same, and the field in the low two bits has a name for 0 (O_RDONLY)
  kBaseAndFlags,   // one of the names in the low four bits, flags above (SOCK_*)
  kClone,          // CLONE_* above, a signal in the low byte
  kSignal,
  kDirFd,
  kOctal,
  kHex,
  kId,      // unsigned, -1 for all ones
  kNumber,  // decimal, by width
  kOpaque,  // a number or a pointer, depending on another argument
};

// Which constants name a kind's values: names, "PREFIX_*", and with "-" in front what to leave out (aliases, other
// fields with the same prefix). Values come from the one table of constants.
struct KindRow {
  ArgKind kind;
  Style style;
  std::string_view names;
};

constexpr KindRow kKinds[] = {
    {ArgKind::kFlags, Style::kHex, ""},
    {ArgKind::kDevice, Style::kHex, ""},
    {ArgKind::kMode, Style::kOctal, ""},
    {ArgKind::kUid, Style::kId, ""},
    {ArgKind::kGid, Style::kId, ""},
    {ArgKind::kUid16, Style::kId, ""},
    {ArgKind::kGid16, Style::kId, ""},
    {ArgKind::kUlong, Style::kOpaque, ""},
    {ArgKind::kSize, Style::kNumber, ""},
    {ArgKind::kSigsetSize, Style::kNumber, ""},
    {ArgKind::kOffsetLow, Style::kNumber, ""},
    {ArgKind::kOffsetHigh, Style::kNumber, ""},
    {ArgKind::kPageOffset, Style::kNumber, ""},
    {ArgKind::kFcntlArg, Style::kOpaque, ""},
    {ArgKind::kIoctlArg, Style::kOpaque, ""},
    {ArgKind::kPrctlArg, Style::kOpaque, ""},
    {ArgKind::kSeccompArg, Style::kOpaque, ""},
    {ArgKind::kKeyctlArg, Style::kOpaque, ""},
    {ArgKind::kAddress, Style::kHex, ""},
    {ArgKind::kAioContext, Style::kHex, ""},
    {ArgKind::kFanotifyMask, Style::kHex, ""},
    {ArgKind::kFutexMask, Style::kHex, ""},
    {ArgKind::kKexecFileFlags, Style::kHex, ""},
    {ArgKind::kKexecFlags, Style::kHex, ""},
    {ArgKind::kMempolicyFlags, Style::kHex, ""},
    {ArgKind::kMempolicyMode, Style::kNumber, ""},
    {ArgKind::kPerfFlags, Style::kHex, ""},
    {ArgKind::kPkeyRights, Style::kHex, ""},
    {ArgKind::kSigmaskWord, Style::kHex, ""},
    {ArgKind::kSignal, Style::kSignal, ""},
    {ArgKind::kDirFd, Style::kDirFd, ""},
    {ArgKind::kCloneFlags, Style::kClone, "CLONE_* -CLONE_NEWTIME"},
    {ArgKind::kNamespaceFlags, Style::kFlags, "CLONE_*"},
    {ArgKind::kNamespaceType, Style::kFlags, "CLONE_*"},
    {ArgKind::kOpenFlags, Style::kFlagsWithZero, "O_* -O_ACCMODE"},
    {ArgKind::kDescriptorFlags, Style::kFlags, "O_CLOEXEC"},
    {ArgKind::kPipeFlags, Style::kFlags, "O_CLOEXEC O_NONBLOCK O_DIRECT"},
    {ArgKind::kAtFlags, Style::kFlags,
     "AT_EACCESS AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH"},
    {ArgKind::kAccessMode, Style::kFlags, "F_OK R_OK W_OK X_OK"},
    {ArgKind::kWhence, Style::kOne, "SEEK_*"},
    {ArgKind::kFcntlCmd, Style::kOne, "F_* -F_OK -F_RDLCK -F_WRLCK -F_UNLCK -F_EXLCK -F_SHLCK -F_SEAL_* -F_OWNER_*"},
    {ArgKind::kIoctlRequest, Style::kOne,
     "TIOC* -TIOCPKT* -TIOCINQ TCGETS TCSETS TCSETSW TCSETSF FIONREAD FIONBIO "
     "FIOCLEX FIONCLEX FIOASYNC FIOSETOWN FIOGETOWN SIOCSPGRP SIOCGPGRP"},
    {ArgKind::kCloseRangeFlags, Style::kFlags, "CLOSE_RANGE_*"},
    {ArgKind::kRenameFlags, Style::kFlags, "RENAME_*"},
    {ArgKind::kFallocateMode, Style::kFlags, "FALLOC_FL_*"},
    {ArgKind::kFlockOp, Style::kFlags, "LOCK_SH LOCK_EX LOCK_UN LOCK_NB"},
    {ArgKind::kMmapProt, Style::kFlags, "PROT_*"},
    {ArgKind::kMmapFlags, Style::kFlags, "MAP_* -MAP_FILE -MAP_HUGE_*"},
    {ArgKind::kMremapFlags, Style::kFlags, "MREMAP_*"},
    {ArgKind::kMadvice, Style::kOne, "MADV_*"},
    {ArgKind::kMemfdFlags, Style::kFlags, "MFD_* -MFD_HUGE_*"},
    {ArgKind::kMlockallFlags, Style::kFlags, "MCL_*"},
    {ArgKind::kUserfaultfdFlags, Style::kFlags, "UFFD_USER_MODE_ONLY O_CLOEXEC O_NONBLOCK"},
    {ArgKind::kMountFlags, Style::kFlags, "MS_* -MS_ASYNC -MS_INVALIDATE -MS_SYNC"},
    {ArgKind::kUmountFlags, Style::kFlags, "MNT_FORCE MNT_DETACH MNT_EXPIRE UMOUNT_NOFOLLOW"},
    {ArgKind::kMoveMountFlags, Style::kFlags, "MOVE_MOUNT_*"},
    {ArgKind::kOpenTreeFlags, Style::kFlags, "OPEN_TREE_CLONE O_CLOEXEC AT_RECURSIVE AT_EMPTY_PATH"},
    {ArgKind::kFsconfigCmd, Style::kOne, "FSCONFIG_*"},
    {ArgKind::kEpollFlags, Style::kFlags, "EPOLL_CLOEXEC"},
    {ArgKind::kEpollOp, Style::kOne, "EPOLL_CTL_*"},
    {ArgKind::kEventFdFlags, Style::kFlags, "EFD_SEMAPHORE EFD_CLOEXEC EFD_NONBLOCK"},
    {ArgKind::kIdType, Style::kOne, "P_ALL P_PID P_PGID P_PIDFD"},
    {ArgKind::kWaitOptions, Style::kFlags, "WNOHANG WUNTRACED WEXITED WCONTINUED WNOWAIT __WALL __WCLONE __WNOTHREAD"},
    {ArgKind::kPidfdFlags, Style::kFlags, "PIDFD_NONBLOCK PIDFD_THREAD"},
    {ArgKind::kPrctlOption, Style::kOne,
     "PR_SET_* PR_GET_* PR_CAPBSET_* PR_CAP_AMBIENT PR_TASK_PERF_* PR_MCE_KILL PR_SCHED_CORE PR_RISCV_* "
     "-PR_SET_MM_* -PR_SET_PTRACER_ANY"},
    {ArgKind::kArchPrctlOption, Style::kOne, "ARCH_*"},
    {ArgKind::kPtraceRequest, Style::kOne, "PTRACE_* -PTRACE_O_* -PTRACE_PEEKUSR -PTRACE_POKEUSR"},
    {ArgKind::kFutexOp, Style::kOne,
     "FUTEX_WAIT FUTEX_WAKE FUTEX_FD FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI"},
    {ArgKind::kResource, Style::kOne, "RLIMIT_*"},
    {ArgKind::kRusageWho, Style::kOne, "RUSAGE_*"},
    {ArgKind::kPriorityWhich, Style::kOne, "PRIO_PROCESS PRIO_PGRP PRIO_USER"},
    {ArgKind::kIoprioWhich, Style::kOne, "IOPRIO_WHO_*"},
    {ArgKind::kSchedPolicy, Style::kOne, "SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE SCHED_DEADLINE"},
    {ArgKind::kSigmaskHow, Style::kOne, "SIG_BLOCK SIG_UNBLOCK SIG_SETMASK"},
    {ArgKind::kClockId, Style::kOne, "CLOCK_*"},
    {ArgKind::kSocketFamily, Style::kOne, "AF_* -AF_LOCAL -AF_ROUTE -AF_FILE"},
    {ArgKind::kSocketType, Style::kBaseAndFlags, "SOCK_*"},
    {ArgKind::kSocketFlags, Style::kFlags, "SOCK_CLOEXEC SOCK_NONBLOCK"},
    {ArgKind::kSocketLevel, Style::kOne, "SOL_SOCKET"},
    {ArgKind::kMsgFlags, Style::kFlags,
     "MSG_* -MSG_TRYHARD -MSG_FIN -MSG_SYN -MSG_RST -MSG_COPY -MSG_EXCEPT -MSG_INFO -MSG_NOERROR -MSG_STAT*"},
    {ArgKind::kShutdownHow, Style::kOne, "SHUT_*"},
    {ArgKind::kSeccompOp, Style::kOne, "SECCOMP_SET_MODE_* SECCOMP_GET_ACTION_AVAIL SECCOMP_GET_NOTIF_SIZES"},
    {ArgKind::kSeccompFlags, Style::kFlags, "SECCOMP_FILTER_FLAG_*"},
    {ArgKind::kKeyctlOption, Style::kOne, "KEYCTL_* -KEYCTL_MOVE_*"},
    {ArgKind::kBpfCmd, Style::kOne,
     "BPF_MAP_CREATE BPF_MAP_LOOKUP_ELEM BPF_MAP_UPDATE_ELEM BPF_MAP_DELETE_ELEM BPF_PROG_LOAD "
     "BPF_OBJ_PIN BPF_OBJ_GET BPF_PROG_ATTACH BPF_BTF_LOAD BPF_LINK_CREATE"},
    {ArgKind::kGetrandomFlags, Style::kFlags, "GRND_*"},
    {ArgKind::kRebootCmd, Style::kOne, "LINUX_REBOOT_CMD_*"},
};

struct Name {
  std::string_view name;
  uint64_t value;
};

// Does one word of KindRow::names cover `name`?
bool covers(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

std::vector<Name> resolve(std::string_view spec) {
  std::vector<std::string_view> in;
  std::vector<std::string_view> out;
  while (!spec.empty()) {
    const size_t end = std::min(spec.find(' '), spec.size());
    const std::string_view word = spec.substr(0, end);
    spec.remove_prefix(std::min(end + 1, spec.size()));
    if (word.starts_with('-'))
      out.push_back(word.substr(1));
    else if (!word.empty())
      in.push_back(word);
  }
  const auto any = [](const std::vector<std::string_view>& patterns, std::string_view name) {
    return std::ranges::any_of(patterns, [&](std::string_view pattern) { return covers(pattern, name); });
  };
  std::vector<Name> names;
  for (const kernel::Constant& constant : kernel::constants())
    if (any(in, constant.name) && !any(out, constant.name)) names.push_back({constant.name, constant.value});
  std::ranges::stable_sort(names, std::greater<>(), [](const Name& name) { return std::popcount(name.value); });
  return names;
}

struct Kind {
  Style style = Style::kNumber;
  std::vector<Name> names;
};

const Kind* find_kind(ArgKind kind) {
  static const std::map<ArgKind, Kind> table = [] {
    std::map<ArgKind, Kind> made;
    for (const KindRow& row : kKinds) made[row.kind] = Kind{row.style, resolve(row.names)};
    return made;
  }();
  const auto found = table.find(kind);
  return found == table.end() ? nullptr : &found->second;
}

// The part of the register that the kernel looks at, sign-extended if it is signed.
uint64_t cut(uint64_t value, Width width) {
  switch (width) {
    case Width::kU32:
      return static_cast<uint32_t>(value);
    case Width::kS32:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(value))));
    case Width::kU64:
    case Width::kS64:
      break;
  }
  return value;
}

uint64_t significant(const kernel::ArgSpec& spec, uint64_t raw) {
  return cut(raw & kernel::significant_bits(spec), spec.width);
}

std::string number_text(uint64_t value, Width width) {
  if (width == Width::kS32 || width == Width::kS64) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

const Name* named(const std::vector<Name>& names, uint64_t value, Width width) {
  for (const Name& name : names)
    if (cut(name.value, width) == value) return &name;
  return nullptr;
}

std::string signal_text(uint64_t value) {
  const char* name = value < 65 ? sigabbrev_np(static_cast<int>(value)) : nullptr;  // glibc 2.32
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("{}", static_cast<int64_t>(value));
}

// Names whose bits are all set, printed from the lowest bit up; what has no name follows in hex. Empty if `value` is 0.
// `names` has those of several bits first, as resolve() leaves them: O_SYNC contains O_DSYNC.
std::string flags_text(const std::vector<Name>& names, uint64_t value) {
  std::vector<Name> set;
  uint64_t rest = value;
  for (const Name& name : names) {
    if (name.value == 0 || (rest & name.value) != name.value) continue;
    set.push_back(name);
    rest &= ~name.value;
  }
  std::ranges::stable_sort(set, [](const Name& a, const Name& b) { return a.value < b.value; });
  std::string text;
  for (const Name& name : set) text += (text.empty() ? "" : "|") + std::string(name.name);
  if (rest != 0) text += (text.empty() ? "" : "|") + fmt::format("{:#x}", rest);
  return text;
}

std::string flags_or_zero(const Kind& kind, uint64_t value) {
  if (value != 0) return flags_text(kind.names, value);
  const Name* zero = named(kind.names, 0, Width::kU64);
  return zero != nullptr ? std::string(zero->name) : "0";
}

std::string open_flags_text(const Kind& kind, uint64_t value, Arch arch) {
  // aarch64 has other bits for O_DIRECTORY and three more (arch/arm64/include/uapi/asm/fcntl.h).
  std::vector<Name> foreign;
  if (arch == Arch::kAArch64) {
    foreign = kind.names;
    for (Name& name : foreign) name.value = kernel::find_constant(name.name, arch).value_or(name.value);
  }
  const std::vector<Name>& names = foreign.empty() ? kind.names : foreign;
  const Name* zero = named(names, 0, Width::kU64);
  std::string text = flags_text(names, value);
  if ((value & 3) == 0 && zero != nullptr) text = std::string(zero->name) + (text.empty() ? "" : "|") + text;
  return text.empty() ? "0" : text;
}

std::string socket_type_text(const Kind& kind, uint64_t value) {
  constexpr uint64_t kTypeMask = 0xf;  // SOCK_TYPE_MASK of <linux/net.h>
  std::vector<Name> flags;
  for (const Name& name : kind.names)
    if (name.value > kTypeMask) flags.push_back(name);
  const Name* base = named(kind.names, value & kTypeMask, Width::kU64);
  std::string text = base != nullptr ? std::string(base->name) : fmt::format("{}", value & kTypeMask);
  const std::string more = flags_text(flags, value & ~kTypeMask);
  return more.empty() ? text : text + "|" + more;
}

std::string clone_text(const Kind& kind, uint64_t value) {
  const uint64_t signal = value & 0xff;  // CSIGNAL
  std::string text = flags_text(kind.names, value & ~uint64_t{0xff});
  if (signal != 0) text += (text.empty() ? "" : "|") + signal_text(signal);
  return "flags=" + (text.empty() ? std::string("0") : text);
}

bool is_pointer(const kernel::ArgSpec& spec) {
  // By the kind's own width: i386 reads pointers at 32 bits. What is 64 bits wide and no pointer has a row.
  return kernel::default_width(spec.kind) == Width::kU64 && find_kind(spec.kind) == nullptr;
}

constexpr std::string_view kEllipsis = "…";

std::string argument_text(const kernel::ArgSpec& spec, uint64_t raw, Arch arch) {
  const uint64_t value = significant(spec, raw);
  if (is_pointer(spec)) return value == 0 ? std::string("NULL") : std::string(kEllipsis);
  const Kind* kind = find_kind(spec.kind);
  if (kind == nullptr) return number_text(value, spec.width);
  // Flags of a signed 32-bit argument are bits, not a negative number.
  const uint64_t bits = spec.width == Width::kS32 ? static_cast<uint32_t>(value) : value;
  switch (kind->style) {
    case Style::kOne: {
      const Name* name = named(kind->names, value, spec.width);
      if (name != nullptr) return std::string(name->name);
      return value > 0xffff && spec.width == Width::kU32 ? fmt::format("{:#x}", value) : number_text(value, spec.width);
    }
    case Style::kFlags:
      return flags_or_zero(*kind, bits);
    case Style::kFlagsWithZero:
      return open_flags_text(*kind, bits, arch);
    case Style::kBaseAndFlags:
      return socket_type_text(*kind, bits);
    case Style::kClone:
      return clone_text(*kind, bits);
    case Style::kSignal:
      return signal_text(value);
    case Style::kDirFd:
      return static_cast<int64_t>(value) == -100 ? std::string("AT_FDCWD") : number_text(value, spec.width);
    case Style::kOctal:
      return value == 0 ? std::string("0") : fmt::format("0{:03o}", bits);
    case Style::kHex:
      return fmt::format("{:#x}", bits);
    case Style::kId:  // -1, "leave it as it is", is 0xffff for the 16-bit calls of i386
      return value == kernel::significant_bits(spec) ? std::string("-1") : fmt::format("{}", bits);
    case Style::kNumber:
      return number_text(value, spec.width);
    case Style::kOpaque:
      return value <= 0xffff ? fmt::format("{}", value) : fmt::format("{:#x}", value);
  }
  return fmt::format("{:#x}", raw);
}

bool symbolic(ArgKind kind) {
  const Kind* found = find_kind(kind);
  if (found == nullptr) return false;
  switch (found->style) {
    case Style::kOne:
    case Style::kFlags:
    case Style::kFlagsWithZero:
    case Style::kBaseAndFlags:
    case Style::kClone:
    case Style::kSignal:
      return true;
    default:
      return false;
  }
}

struct Resolved {
  const kernel::Syscall* call = nullptr;
  Arch arch = kernel::kNativeArch;
  std::string name;
};

Resolved resolve_call(uint32_t audit_arch, uint32_t nr) {
  const std::optional<Arch> arch = kernel::arch_from_audit(audit_arch);
  if (!arch) return {nullptr, kernel::kNativeArch, fmt::format("arch_{:#x}:syscall_{}", audit_arch, nr)};
  const bool x32 = *arch == Arch::kX86_64 && (nr & kernel::kX32Bit) != 0;
  const uint32_t number = x32 ? nr & ~kernel::kX32Bit : nr;
  // x32 numbers from 512 on are its own and not in the table; -1 and the like are no x32 calls worth a name either.
  const kernel::Syscall* call = kernel::find_syscall(*arch, number);
  std::string name =
      call != nullptr ? std::string(call->name) : fmt::format("syscall_{}", static_cast<int32_t>(number));
  if (x32)
    name = "x32:" + name;
  else if (*arch != kernel::kNativeArch)
    name = std::string(kernel::arch_name(*arch)) + ":" + name;
  return {call, *arch, std::move(name)};
}

// open(…, O_RDONLY, mode): without O_CREAT (0x40) or O_TMPFILE (0x400000) the kernel ignores the mode, so the register
// holds whatever was left in it.
bool ignored(const kernel::ArgList& list, size_t index, const uint64_t (&args)[6]) {
  return index > 0 && list.args[index].kind == ArgKind::kMode && list.args[index - 1].kind == ArgKind::kOpenFlags &&
         (args[index - 1] & 0x400040) == 0;
}

// A zero that says nothing at the end of a call: ptrace(PTRACE_ATTACH, 4711, 0x0, 0), prctl(PR_GET_DUMPABLE, 0, 0, 0,
// 0).
bool says_nothing(const kernel::ArgSpec& spec, uint64_t raw) {
  if (significant(spec, raw) != 0) return false;
  const Kind* kind = find_kind(spec.kind);
  return is_pointer(spec) || spec.kind == ArgKind::kAddress || (kind != nullptr && kind->style == Style::kOpaque);
}

}  // namespace

std::string call_name(uint32_t audit_arch, uint32_t nr) { return resolve_call(audit_arch, nr).name; }

std::string call_text(uint32_t audit_arch, uint32_t nr, const uint64_t (&args)[6]) {
  const Resolved resolved = resolve_call(audit_arch, nr);
  std::vector<std::string> parts;
  if (resolved.call == nullptr) {
    for (const uint64_t arg : args) parts.push_back(fmt::format("{:#x}", arg));
  } else {
    const kernel::ArgList list = kernel::arguments(*resolved.call, resolved.arch);
    size_t count = list.count;
    while (count > 1 && says_nothing(list.args[count - 1], args[count - 1])) --count;
    for (size_t i = 0; i < count; ++i)
      if (!ignored(list, i, args)) parts.push_back(argument_text(list.args[i], args[i], resolved.arch));
    while (parts.size() > 1 && parts.back() == kEllipsis && parts[parts.size() - 2] == kEllipsis) parts.pop_back();
  }
  std::string text = resolved.name + "(";
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  return text + ")";
}

std::string call_identity(uint32_t audit_arch, uint32_t nr, const uint64_t (&args)[6]) {
  const Resolved resolved = resolve_call(audit_arch, nr);
  std::string text = resolved.name;
  if (resolved.call == nullptr) return text;
  const kernel::ArgList list = kernel::arguments(*resolved.call, resolved.arch);
  for (size_t i = 0; i < list.count; ++i)
    if (symbolic(list.args[i].kind)) text += fmt::format("/{:x}", significant(list.args[i], args[i]));
  return text;
}

}  // namespace srun::report
