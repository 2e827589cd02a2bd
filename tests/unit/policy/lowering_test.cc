#include "policy/lowering.h"

#include <algorithm>

#include "policy/guard.h"
#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

std::string rule_verdict(const std::string& action, std::string_view call, const LoweringOptions& options = {}) {
  const std::string policy = "{\"version\": 1, \"default\": \"allow\", \"syscalls\": [{\"names\": [\"" + std::string(call) +
                             "\"], \"action\": " + action + "}]}";
  return told(verdict_of(enforcement_of({policy}, options), call_of(call)));
}
uint32_t kernel_return(const Enforcement& made, const bpf::CallData& call) {
  return made.returns[bpf::decide(made.rules, made.returns, call)].kernel_return;
}

}  // namespace

TEST_CASE("lowering: a policy with a version only allows the baseline, refuses what it knows and does not know newer calls") {
  const Enforcement made = enforcement_of({R"({"version": 1})"});
  CHECK(told(verdict_of(made, call_of("read"))) == "allow ci.json # default");
  CHECK(told(verdict_of(made, call_of("swapon"))) == "errno 1 notified ci.json # default");
  bpf::CallData newer = call_of("read");
  newer.nr = static_cast<int32_t>(kernel::first_unknown_number(kernel::kNativeArch));
  CHECK(told(verdict_of(made, newer)) == "errno 38 notified ci.json # default newer");
}

TEST_CASE("lowering: default decides what the baseline lacks where there are no rules, and everything unmatched where there are") {
  CHECK(told(verdict_of(enforcement_of({R"({"version": 1, "default": {"errno": "EACCES"}})"}), call_of("swapon"))) ==
        "errno 13 notified ci.json #/default default");
  const Enforcement rules = enforcement_of({R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"}]})"});
  CHECK(told(verdict_of(rules, call_of("read"))) == "allow ci.json #/syscalls/0");
  CHECK(told(verdict_of(rules, call_of("write"))) == "errno 1 notified ci.json #/syscalls default");
}

TEST_CASE("lowering: calls with a fall-back answer ENOSYS if default refuses them, but not if a rule does (H22, cases 1, 3)") {
  const std::vector<std::string> names = {"clone3", "close_range", "openat2", "faccessat2", "fchmodat2", "statx", "rseq"};
  const Enforcement by_default = enforcement_of({R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"}]})"});
  std::string list;
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(verdict_of(by_default, call_of(name)).value == 38);
    list += (list.empty() ? "\"" : ", \"") + name + "\"";
  }
  const Enforcement by_rule = enforcement_of({"{\"version\": 1, \"syscalls\": [{\"names\": [" + list + "], \"action\": \"deny\"}]}"});
  // clone3 is the guard's, whatever a rule says: on EPERM no C library can start a thread.
  for (const std::string& name : names) CHECK(verdict_of(by_rule, call_of(name)).value == (name == "clone3" ? 38 : 1));
  const Enforcement killing = enforcement_of({R"({"version": 1, "default": "kill", "syscalls": []})"});
  CHECK(told(verdict_of(killing, call_of("statx"))) == "kill ci.json #/default default");
  const Enforcement returning = enforcement_of({R"({"version": 1, "default": {"return": 0}, "syscalls": []})"});
  CHECK(told(verdict_of(returning, call_of("statx"))) == "return ci.json #/default default");
}

TEST_CASE("lowering: default never touches the calls that end a process or a signal handler (pitfalls 5.28)") {
  for (const std::string action : {"\"deny\"", "\"kill\"", "\"trap\"", "{\"return\": 0}"}) {
    const Enforcement made = enforcement_of({"{\"version\": 1, \"default\": " + action + ", \"syscalls\": []}"});
    for (const char* name : {"exit", "exit_group", "rt_sigreturn", "restart_syscall"}) {
      CHECK(verdict_of(made, call_of(name)).action == Action::kAllow);
    }
  }
  CHECK(rule_verdict("\"deny\"", "exit_group") == "errno 1 ci.json #/syscalls/0");
}

TEST_CASE("lowering: holes of the table count as newer calls") {
  if constexpr (kernel::kNativeArch == kernel::Arch::kX86_64) {
    bpf::CallData hole = call_of("read");
    hole.nr = 400;
    CHECK(told(verdict_of(enforcement_of({R"({"version": 1})"}), hole)) == "errno 38 notified ci.json # default newer");
  }
}

TEST_CASE("lowering: who carries out which action (H20)") {
  CHECK(rule_verdict("\"deny\"", "getppid") == "errno 1 notified ci.json #/syscalls/0");
  CHECK(rule_verdict("\"log\"", "getppid") == "log notified ci.json #/syscalls/0");
  CHECK(rule_verdict("\"kill\"", "getppid") == "kill ci.json #/syscalls/0");
  CHECK(rule_verdict("\"trap\"", "getppid") == "trap ci.json #/syscalls/0");
  CHECK(rule_verdict("{\"return\": 0}", "getppid") == "return ci.json #/syscalls/0");
  CHECK(rule_verdict("{\"return\": 5}", "getppid") == "return 5 notified ci.json #/syscalls/0");
  // H19: never notified, so the kernel answers.
  CHECK(rule_verdict("\"deny\"", "close") == "errno 1 ci.json #/syscalls/0");
  CHECK(rule_verdict("\"kill\"", "close") == "kill ci.json #/syscalls/0");
  const LoweringOptions unreported{.denials = Denials::kNone};
  CHECK(rule_verdict("\"deny\"", "getppid", unreported) == "errno 1 ci.json #/syscalls/0");
  CHECK(rule_verdict("\"log\"", "getppid", unreported) == "log notified ci.json #/syscalls/0");
}

TEST_CASE("lowering: what the kernel returns is the projection of the verdict, and the copy's action has the same rank (H20)") {
  const auto returns = [](Action action, int32_t value, bool notified) {
    Verdict verdict;
    verdict.action = action;
    verdict.value = value;
    verdict.notified = notified;
    return std::pair(project(verdict), copy_return(verdict, 0x1234));
  };
  using Pair = std::pair<uint32_t, uint32_t>;
  CHECK(returns(Action::kAllow, 0, false) == Pair(0x7fff0000, 0x7fff1234));
  CHECK(returns(Action::kLog, 0, true) == Pair(0x7fc00000, 0x7ffc1234));
  CHECK(returns(Action::kCheck, 0, true) == Pair(0x7fc00000, 0x7fc01234));
  CHECK(returns(Action::kErrno, 13, true) == Pair(0x7fc00000, 0x00051234));
  CHECK(returns(Action::kErrno, 13, false) == Pair(0x0005000d, 0x00051234));
  CHECK(returns(Action::kErrno, 4095, false) == Pair(0x00050fff, 0x00051234));
  CHECK(returns(Action::kReturn, 0, false) == Pair(0x00050000, 0x00051234));
  CHECK(returns(Action::kReturn, 9, true) == Pair(0x7fc00000, 0x00051234));
  CHECK(returns(Action::kTrap, 7, false) == Pair(0x00030007, 0x00031234));
  CHECK(returns(Action::kKill, 0, false) == Pair(0x80000000, 0x80001234));
  Verdict audited;
  audited.action = Action::kLog;
  audited.audited = Action::kKill;
  audited.notified = true;
  CHECK(Pair(project(audited), copy_return(audited, 0x1234)) == Pair(0x7fc00000, 0x7ff01234));
}

TEST_CASE("lowering: a quiet refusal stays in the kernel") {
  const Enforcement made = enforcement_of(
      {R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": {"errno": "ENOENT"}, "quiet": true}]})"});
  CHECK(told(verdict_of(made, call_of("getppid"))) == "errno 2 ci.json #/syscalls/0");
  CHECK(kernel_return(made, call_of("getppid")) == 0x00050002);
}

TEST_CASE("lowering: the strictest layer wins and the newest on a tie, and the denial names it") {
  const std::string denies = R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": "deny"}]})";
  const std::string kills = R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": "kill"}]})";
  const std::string hides = R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": {"errno": "ENOSYS"}}]})";
  const std::string open = R"({"version": 1, "default": "allow"})";
  const auto winner = [](const std::vector<std::string>& stack) {
    return told(verdict_of(enforcement_of(stack), call_of("getppid")));
  };
  CHECK(winner({kills, denies}) == "kill ci0.json #/syscalls/0");
  CHECK(winner({denies, kills}) == "kill ci1.json #/syscalls/0");
  CHECK(winner({denies, hides}) == "errno 38 notified ci1.json #/syscalls/0");
  CHECK(winner({hides, denies}) == "errno 1 notified ci1.json #/syscalls/0");
  CHECK(winner({denies, open}) == "errno 1 notified ci0.json #/syscalls/0");
  const Enforcement made = enforcement_of({denies, kills});
  CHECK(verdict_of(made, call_of("getppid")).rule.layer == 2);
  CHECK(made.layers.size() == 3);
  CHECK(made.layers[0].name == "(guard layer)");
}

TEST_CASE("lowering: --audit lets pass what policies refuse and keeps what would have been done") {
  const LoweringOptions audit{.audit = true};
  CHECK(rule_verdict("\"deny\"", "getppid", audit) == "log(audited errno) 1 notified ci.json #/syscalls/0");
  CHECK(rule_verdict("\"kill\"", "getppid", audit) == "log(audited kill) notified ci.json #/syscalls/0");
  CHECK(rule_verdict("{\"return\": 0}", "getppid", audit) == "log(audited return) notified ci.json #/syscalls/0");
  CHECK(rule_verdict("\"log\"", "getppid", audit) == "log notified ci.json #/syscalls/0");
  // Nobody can be asked about these, so they pass untold.
  CHECK(rule_verdict("\"kill\"", "close", audit) == "allow ci.json #/syscalls/0");
  const Enforcement made = enforcement_of({R"({"version": 1})"}, audit);
  CHECK(made.audit);
  CHECK(told(verdict_of(made, call_of("swapon"))) == "log(audited errno) 1 notified ci.json # default");
  CHECK(enforcement_of({R"({"version": 1, "environment": {"keep": []}})"}, audit).environment.empty());
}

TEST_CASE("lowering: under --audit a record in a later layer does not hide what an earlier one would have refused") {
  const Enforcement made = enforcement_of({R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": "deny"}]})",
                                           R"({"version": 1, "default": "log"})"},
                                          LoweringOptions{.audit = true});
  CHECK(told(verdict_of(made, call_of("getppid"))) == "log(audited errno) 1 notified ci0.json #/syscalls/0");
}

TEST_CASE("lowering: a default that a call cannot be given is refused with the call") {
  CHECK(lowering_problem(R"({"version": 1, "default": {"return": 1}, "syscalls": []})")
            .starts_with("ci.json:1 #/default: close falls to it and can only be refused or return 0"));
}

TEST_CASE("lowering: a default that records says which calls pass without a record") {
  const Enforcement made = enforcement_of({R"({"version": 1, "default": "log", "syscalls": []})"});
  REQUIRE(made.warnings.size() == 1);
  CHECK(made.warnings[0].starts_with("ci.json: allowed without a record, because a signal would take the question away and "
                                     "nobody repeats these calls: close dup"));
  CHECK(told(verdict_of(made, call_of("close"))) == "allow ci.json #/default default");
  CHECK(told(verdict_of(made, call_of("read"))) == "log notified ci.json #/default default");
}

TEST_CASE("lowering: a negative value of an int matches both its forms (case 4)") {
  const Enforcement made = enforcement_of({R"({"version": 1, "syscalls": [
    {"names": ["openat"], "when": [{"arg": 0, "op": "==", "value": "AT_FDCWD"}], "action": "allow"},
    {"names": ["setpriority"], "when": [{"arg": 2, "op": ">", "value": 0}], "action": "deny"},
    {"names": ["setpriority"], "action": "allow"}]})"});
  CHECK(verdict_of(made, call_of("openat", {0xffffff9c})).action == Action::kAllow);
  CHECK(verdict_of(made, call_of("openat", {0xffffffffffffff9c})).action == Action::kAllow);
  CHECK(verdict_of(made, call_of("openat", {3})).action == Action::kErrno);
  CHECK(verdict_of(made, call_of("setpriority", {0, 0, 0xffffffff})).action == Action::kAllow);
  CHECK(verdict_of(made, call_of("setpriority", {0, 0, 0})).action == Action::kAllow);
  CHECK(verdict_of(made, call_of("setpriority", {0, 0, 1})).action == Action::kErrno);
}

TEST_CASE("lowering: what is not restricted is listed (H42)") {
  using List = std::vector<std::string>;
  CHECK(enforcement_of({R"({"version": 1})"}).unrestricted == List{"files", "network", "limits", "environment"});
  CHECK(enforcement_of({R"({"version": 1, "environment": {"drop": ["A"]}})"}).unrestricted == List{"files", "network", "limits"});
  CHECK(enforcement_of({R"({"version": 1, "environment": {"set": {"A": "1"}}})"}).unrestricted ==
        List{"files", "network", "limits", "environment"});
  auto none = lower(PolicyStack{}, {});
  REQUIRE(none);
  CHECK(none->unrestricted == List{"system calls (but for the guard layer)", "files", "network", "limits", "environment"});
}

TEST_CASE("verdict table: equal verdicts share an id, and more than an id can tell apart overflow") {
  VerdictTableBuilder table;
  Verdict verdict;
  verdict.action = Action::kErrno;
  verdict.value = 1;
  const bpf::VerdictId first = table.add(verdict);
  CHECK(table.add(verdict) == first);
  verdict.value = 2;
  CHECK(table.add(verdict) != first);
  for (uint32_t line = 0; line < 65534; ++line) {
    verdict.rule.line = line + 1;
    table.add(verdict);
  }
  CHECK(table.verdicts().size() == 65536);
  CHECK(!table.overflowed());
  verdict.rule.line = 0;
  verdict.rule.reason = "one more";
  table.add(verdict);
  CHECK(table.overflowed());
}

}  // namespace srun::policy::test
