#include "policy/guard.h"

#include <algorithm>

#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

const std::string kOpen = R"({"version": 1, "default": "allow"})";
constexpr uint64_t kHigh = 0xdeadbeef00000000;

std::string guarded(const bpf::CallData& call, const LoweringOptions& options = {}, const std::string& policy = kOpen) {
  return told(verdict_of(enforcement_of({policy}, options), call));
}
std::string guarded(std::string_view name, std::vector<uint64_t> args = {}, const LoweringOptions& options = {}) {
  return guarded(call_of(name, std::move(args)), options);
}
const std::string kPasses = "allow ci.json #/default default";
std::string refused(int error_number, const std::string& part) {
  return "errno " + std::to_string(error_number) + " notified (guard layer) " + part;
}
std::string in_kernel(int error_number, const std::string& part) {
  return "errno " + std::to_string(error_number) + " (guard layer) " + part;
}
std::string asks(Check check, const std::string& part) {
  return "check " + std::to_string(static_cast<int>(check)) + " notified (guard layer) " + part;
}

}  // namespace

TEST_CASE("guard: every call that it names is in the table") {
  LoweringOptions bare;
  bare.signal_scope = bare.landlock_domain = false;
  bare.virtual_affinity = true;
  size_t calls = 0;
  for (const Rule& rule : guard_policy(bare, {}).rules) {
    CHECK(!rule.calls.empty());
    calls += rule.calls.size();
  }
  CHECK(calls == 65);
}

TEST_CASE("guard: io_uring answers ENOSYS and is told (case 60)") {
  for (const char* name : {"io_uring_setup", "io_uring_enter", "io_uring_register"}) CHECK(guarded(name) == refused(38, "io_uring"));
}

TEST_CASE("guard: calls of other ABIs are refused, x32 numbers included (case 58)") {
  bpf::CallData call = call_of("getpid");
  call.arch = kernel::kAuditI386;
  CHECK(guarded(call) == refused(38, "foreign-abi"));
  call.arch = 0x40000028;  // AUDIT_ARCH_ARM: not in the table
  CHECK(guarded(call) == refused(38, "foreign-abi"));
  if constexpr (kernel::kNativeArch == kernel::Arch::kX86_64) {
    call = call_of("getpid");
    call.nr |= static_cast<int32_t>(kernel::kX32Bit);
    CHECK(guarded(call) == refused(38, "foreign-abi"));
    call.nr = static_cast<int32_t>(0x80000000);
    CHECK(guarded(call) == refused(38, "foreign-abi"));
  }
}

TEST_CASE("guard: number -1 answers ENOSYS in the kernel and is not told (case 58)") {
  bpf::CallData call = call_of("getpid");
  call.nr = -1;
  CHECK(guarded(call) == in_kernel(38, "foreign-abi"));
  call.nr = 0x3fffffff;
  CHECK(guarded(call) == "allow ci.json #/default default newer");
  CHECK(guarded(call, {}, R"({"version": 1})") == "errno 38 notified ci.json # default newer");
}

TEST_CASE("guard: foreign ABIs stay refused whatever a policy that does not lift them says") {
  bpf::CallData call = call_of("getpid");
  call.arch = kernel::kAuditI386;
  const Enforcement made = enforcement_of({R"({"version": 1, "default": "kill"})"});
  CHECK(told(verdict_of(made, call)) == refused(38, "foreign-abi"));
}

TEST_CASE("guard: namespace flags of clone are refused in the kernel one by one (cases 1, 6)") {
  constexpr uint64_t kThread = 0x3d0f00;  // what glibc gives for a thread
  CHECK(guarded("clone", {kThread}) == kPasses);
  CHECK(guarded("clone", {0x1200011}) == kPasses);  // fork: CHILD_SETTID | CHILD_CLEARTID | SIGCHLD
  CHECK(guarded("clone", {0x91}) == kPasses);       // 0x80 lies in the exit signal's byte
  for (const uint64_t flag : std::vector<uint64_t>{0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000}) {
    CAPTURE(flag);
    CHECK(guarded("clone", {flag | 17}) == in_kernel(1, "namespaces"));
    CHECK(guarded("clone", {kHigh | flag}) == in_kernel(1, "namespaces"));
    CHECK(guarded("unshare", {flag}) == refused(1, "namespaces"));
  }
  CHECK(guarded("clone", {kHigh | kThread}) == kPasses);
  CHECK(guarded("unshare", {0x80}) == refused(1, "namespaces"));  // CLONE_NEWTIME
  CHECK(guarded("unshare", {0x400 | 0x200 | 0x40000}) == kPasses);
  CHECK(guarded("setns") == refused(1, "namespaces"));
}

TEST_CASE("guard: clone3 answers ENOSYS in the kernel, even where namespaces are lifted (case 1)") {
  CHECK(guarded("clone3") == in_kernel(38, "namespaces"));
  CHECK(guarded(call_of("clone3"), {}, R"({"version": 1, "default": "allow", "unsafe": ["namespaces"]})") ==
        in_kernel(38, "namespaces"));
}

TEST_CASE("guard: a second listener is refused, other filters are not") {
  CHECK(guarded("seccomp", {1, 8}) == refused(1, "listener"));
  CHECK(guarded("seccomp", {1, 8 | 1 | 32}) == refused(1, "listener"));
  CHECK(guarded("seccomp", {kHigh | 1, kHigh | 8}) == refused(1, "listener"));
  CHECK(guarded("seccomp", {1, 1}) == kPasses);
  CHECK(guarded("seccomp", {2, 8}) == kPasses);
}

TEST_CASE("guard: the terminal takes no typed input from the program, whatever the high bits (pitfalls 5.24)") {
  for (const uint64_t request : std::vector<uint64_t>{0x5412, 0x541c, 0x541d}) {
    CHECK(guarded("ioctl", {0, request}) == refused(1, "terminal-injection"));
    CHECK(guarded("ioctl", {0, kHigh | request}) == refused(1, "terminal-injection"));
  }
  CHECK(guarded("ioctl", {0, 0x540e}) == kPasses);  // TIOCSCTTY
  CHECK(guarded("ioctl", {0, 0x5401}) == kPasses);  // TCGETS
}

TEST_CASE("guard: doors into the kernel are closed") {
  for (const char* name : {"mount", "umount2", "pivot_root", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig",
                           "fsmount", "fspick", "mount_setattr"}) {
    CHECK(guarded(name) == refused(1, "mount"));
  }
  CHECK(guarded("chroot") == kPasses);
  CHECK(guarded("open_by_handle_at") == refused(1, "open-by-handle"));
  CHECK(guarded("bpf") == refused(1, "bpf"));
  CHECK(guarded("perf_event_open") == refused(1, "perf"));
  CHECK(guarded("userfaultfd") == refused(1, "userfaultfd"));
  for (const char* name : {"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"}) {
    CHECK(guarded(name) == refused(1, "kernel-modules"));
  }
  for (const char* name : {"keyctl", "add_key", "request_key"}) CHECK(guarded(name) == refused(1, "keyctl"));
}

TEST_CASE("guard: tracing asks who is traced, and requests on a tracee pass") {
  for (const uint64_t request : std::vector<uint64_t>{0, 16, 0x4206}) {
    CHECK(guarded("ptrace", {request, 1}) == asks(Check::kPtrace, "ptrace"));
    CHECK(guarded("ptrace", {kHigh | request, 1}) == asks(Check::kPtrace, "ptrace"));
  }
  CHECK(guarded("ptrace", {7, 1}) == kPasses);
}

TEST_CASE("guard: without a Landlock domain the supervisor keeps readers of processes inside, and closes what it cannot check") {
  LoweringOptions bare;
  bare.landlock_domain = false;
  const std::string by_pid = asks(Check::kPidArgument0, "ptrace");
  for (const char* name : {"process_vm_readv", "process_vm_writev", "migrate_pages", "move_pages"}) {
    CHECK(guarded(name, {7}) == kPasses);
    CHECK(guarded(name, {7}, bare) == by_pid);
  }
  CHECK(guarded("move_pages", {0}, bare) == kPasses);
  CHECK(guarded("kcmp", {7, 8}, bare) == asks(Check::kTgidTid, "ptrace"));
  for (const char* name : {"pidfd_getfd", "process_madvise"}) {
    CHECK(guarded(name, {7}) == kPasses);
    CHECK(guarded(name, {7}, bare) == refused(1, "ptrace"));
  }
}

TEST_CASE("guard: what starves or ends the supervisor without a signal asks for whom it is meant (H4)") {
  const std::string by_pid = asks(Check::kPidArgument0, "supervisor");
  CHECK(guarded("prlimit64", {0, 0, 0x1000}) == kPasses);
  CHECK(guarded("prlimit64", {7, 0, 0}) == kPasses);
  CHECK(guarded("prlimit64", {7, 0, 0x1000}) == by_pid);
  CHECK(guarded("prlimit64", {7, 0, uint64_t{1} << 32}) == by_pid);
  CHECK(guarded("prlimit64", {kHigh, 0, 0x1000}) == kPasses);
  for (const char* name : {"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"}) {
    CHECK(guarded(name, {0}) == kPasses);
    CHECK(guarded(name, {kHigh | 7}) == by_pid);
  }
  const std::string by_priority = asks(Check::kPriority, "supervisor");
  CHECK(guarded("setpriority", {0, 0}) == kPasses);
  CHECK(guarded("setpriority", {0, 7}) == by_priority);
  CHECK(guarded("setpriority", {1, 0}) == by_priority);  // a process group
  CHECK(guarded("setpriority", {2, 0}) == by_priority);  // everything of the user
  CHECK(guarded("ioprio_set", {1, 0}) == kPasses);
  CHECK(guarded("ioprio_set", {1, 7}) == by_priority);
  CHECK(guarded("ioprio_set", {2, 0}) == by_priority);
  CHECK(guarded("ioprio_set", {0, 0}) == by_priority);
}

TEST_CASE("guard: affinity is answered by the supervisor where masks are virtual") {
  LoweringOptions options;
  options.virtual_affinity = true;
  for (const char* name : {"sched_getaffinity", "sched_setaffinity"}) {
    for (const uint64_t pid : std::vector<uint64_t>{0, 7}) CHECK(guarded(name, {pid}, options) == asks(Check::kAffinity, "supervisor"));
  }
  CHECK(guarded("sched_getaffinity", {7}) == kPasses);
}

TEST_CASE("guard: signals are Landlock's business, or the supervisor's where it has no scope for them") {
  LoweringOptions bare;
  bare.signal_scope = false;
  const std::vector<std::pair<const char*, std::string>> calls = {
      {"kill", asks(Check::kKill, "supervisor")},
      {"tkill", asks(Check::kPidArgument0, "supervisor")},
      {"rt_sigqueueinfo", asks(Check::kPidArgument0, "supervisor")},
      {"tgkill", asks(Check::kTgidTid, "supervisor")},
      {"rt_tgsigqueueinfo", asks(Check::kTgidTid, "supervisor")},
      {"pidfd_send_signal", refused(38, "supervisor")},
  };
  for (const auto& [name, expected] : calls) {
    CHECK(guarded(name, {7}) == kPasses);
    CHECK(guarded(name, {7}, bare) == expected);
  }
  CHECK(guarded("fcntl", {0, 8, 7}) == kPasses);
  CHECK(guarded("fcntl", {0, 8, 7}, bare) == asks(Check::kOwnerArgument2, "supervisor"));
  CHECK(guarded("fcntl", {0, 8, 0xffffffff}, bare) == asks(Check::kOwnerArgument2, "supervisor"));
  CHECK(guarded("fcntl", {0, 8, kHigh}, bare) == kPasses);
  CHECK(guarded("fcntl", {0, 15, 0x1000}, bare) == refused(1, "supervisor"));
  CHECK(guarded("fcntl", {0, 3, 0}, bare) == kPasses);
  CHECK(guarded("ioctl", {0, 0x8901}, bare) == refused(1, "supervisor"));
  CHECK(guarded("ioctl", {0, 0x8902}, bare) == refused(1, "supervisor"));
  CHECK(guarded("ioctl", {0, 0x5412}, bare) == refused(1, "terminal-injection"));
}

TEST_CASE("guard: --audit keeps it, and a policy cannot displace its checks") {
  LoweringOptions options;
  options.audit = true;
  const std::string strict = R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"}]})";
  CHECK(guarded(call_of("bpf"), options, strict) == refused(1, "bpf"));
  CHECK(guarded(call_of("ptrace", {0}), options, strict) == asks(Check::kPtrace, "ptrace"));
  CHECK(guarded(call_of("ptrace", {0}), {}, R"({"version": 1, "default": "log"})") == asks(Check::kPtrace, "ptrace"));
}

TEST_CASE("guard: each part but the supervisor's can be lifted, loudly") {
  const std::vector<std::pair<std::string, bpf::CallData>> acts = {
      {"io_uring", call_of("io_uring_setup")},   {"listener", call_of("seccomp", {1, 8})},
      {"namespaces", call_of("unshare", {0x10000000})}, {"mount", call_of("mount")},
      {"open-by-handle", call_of("open_by_handle_at")}, {"bpf", call_of("bpf")},
      {"perf", call_of("perf_event_open")},      {"userfaultfd", call_of("userfaultfd")},
      {"kernel-modules", call_of("init_module")}, {"keyctl", call_of("keyctl")},
      {"terminal-injection", call_of("ioctl", {0, 0x5412})}, {"ptrace", call_of("ptrace", {16, 1})},
  };
  for (const auto& act_of_part : acts) {
    const std::string& part = act_of_part.first;
    const bpf::CallData& call = act_of_part.second;
    CAPTURE(part);
    const Enforcement made = enforcement_of({R"({"version": 1, "default": "allow", "unsafe": [")" + part + "\"]}"});
    CHECK(told(verdict_of(made, call)) == kPasses);
    REQUIRE(made.warnings.size() == 1);
    CHECK(made.warnings[0] == "UNSAFE: " + std::string(find_guard_part(part)->lifted) + "; ci.json has \"unsafe\": [\"" + part + "\"]");
    for (const auto& [other, act] : acts) {
      if (other != part) CHECK(verdict_of(made, act).rule.layer == 0);
    }
  }
  CHECK(acts.size() + 2 == guard_parts().size());  // foreign-abi has a test of its own, supervisor cannot be lifted
}

TEST_CASE("guard: foreign-abi lifts other architectures, with the guard's other parts, and never x32") {
  const Enforcement made = enforcement_of({R"({"version": 1, "syscalls": [], "unsafe": ["foreign-abi"]})"});
  bpf::CallData call = call_of("getpid", {}, kernel::Arch::kI386);
  CHECK(verdict_of(made, call).action == Action::kAllow);
  CHECK(told(verdict_of(made, call_of("mount", {}, kernel::Arch::kI386))) == refused(1, "mount"));
  CHECK(told(verdict_of(made, call_of("umount", {}, kernel::Arch::kI386))) == refused(1, "mount"));
  CHECK(told(verdict_of(made, call_of("clone", {0x10000000}, kernel::Arch::kI386))) == in_kernel(1, "namespaces"));
  call.arch = 0x40000028;
  CHECK(told(verdict_of(made, call)) == refused(38, "foreign-abi"));
  if constexpr (kernel::kNativeArch == kernel::Arch::kX86_64) {
    call = call_of("getpid");
    call.nr |= static_cast<int32_t>(kernel::kX32Bit);
    CHECK(told(verdict_of(made, call)) == refused(38, "foreign-abi"));
  }
}

TEST_CASE("guard: a part is lifted only if every policy of the stack lifts it") {
  const std::string lifting = R"({"version": 1, "default": "allow", "unsafe": ["bpf"]})";
  const Enforcement one = enforcement_of({lifting, kOpen});
  CHECK(told(verdict_of(one, call_of("bpf"))) == refused(1, "bpf"));
  CHECK(one.warnings == std::vector<std::string>{
                            "ci0.json lifts \"bpf\" of the guard layer in vain: another policy of this run does not"});
  CHECK(verdict_of(enforcement_of({lifting, lifting}), call_of("bpf")).action == Action::kAllow);
}

TEST_CASE("guard: a rule that allows by name what is closed is an error without its unsafe entry") {
  const auto problem = [](const std::string& rule, const std::string& unsafe = "") {
    return lowering_problem("{\"version\": 1, \"syscalls\": [" + rule + "]" + unsafe + "}");
  };
  CHECK(problem(R"({"names": ["read", "mount"], "action": "allow"})") ==
        "ci.json:1 #/syscalls/0: mount is closed by the guard layer (mounts change what paths mean); to open it add "
        "\"unsafe\": [\"mount\"]");
  CHECK(problem(R"({"names": ["io_uring_setup"], "action": "log"})").ends_with("to open it add \"unsafe\": [\"io_uring\"]"));
  CHECK(problem(R"({"names": ["mount"], "action": "allow"})", R"(, "unsafe": ["mount"])") == "");
  CHECK(problem(R"({"names": ["@mount"], "action": "allow"})") == "");
  CHECK(problem(R"({"names": ["mount"], "action": "deny"})") == "");
  // What is closed in part only may be allowed as far as it is open.
  CHECK(problem(R"({"names": ["clone", "unshare", "ioctl", "seccomp", "ptrace", "prlimit64"], "action": "allow"})") == "");
  CHECK(problem(R"({"names": ["unshare"], "when": [{"arg": 0, "op": "==", "value": "CLONE_NEWUSER"}], "action": "allow"})")
            .ends_with("to open it add \"unsafe\": [\"namespaces\"]"));
  CHECK(problem(R"({"names": ["unshare"], "when": [{"arg": 0, "op": "in", "value": ["CLONE_NEWUSER", "CLONE_FS"]}], "action": "allow"})") == "");
  CHECK(problem(R"({"names": ["ioctl"], "when": [{"arg": 1, "op": "in", "value": ["TIOCSTI", "0x541c"]}], "action": "allow"})")
            .ends_with("to open it add \"unsafe\": [\"terminal-injection\"]"));
}

TEST_CASE("guard: where lifting would open nothing a note says that the call stays closed") {
  const Enforcement made = enforcement_of({R"({"version": 1, "syscalls": [{"names": ["clone3"], "action": "allow"}]})"});
  CHECK(made.notes == std::vector<std::string>{"ci.json:1 #/syscalls/0: clone3 stays closed by the guard layer: its flags lie "
                                               "in memory, and callers fall back on clone"});
}

}  // namespace srun::policy::test
