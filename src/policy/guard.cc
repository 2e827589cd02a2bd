#include "policy/guard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>

namespace srun::policy {

namespace {

using bpf::ArgTest;
using bpf::CompareOp;
using bpf::CompareWidth;

// Values of the kernel's ABI that are the same on every architecture of the table.
constexpr uint64_t kSeccompSetModeFilter = 1;
constexpr uint64_t kSeccompNewListener = 1 << 3;
// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME (0x80) lies in clone(2)'s exit-signal
// byte and exists for unshare(2) and clone3(2) only.
constexpr uint64_t kCloneNamespaces = 0x7e020000;
constexpr uint64_t kUnshareNamespaces = kCloneNamespaces | 0x80;
constexpr uint64_t kTiocsti = 0x5412;
constexpr uint64_t kTioclinux = 0x541c;
constexpr uint64_t kTioccons = 0x541d;
constexpr uint64_t kFiosetown = 0x8901;
constexpr uint64_t kSiocspgrp = 0x8902;
constexpr uint64_t kFSetown = 8;
constexpr uint64_t kFSetownEx = 15;
constexpr uint64_t kPtraceTraceme = 0;
constexpr uint64_t kPtraceAttach = 16;
constexpr uint64_t kPtraceSeize = 0x4206;
constexpr uint64_t kPrioProcess = 0;
constexpr uint64_t kIoprioWhoProcess = 1;

constexpr std::array<GuardPart, 14> kParts = {{
    {"io_uring", "requests in a ring pass every filter unseen",
     "files and sockets can be opened through a ring that no rule sees"},
    {"foreign-abi", "calls of another ABI have other numbers and other meanings",
     "calls of other processor ABIs pass this layer unfiltered (x32 stays closed)"},
    {"listener", "a second listener would decide calls in place of this one",
     "the program can install a notification listener of its own"},
    {"namespaces", "a new namespace hands out capabilities", "the program can make and enter namespaces"},
    {"mount", "mounts change what paths mean", "the program can change mounts where its capabilities allow it"},
    {"open-by-handle", "a file handle passes every directory on the way",
     "files can be opened by handle, past every path"},
    {"bpf", "BPF programs run in the kernel", "the program can load BPF programs where the kernel allows it"},
    {"perf", "performance events read other processes and the kernel", "performance events are open"},
    {"userfaultfd", "it stops kernel code in the middle of reading memory", "userfaultfd is open"},
    {"kernel-modules", "they replace the kernel's code", "modules and kexec are open where capabilities allow them"},
    {"keyctl", "keyrings are shared with processes outside", "the keyrings of the session are open"},
    {"terminal-injection", "the terminal would take it for typed input", "the program can type into its terminal"},
    {"ptrace", "processes outside of the run are not to be traced or read",
     "processes outside of the run can be traced and read where the kernel allows it"},
    {"supervisor", "what watches the run is out of its reach", "", false},
}};

ArgTest test(uint8_t arg, CompareOp op, std::vector<uint64_t> values, CompareWidth width = CompareWidth::kU32) {
  ArgTest out;
  out.arg = arg;
  out.width = width;
  out.op = op;
  out.values = std::move(values);
  return out;
}
ArgTest equals(uint8_t arg, uint64_t value) { return test(arg, CompareOp::kEqual, {value}); }
ArgTest differs(uint8_t arg, uint64_t value, CompareWidth width = CompareWidth::kU32) {
  return test(arg, CompareOp::kNotEqual, {value}, width);
}
ArgTest one_of(uint8_t arg, std::vector<uint64_t> values) { return test(arg, CompareOp::kIn, std::move(values)); }
// No bit of `bits` is set. The rules have no opposite of this, so it stands in a rule that passes: Builder::add_unless.
ArgTest no_bit_of(uint8_t arg, uint64_t bits) {
  ArgTest out = test(arg, CompareOp::kSubset, {});
  out.mask = ~bits & 0xffffffff;
  return out;
}

constexpr ActionSpec kPass{Action::kAllow, 0, Check::kNone};
constexpr ActionSpec refuse(int error_number) { return {Action::kErrno, error_number, Check::kNone}; }
constexpr ActionSpec ask(Check check) { return {Action::kCheck, 0, check}; }

class Builder {
 public:
  explicit Builder(std::span<const std::string> lifted) : lifted_(lifted) {
    policy_.name = kGuardName;
    policy_.description = "always on: what no policy may open without saying so in \"unsafe\"";
    policy_.syscalls_place.file = kGuardName;
    policy_.has_syscalls = true;
    policy_.open_ended = true;
  }

  bool closed(std::string_view part) const { return std::find(lifted_.begin(), lifted_.end(), part) == lifted_.end(); }

  void add(std::string_view part, std::initializer_list<std::string_view> names, ActionSpec action,
           std::vector<ArgTest> when = {}) {
    if (!closed(part)) return;
    Rule rule;
    for (const std::string_view name : names) {
      // A name that the table lacks would be a hole: the unit test "every call that the guard names is in the table"
      // keeps this loop honest.
      if (const kernel::Syscall* call = kernel::find_syscall(name)) rule.calls.push_back({call, true});
    }
    rule.when = std::move(when);
    rule.action = action;
    rule.reason = std::string(find_guard_part(part)->reason);
    rule.place = {std::string(kGuardName), 0, std::string(part)};
    policy_.rules.push_back(std::move(rule));
  }

  // The call passes if `harmless` holds, and gets `action` if not.
  void add_unless(std::string_view part, std::initializer_list<std::string_view> names, std::vector<ArgTest> harmless,
                  ActionSpec action) {
    add(part, names, kPass, std::move(harmless));
    add(part, names, action);
  }

  Policy take() { return std::move(policy_); }

 private:
  std::span<const std::string> lifted_;
  Policy policy_;
};

void close_kernel_doors(Builder& guard) {
  guard.add("io_uring", {"io_uring_setup", "io_uring_enter", "io_uring_register"}, refuse(ENOSYS));
  guard.add("mount",
            {"mount", "umount", "umount2", "pivot_root", "open_tree", "open_tree_attr", "move_mount", "fsopen",
             "fsconfig", "fsmount", "fspick", "mount_setattr"},
            refuse(EPERM));
  guard.add("open-by-handle", {"open_by_handle_at"}, refuse(EPERM));
  guard.add("bpf", {"bpf"}, refuse(EPERM));
  guard.add("perf", {"perf_event_open"}, refuse(EPERM));
  guard.add("userfaultfd", {"userfaultfd"}, refuse(EPERM));
  guard.add("kernel-modules",
            {"init_module", "finit_module", "delete_module", "create_module", "kexec_load", "kexec_file_load"},
            refuse(EPERM));
  guard.add("keyctl", {"keyctl", "add_key", "request_key"}, refuse(EPERM));
  guard.add("terminal-injection", {"ioctl"}, refuse(EPERM), {one_of(1, {kTiocsti, kTioclinux, kTioccons})});
  // The flags are checked only for the operation that knows them; (flags & NEW_LISTENER) == NEW_LISTENER.
  ArgTest listener = test(1, CompareOp::kMasked, {kSeccompNewListener});
  listener.mask = kSeccompNewListener;
  guard.add("listener", {"seccomp"}, refuse(EPERM), {equals(0, kSeccompSetModeFilter), listener});
}

void close_namespaces(Builder& guard) {
  guard.add_unless("namespaces", {"clone"}, {no_bit_of(0, kCloneNamespaces)}, refuse(EPERM));
  guard.add_unless("namespaces", {"unshare"}, {no_bit_of(0, kUnshareNamespaces)}, refuse(EPERM));
  guard.add("namespaces", {"setns"}, refuse(EPERM));
}

void close_outsiders(Builder& guard, const LoweringOptions& options) {
  // Requests other than these need a tracee that one of these has given.
  guard.add("ptrace", {"ptrace"}, ask(Check::kPtrace), {one_of(0, {kPtraceTraceme, kPtraceAttach, kPtraceSeize})});
  if (options.landlock_domain) return;
  guard.add("ptrace", {"process_vm_readv", "process_vm_writev"}, ask(Check::kPidArgument0));
  guard.add("ptrace", {"migrate_pages", "move_pages"}, ask(Check::kPidArgument0), {differs(0, 0)});
  guard.add("ptrace", {"kcmp"}, ask(Check::kTgidTid));  // its two processes are in the same registers
  // Whom a descriptor stands for can't be told from the register.
  guard.add("ptrace", {"pidfd_getfd", "process_madvise"}, refuse(EPERM));
}

// H4: what ends, starves or slows the supervisor without a signal, and signals where Landlock does not scope them.
void close_supervisor(Builder& guard, const LoweringOptions& options) {
  constexpr std::string_view kPart = "supervisor";
  const ActionSpec pid = ask(Check::kPidArgument0);
  guard.add(kPart, {"prlimit64"}, pid, {differs(0, 0), differs(2, 0, CompareWidth::kU64)});
  guard.add(kPart, {"sched_setscheduler", "sched_setparam", "sched_setattr"}, pid, {differs(0, 0)});
  if (options.virtual_affinity) {
    guard.add(kPart, {"sched_getaffinity", "sched_setaffinity"}, ask(Check::kAffinity));
  } else {
    guard.add(kPart, {"sched_setaffinity"}, pid, {differs(0, 0)});
  }
  guard.add_unless(kPart, {"setpriority"}, {equals(0, kPrioProcess), equals(1, 0)}, ask(Check::kPriority));
  guard.add_unless(kPart, {"ioprio_set"}, {equals(0, kIoprioWhoProcess), equals(1, 0)}, ask(Check::kPriority));
  if (options.signal_scope) return;
  guard.add(kPart, {"kill"}, ask(Check::kKill));
  guard.add(kPart, {"tkill", "rt_sigqueueinfo"}, pid);
  guard.add(kPart, {"tgkill", "rt_tgsigqueueinfo"}, ask(Check::kTgidTid));
  guard.add(kPart, {"pidfd_send_signal"}, refuse(ENOSYS));
  guard.add(kPart, {"fcntl", "fcntl64"}, ask(Check::kOwnerArgument2), {equals(1, kFSetown), differs(2, 0)});
  guard.add(kPart, {"fcntl", "fcntl64"}, refuse(EPERM), {equals(1, kFSetownEx)});
  guard.add(kPart, {"ioctl"}, refuse(EPERM), {one_of(1, {kFiosetown, kSiocspgrp})});
}

RuleRef guard_rule(std::string_view part) {
  RuleRef rule;
  rule.file = kGuardName;
  rule.pointer = part;
  rule.reason = std::string(find_guard_part(part)->reason);
  return rule;
}

}  // namespace

Verdict foreign_abi_verdict() {
  Verdict verdict;
  verdict.action = Action::kErrno;
  verdict.value = ENOSYS;
  verdict.rule = guard_rule("foreign-abi");
  return verdict;
}

Verdict no_call_verdict() {
  Verdict verdict = foreign_abi_verdict();
  verdict.quiet = true;
  verdict.rule.reason = "-1 is no system call";
  return verdict;
}

Verdict clone3_verdict() {
  Verdict verdict;
  verdict.action = Action::kErrno;
  verdict.value = ENOSYS;
  verdict.rule = guard_rule("namespaces");
  return verdict;
}

std::span<const GuardPart> guard_parts() { return kParts; }

const GuardPart* find_guard_part(std::string_view name) {
  const auto part =
      std::find_if(kParts.begin(), kParts.end(), [name](const GuardPart& row) { return row.name == name; });
  return part == kParts.end() ? nullptr : &*part;
}

Policy guard_policy(const LoweringOptions& options, std::span<const std::string> lifted) {
  Builder guard(lifted);
  // clone3 takes its flags from memory, where no filter sees them; every C library falls back to clone on ENOSYS. This
  // holds even where namespaces are lifted: then clone makes them.
  static const std::vector<std::string> kNothing;
  Builder always(kNothing);
  always.add("namespaces", {"clone3"}, refuse(ENOSYS));
  close_kernel_doors(guard);
  close_namespaces(guard);
  close_outsiders(guard, options);
  close_supervisor(guard, options);
  Policy policy = guard.take();
  for (const std::string& part : lifted) policy.unsafe.push_back({part, {}});
  Policy fixed = always.take();
  policy.rules.insert(policy.rules.begin(), fixed.rules.begin(), fixed.rules.end());
  return policy;
}

}  // namespace srun::policy
