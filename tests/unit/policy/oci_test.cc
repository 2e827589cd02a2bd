// The rows of the reference table "corner cases" (ecosystem, 1.4) and the cases 1, 3, 4, 6, 8 and 10.
#include <doctest/doctest.h>

#include "oci_fixture.h"
#include "policy/guard.h"

namespace srun::policy::test {

TEST_CASE("OCI: an unknown call in an allow rule is listed and the profile loads") {
  const LoweredProfile profile(
      profile_text(R"({"names": ["call_of_linux_9", "read"], "action": "SCMP_ACT_ALLOW"})", "ERRNO"));
  CHECK(profile.noted(R"(p.json:1 #/syscalls/0: left out: unknown "call_of_linux_9")"));
  CHECK(profile.on("read") == "allow");
}

TEST_CASE("OCI: an unknown call in a refusing rule is a loud warning where the default lets it through") {
  const LoweredProfile loose(profile_text(rule_text("newuname", "ERRNO")));
  REQUIRE(loose.profile.warnings.size() == 1);
  CHECK(loose.profile.warnings[0] ==
        R"(p.json:1 #/syscalls/0: unknown calls are NOT refused by this rule: "newuname")");
  const LoweredProfile tight(profile_text(rule_text("newuname", "ERRNO", "\"errnoRet\": 38"), "ERRNO"));
  CHECK(tight.profile.warnings.empty());
  CHECK(tight.noted("left out: unknown \"newuname\""));
}

TEST_CASE("OCI: a call of another architecture is silent") {
  const LoweredProfile profile(profile_text(
      R"({"names": ["s390_pci_mmio_read", "breakpoint", "socketcall", "riscv_flush_icache", "syscall"], "action": "SCMP_ACT_ERRNO"})"));
  CHECK(profile.profile.warnings.empty());
  CHECK(profile.profile.notes.empty());
}

TEST_CASE("OCI: an empty name is an error, an empty list a warning, no names at all an error") {
  CHECK(oci_problem(profile_text(R"({"names": [""], "action": "SCMP_ACT_ERRNO"})")) ==
        "p.json:1 #/syscalls/0/names/0: a call has no name: \"\"");
  CHECK(
      LoweredProfile(profile_text(R"({"names": [], "action": "SCMP_ACT_ERRNO"})")).noted("\"names\": [] does nothing"));
  CHECK(oci_problem(profile_text(R"({"action": "SCMP_ACT_ERRNO"})")) ==
        "p.json:1 #/syscalls/0: a rule needs \"names\"");
}

TEST_CASE("OCI: unknown actions, operators, architectures and flags are errors that name the nearest") {
  CHECK(oci_problem(profile_text(rule_text("read", "ALOW"))) ==
        R"(p.json:1 #/syscalls/0/action: unknown action "SCMP_ACT_ALOW"; did you mean "SCMP_ACT_ALLOW"?)");
  CHECK(oci_problem(
            profile_text(rule_text("read", "ALLOW", R"("args": [)" + condition_text(0, "EQQ", "1") + "]"), "ERRNO")) ==
        R"(p.json:1 #/syscalls/0/args/0/op: unknown operator "SCMP_CMP_EQQ"; did you mean "SCMP_CMP_EQ"?)");
  CHECK(oci_problem(profile_text("", "ERRNO", R"("architectures": ["SCMP_ARCH_X86_65"], )")) ==
        R"(p.json:1 #/architectures/0: unknown architecture "SCMP_ARCH_X86_65"; did you mean "SCMP_ARCH_X86_64"?)");
  CHECK(oci_problem(profile_text("", "ERRNO", R"("flags": ["SECCOMP_FILTER_FLAG_LOGG"], )")) ==
        R"(p.json:1 #/flags/0: unknown flag "SECCOMP_FILTER_FLAG_LOGG"; did you mean "SECCOMP_FILTER_FLAG_LOG"?)");
  const LoweredProfile flags(
      profile_text("", "ERRNO", R"("flags": ["SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG"], )"));
  CHECK(flags.profile.notes ==
        std::vector<std::string>{
            "p.json:1 #/flags/1: left out: SECCOMP_FILTER_FLAG_LOG is not passed to the kernel",
            "p.json:1 #/defaultAction: warning: exit_group is not allowed: programs crash or spin at "
            "their end"});
}

TEST_CASE("OCI: an error number on an action that cannot use it is an error") {
  CHECK(oci_problem(profile_text(rule_text("read", "ALLOW", "\"errnoRet\": 1"), "ERRNO")) ==
        "p.json:1 #/syscalls/0/errnoRet: SCMP_ACT_ALLOW takes no error number");
  CHECK(oci_problem(profile_text("", "ALLOW", "\"defaultErrnoRet\": 1, ")) ==
        "p.json:1 #/defaultErrnoRet: SCMP_ACT_ALLOW takes no error number");
  CHECK(oci_problem(profile_text(rule_text("read", "KILL", "\"errno\": \"EPERM\""))) ==
        "p.json:1 #/syscalls/0/errno: SCMP_ACT_KILL_THREAD takes no error number");
  CHECK(oci_problem(profile_text(rule_text("read", "TRACE", "\"errnoRet\": 7"))).empty());
}

TEST_CASE("OCI: errnoRet 38, none, 0 and 4095 give ENOSYS, EPERM, a call that returns 0, and errno 4095") {
  const auto with = [](const std::string& errno_ret) {
    return LoweredProfile(profile_text(rule_text("getpriority", "ERRNO", errno_ret))).on("getpriority");
  };
  CHECK(with("\"errnoRet\": 38") == "errno ENOSYS");
  CHECK(with("") == "errno EPERM");
  CHECK(with("\"errnoRet\": 0") == "return 0");
  CHECK(with("\"errnoRet\": 4094") == "errno errno 4094");
  CHECK(with("\"errnoRet\": 4095") == "errno errno 4095");
  CHECK(LoweredProfile(profile_text("", "ERRNO", "\"defaultErrnoRet\": 38, ")).on("getpriority") == "errno ENOSYS");
  CHECK(LoweredProfile(profile_text("", "ERRNO", "\"defaultErrnoRet\": 0, ")).on("getpriority") == "return 0");
}

TEST_CASE("OCI: errnoRet 4096, 65536, 65537, -1, text and fractions are errors in a rule and in the default") {
  const std::string too_large =
      "an error number is 0 to 4095; runtimes cut larger ones to 16 bits, which can turn a refusal into success";
  for (const std::string value : {"4096", "65536", "65537", "-1", "18446744073709551615"}) {
    CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", "\"errnoRet\": " + value))) ==
          "p.json:1 #/syscalls/0/errnoRet: " + too_large);
    CHECK(oci_problem(profile_text("", "ERRNO", "\"defaultErrnoRet\": " + value + ", ")) ==
          "p.json:1 #/defaultErrnoRet: " + too_large);
  }
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", "\"errnoRet\": \"EPERM\""))) ==
        "p.json:1 #/syscalls/0/errnoRet: expected an error number, found a string");
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", "\"errnoRet\": 1.5")))
            .starts_with("p.json:1 #/syscalls/0/errnoRet: expected an error number, found "));
}

TEST_CASE("OCI: symbolic and decimal errno keys win over the number") {
  const auto with = [](const std::string& more) {
    return LoweredProfile(profile_text(rule_text("read", "ERRNO", more))).on("read");
  };
  CHECK(with(R"("errnoRet": 1, "errno": "ENOSYS")") == "errno ENOSYS");
  CHECK(with(R"("errnoRet": 1, "errno": "13")") == "errno EACCES");
  CHECK(with(R"("errnoRet": 1, "errno": "")") == "errno EPERM");
  CHECK(LoweredProfile(profile_text("", "ERRNO", R"("defaultErrnoRet": 1, "defaultErrno": "ENOSYS", )")).on("read") ==
        "errno ENOSYS");
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", R"("errno": "EPREM")"))) ==
        R"(p.json:1 #/syscalls/0/errno: unknown error name "EPREM"; did you mean "EPERM"?)");
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", R"("errno": "65536")"))) ==
        "p.json:1 #/syscalls/0/errno: an error number is 0 to 4095");
}

TEST_CASE("OCI: the first of two unconditional rules wins, whatever the actions") {
  CHECK(LoweredProfile(profile_text(rule_text("read", "LOG") + "," + rule_text("read", "ERRNO"))).on("read") == "log");
  CHECK(LoweredProfile(
            profile_text(rule_text("read", "ERRNO", "\"errnoRet\": 2") + "," + rule_text("read", "KILL_PROCESS")))
            .on("read") == "errno ENOENT");
}

TEST_CASE("OCI: an unconditional rule beats a conditional one in either order") {
  const std::string conditional = rule_text("read", "KILL_PROCESS", "\"args\": [" + condition_text(0, "EQ", "5") + "]");
  const std::string plain = rule_text("read", "ERRNO");
  CHECK(LoweredProfile(profile_text(conditional + "," + plain)).on("read", {5}) == "errno EPERM");
  CHECK(LoweredProfile(profile_text(plain + "," + conditional)).on("read", {5}) == "errno EPERM");
}

TEST_CASE("OCI: of two conditional rules that match, equality wins in either order") {
  const std::string equal =
      rule_text("read", "ERRNO", "\"errnoRet\": 2, \"args\": [" + condition_text(0, "EQ", "5") + "]");
  const std::string least =
      rule_text("read", "ERRNO", "\"errnoRet\": 13, \"args\": [" + condition_text(0, "GE", "5") + "]");
  for (const std::string& rules : {equal + "," + least, least + "," + equal}) {
    const LoweredProfile profile(profile_text(rules));
    CHECK(profile.on("read", {5}) == "errno ENOENT");
    CHECK(profile.on("read", {6}) == "errno EACCES");
    CHECK(profile.on("read", {4}) == "allow");
  }
}

TEST_CASE("OCI: a rule whose action is the default's is dropped before it could stand in another's way") {
  // ERRNO stays although ALLOW comes first.
  CHECK(LoweredProfile(profile_text(rule_text("read", "ALLOW") + "," + rule_text("read", "ERRNO"))).on("read") ==
        "errno EPERM");
  CHECK(LoweredProfile(profile_text(rule_text("read", "ERRNO") + "," + rule_text("read", "ALLOW"))).on("read") ==
        "errno EPERM");
  // Another error number is another action.
  CHECK(LoweredProfile(profile_text(rule_text("read", "ERRNO", "\"errnoRet\": 38"), "ERRNO")).on("read") ==
        "errno ENOSYS");
}

TEST_CASE("OCI: conditions on different arguments must all hold") {
  const LoweredProfile profile(profile_text(rule_text(
      "read", "ERRNO", "\"args\": [" + condition_text(0, "EQ", "5") + "," + condition_text(2, "GE", "7") + "]")));
  CHECK(profile.on("read", {5, 0, 7}) == "errno EPERM");
  CHECK(profile.on("read", {5, 0, 6}) == "allow");
  CHECK(profile.on("read", {4, 0, 7}) == "allow");
}

TEST_CASE("OCI: two conditions on one argument make every condition of the entry a rule of its own, and that is said") {
  const LoweredProfile range(profile_text(rule_text(
      "read", "ERRNO", "\"args\": [" + condition_text(0, "GE", "5") + "," + condition_text(0, "LE", "10") + "]")));
  CHECK(range.on("read", {20}) == "errno EPERM");
  CHECK(range.on("read", {0}) == "errno EPERM");
  CHECK(range.noted("p.json:1 #/syscalls/0: warning: two conditions on one argument"));
  const LoweredProfile with_other(
      profile_text(rule_text("read", "ERRNO",
                             "\"args\": [" + condition_text(0, "EQ", "5") + "," + condition_text(0, "EQ", "6") + "," +
                                 condition_text(1, "EQ", "9") + "]")));
  CHECK(with_other.on("read", {1, 9}) == "errno EPERM");
  CHECK(with_other.on("read", {6, 1}) == "errno EPERM");
  CHECK(with_other.on("read", {1, 1}) == "allow");
}

TEST_CASE("OCI: of MASKED_EQ value is the mask and valueTwo the result (case 6)") {
  const std::string no_namespaces = "\"args\": [" + condition_text(0, "MASKED_EQ", "2114060288", "0") + "]";
  const LoweredProfile profile(profile_text(
      rule_text("clone", "ALLOW", no_namespaces) + "," + rule_text("unshare", "ALLOW", no_namespaces), "ERRNO"));
  for (const char* name : {"clone", "unshare"}) {
    CHECK(profile.on(name, {0}) == "allow");
    CHECK(profile.on(name, {0x11}) == "allow");  // SIGCHLD, CLONE_* without namespaces
    for (const uint64_t flag : {0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00020000})
      CHECK(profile.on(name, {flag}) == "errno EPERM");
  }
}

TEST_CASE("OCI: bits of valueTwo outside the mask are ignored with a warning") {
  const LoweredProfile profile(
      profile_text(rule_text("read", "ERRNO", "\"args\": [" + condition_text(0, "MASKED_EQ", "128", "129") + "]")));
  CHECK(profile.on("read", {0x80}) == "errno EPERM");
  CHECK(profile.on("read", {0x81}) == "errno EPERM");
  CHECK(profile.on("read", {0x01}) == "allow");
  CHECK(profile.noted("#/syscalls/0/args/0: warning: valueTwo has bits outside the mask (value); they are ignored"));
}

TEST_CASE("OCI: values are compared as 64-bit numbers") {
  const LoweredProfile profile(
      profile_text(rule_text("read", "ERRNO", "\"args\": [" + condition_text(0, "EQ", "5") + "]") + "," +
                   rule_text("write", "ERRNO", "\"args\": [" + condition_text(0, "EQ", "18446744073709551615") + "]")));
  CHECK(profile.on("read", {5}) == "errno EPERM");
  CHECK(profile.on("read", {0x100000005}) == "allow");
  CHECK(profile.on("write", {~uint64_t{0}}) == "errno EPERM");
  CHECK(profile.on("write", {0xffffffff}) == "allow");
}

TEST_CASE("OCI: a 32-bit argument compared with a negative number is followed and warned about (case 4)") {
  const LoweredProfile profile(
      profile_text(rule_text("openat", "ALLOW", "\"args\": [" + condition_text(0, "EQ", "4294967196") + "]"), "ERRNO"));
  CHECK(profile.on("openat", {0xffffff9c}) == "allow");
  CHECK(profile.on("openat", {0xffffffffffffff9c}) == "errno EPERM");
  CHECK(
      profile.noted("warning: argument 0 of openat has 32 bits, but profiles compare 64: whether 4294967196 matches"));
}

TEST_CASE("OCI: an argument index of 6 is an error, and so are values that are no unsigned numbers") {
  const auto problem = [](const std::string& condition) {
    return oci_problem(profile_text(rule_text("read", "ERRNO", "\"args\": [" + condition + "]")));
  };
  CHECK(problem(condition_text(6, "EQ", "1")) == "p.json:1 #/syscalls/0/args/0/index: a call has arguments 0 to 5");
  CHECK(problem(condition_text(0, "EQ", "-1")) ==
        "p.json:1 #/syscalls/0/args/0/value: a value is an unsigned 64-bit number; write 18446744073709551615 for -1");
  CHECK(problem(condition_text(0, "EQ", "\"3\"")) ==
        "p.json:1 #/syscalls/0/args/0/value: expected an unsigned 64-bit number, found a string");
  CHECK(problem(R"({"index": 0, "op": "SCMP_CMP_EQ"})") ==
        R"(p.json:1 #/syscalls/0/args/0: an argument condition needs "value")");
  CHECK(problem(R"({"index": 0, "value": 1})") == R"(p.json:1 #/syscalls/0/args/0: an argument condition needs "op")");
  CHECK(problem(R"({"value": 1, "op": "SCMP_CMP_EQ"})") ==
        R"(p.json:1 #/syscalls/0/args/0: an argument condition needs "index")");
}

TEST_CASE("OCI: a value that looks rounded by a tool that keeps doubles is warned about") {
  CHECK(LoweredProfile(profile_text(rule_text("read", "ERRNO",
                                              "\"args\": [" + condition_text(0, "EQ", "18446744073709551000") + "]")))
            .noted("warning: 18446744073709551000 looks rounded"));
}

TEST_CASE("OCI: a missing action, and a missing default action beside rules, are errors") {
  CHECK(oci_problem(profile_text(R"({"names": ["read"]})")) == "p.json:1 #/syscalls/0: a rule needs \"action\"");
  CHECK(oci_problem(R"({"defaultAction": "", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG"}]})") ==
        "p.json:1 #: \"defaultAction\" is missing");
}

TEST_CASE("OCI: neither a default action nor rules restricts nothing, and is said at every run") {
  const LoweredProfile profile(R"({"defaultAction": ""})");
  CHECK(profile.profile.warnings ==
        std::vector<std::string>{"p.json: neither a default action nor rules: the profile restricts nothing"});
  CHECK(profile.on("read") == "allow");
  CHECK(profile.on_number(11, {}, kernel::kAuditI386) == "allow");
}

TEST_CASE("OCI: without architectures only the native one is open, and other ABIs are killed") {
  for (const char* more :
       {"", R"("architectures": ["SCMP_ARCH_X86_64"], )", R"("architectures": ["SCMP_ARCH_S390X"], )",
        R"("architectures": ["SCMP_ARCH_NATIVE"], )", R"("archMap": [], )"}) {
    const LoweredProfile profile(profile_text("", "ALLOW", more));
    CHECK(profile.on("getpid") == "allow");
    CHECK(profile.on_number(20, {}, kernel::kAuditI386) == "kill");
    CHECK(profile.on_number(39 | kernel::kX32Bit) == "kill");
    CHECK(profile.on_number(0xffffffff) == "allow");  // -1 executes nothing; the kernel answers ENOSYS
    CHECK(profile.on_number(172, {}, kernel::kAuditAArch64) == "kill");
  }
}

TEST_CASE("OCI: ABIs that the profile opens stay closed with ENOSYS and are listed") {
  const LoweredProfile profile(profile_text(
      "", "ALLOW",
      R"("archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]}], )"));
  CHECK(profile.on_number(20, {}, kernel::kAuditI386) == "errno ENOSYS");
  CHECK(profile.on_number(39 | kernel::kX32Bit) == "errno ENOSYS");
  CHECK(profile.on("getpid") == "allow");
  CHECK(profile.noted("subArchitectures/0: left out: calls of SCMP_ARCH_X86 stay closed (ENOSYS)"));
  CHECK(profile.noted("subArchitectures/1: left out: calls of SCMP_ARCH_X32 stay closed (ENOSYS)"));
}

TEST_CASE("OCI: archMap of another architecture is not expanded, and both keys together are an error") {
  const LoweredProfile profile(profile_text(
      "", "ALLOW", R"("archMap": [{"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_X86"]}], )"));
  CHECK(profile.on_number(20, {}, kernel::kAuditI386) == "kill");
  CHECK(
      oci_problem(profile_text(
          "", "ALLOW", R"("architectures": ["SCMP_ARCH_X86"], "archMap": [{"architecture": "SCMP_ARCH_X86_64"}], )")) ==
      R"(p.json:1 #/archMap: both "architectures" and "archMap")");
}

TEST_CASE("OCI: every kill ends the process, and that is said of those that mean the thread") {
  for (const char* action : {"KILL", "KILL_THREAD", "KILL_PROCESS"}) {
    const LoweredProfile profile(profile_text(rule_text("getpid", action)));
    CHECK(profile.on("getpid") == "kill");
    CHECK(profile.noted("end the whole process here") == (std::string_view(action) != "KILL_PROCESS"));
  }
  CHECK(LoweredProfile(profile_text(rule_text("getpid", "TRAP"))).on("getpid") == "trap");
  CHECK(LoweredProfile(profile_text(rule_text("getpid", "LOG"))).on("getpid") == "log");
}

TEST_CASE("OCI: calls that are never notified cannot be recorded, and that is listed") {
  CHECK(LoweredProfile(profile_text(rule_text("close", "LOG") + "," + rule_text("read", "LOG"))).profile.notes ==
        std::vector<std::string>{"p.json: allowed without a record: close"});
  CHECK(LoweredProfile(profile_text("", "LOG"))
            .noted("allowed without a record: close, dup, fork, exit and the like by default"));
}

TEST_CASE("OCI: TRACE without a tracer and NOTIFY without an agent answer ENOSYS and are listed") {
  const LoweredProfile profile(
      profile_text(rule_text("getpid", "TRACE", "\"errnoRet\": 13") + "," + rule_text("getppid", "NOTIFY"), "ALLOW",
                   R"("listenerPath": "/run/agent.sock", "listenerMetadata": "a\nb", )"));
  CHECK(profile.on("getpid") == "errno ENOSYS");
  CHECK(profile.on("getppid") == "errno ENOSYS");
  CHECK(profile.noted("#/syscalls/0/action: SCMP_ACT_TRACE without a tracer: these calls answer ENOSYS"));
  CHECK(profile.noted("#/syscalls/1/action: SCMP_ACT_NOTIFY without an agent: these calls answer ENOSYS"));
}

TEST_CASE(
    "OCI: numbers beyond the newest call that the profile names answer ENOSYS unless the default lets through (H22)") {
  const LoweredProfile denies(profile_text(rule_text("openat", "ALLOW"), "ERRNO"));
  CHECK(denies.on("openat") == "allow");
  CHECK(denies.on("mkdirat") == "errno ENOSYS");  // the number after openat
  CHECK(denies.on("read") == "errno EPERM");
  CHECK(denies.on_number(1000) == "errno ENOSYS");
  CHECK(denies.on_number(0x3fffffff) == "errno ENOSYS");
  CHECK(denies.on_number(0xffffffff) == "errno ENOSYS");
  CHECK(denies.decide(1000, {}, kernel::kAuditX86_64).rule.newer_than_table);
  for (const char* action : {"KILL_PROCESS", "TRAP"})
    CHECK(LoweredProfile(profile_text(rule_text("openat", "ALLOW"), action)).on_number(1000) == "errno ENOSYS");
  CHECK(LoweredProfile(profile_text(rule_text("openat", "ERRNO"), "ALLOW")).on_number(1000) == "allow");
  CHECK(LoweredProfile(profile_text(rule_text("openat", "ERRNO"), "LOG")).on_number(1000) == "log");
  // Nothing named: nothing is newer.
  CHECK(LoweredProfile(profile_text("", "ERRNO")).on_number(1000) == "errno EPERM");
}

TEST_CASE("OCI: clone3 and close_range that a profile does not know fall back (cases 1 and 3)") {
  const LoweredProfile old(profile_text(rule_text("clone", "ALLOW") + "," + rule_text("pidfd_open", "ALLOW"), "ERRNO"));
  CHECK(old.on("clone3") == "errno ENOSYS");
  CHECK(old.on("close_range") == "errno ENOSYS");
  CHECK(LoweredProfile(profile_text(rule_text("clone3", "ERRNO", "\"errnoRet\": 38"), "ERRNO")).on("clone3") ==
        "errno ENOSYS");
}

TEST_CASE("OCI: the same conditions with two actions are refused, as by libseccomp") {
  const std::string rules = rule_text("read", "LOG", "\"args\": [" + condition_text(0, "EQ", "5") + "]") + "," +
                            rule_text("read", "ERRNO", "\"args\": [" + condition_text(0, "EQ", "5") + "]");
  CHECK(oci_problem(profile_text(rules)) ==
        "p.json:1 #/syscalls/1: the conditions for read are those of an earlier rule with another action; libseccomp "
        "and so the "
        "runtimes refuse that");
}

TEST_CASE("OCI: an unknown key is an error in a rule and a note above it, another case of a key counts as in Go") {
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", "\"include\": {}"))) ==
        R"(p.json:1 #/syscalls/0/include: unknown key "include"; did you mean "includes"?)");
  CHECK(oci_problem(profile_text(rule_text("read", "ERRNO", "\"args\": [{\"indx\": 1}]")))
            .starts_with(R"(p.json:1 #/syscalls/0/args/0/indx: unknown key "indx"; did you mean "index"?)"));
  CHECK(oci_problem(profile_text(rule_text("read", "ALLOW", R"("includes": {"cap": ["CAP_BPF"]})"), "ERRNO")) ==
        R"(p.json:1 #/syscalls/0/includes/cap: unknown key "cap"; did you mean "caps"?)");
  CHECK(LoweredProfile(profile_text("", "ALLOW", "\"x-owner\": 1, "))
            .noted(R"(#/x-owner: unknown key "x-owner" ignored)"));
  const LoweredProfile cased(profile_text(rule_text("read", "ALLOW", R"("Includes": {"caps": ["CAP_BPF"]})"), "ERRNO"));
  CHECK(cased.on("read") == "errno EPERM");
  CHECK(cased.noted(R"("Includes" is read as "includes", as Go's decoder does; crun ignores it)"));
  CHECK(oci_problem(profile_text(rule_text("read", "ALLOW", R"("Action": "SCMP_ACT_ERRNO")"), "ERRNO")) ==
        R"(p.json:1 #/syscalls/0/Action: "action" and "Action" are one key for some runtimes)");
}

TEST_CASE("OCI: capability conditions are decided by the run's set and what they leave out is listed") {
  const std::string text =
      profile_text(rule_text("bpf", "ALLOW", R"("includes": {"caps": ["CAP_BPF"]})") + "," +
                       rule_text("chroot", "ALLOW", R"("includes": {"caps": ["CAP_SYS_CHROOT", "CAP_CHOWN"]})") + "," +
                       rule_text("mount", "LOG", R"("excludes": {"caps": ["CAP_SYS_ADMIN", "CAP_CHOWN"]})") + "," +
                       rule_text("file_setattr", "ALLOW"),
                   "ERRNO");
  const LoweredProfile docker(text);
  CHECK(docker.on("bpf") == "errno EPERM");
  CHECK(docker.on("chroot") == "allow");
  CHECK(docker.on("mount") == "errno EPERM");
  CHECK(docker.noted("p.json:1 #/syscalls: left out in this run: 2 rules of 4"));
  CHECK(docker.noted("  rule 0 (bpf): needs CAP_BPF"));
  CHECK(docker.noted("  rule 2 (mount): not with CAP_CHOWN"));

  OciEnvironment ordinary = docker_environment();
  ordinary.capabilities.clear();
  const LoweredProfile user(text, ordinary);
  CHECK(user.on("chroot") == "errno EPERM");
  CHECK(user.on("mount") == "log");
}

TEST_CASE("OCI: architecture and kernel conditions are decided for this run") {
  const auto with = [](const std::string& condition, kernel::KernelVersion kernel = {6, 18}) {
    OciEnvironment environment = docker_environment();
    environment.kernel = kernel;
    return LoweredProfile(profile_text(rule_text("read", "ALLOW", condition), "ERRNO"), environment).on("read");
  };
  CHECK(with(R"("includes": {"arches": ["amd64", "x32"]})") == "allow");
  CHECK(with(R"("includes": {"arches": ["arm64"]})") == "errno EPERM");
  CHECK(with(R"("excludes": {"arches": ["amd64"]})") == "errno EPERM");
  CHECK(with(R"("includes": {"minKernel": "4.8"})") == "allow");
  CHECK(with(R"("includes": {"minKernel": "4.8"})", {4, 8}) == "allow");
  CHECK(with(R"("includes": {"minKernel": "4.8"})", {4, 7}) == "errno EPERM");
  CHECK(with(R"("includes": {"minKernel": "4.8"})", {3, 19}) == "errno EPERM");
  CHECK(with(R"("excludes": {"minKernel": "4.8"})", {4, 8}) == "errno EPERM");
  CHECK(with(R"("excludes": {"minKernel": "4.8"})", {4, 7}) == "allow");
  CHECK(with(R"("includes": null, "excludes": {}, "args": null)") == "allow");
  for (const std::string version : {"4", "4.8.1", "256.1", "4.256", "0.0", "", "4.x", "-4.8"})
    CHECK(oci_problem(
              profile_text(rule_text("read", "ALLOW", R"("includes": {"minKernel": ")" + version + "\"}"), "ERRNO")) ==
          "p.json:1 #/syscalls/0/includes/minKernel: minKernel is two numbers, each at most 255, such as \"4.8\", not "
          "\"" +
              version + "\"");
  CHECK(LoweredProfile(profile_text(rule_text("read", "ALLOW", R"("includes": {"arches": ["x86_64"]})"), "ERRNO"))
            .noted("\"x86_64\" is no architecture's name in a condition (this one is \"amd64\")"));
  CHECK(LoweredProfile(profile_text(rule_text("read", "ALLOW", R"("includes": {"caps": ["CAP_SYS_ADMN"]})"), "ERRNO"))
            .noted("unknown capability \"CAP_SYS_ADMN\"; did you mean \"CAP_SYS_ADMIN\"?"));
}

TEST_CASE("OCI: the old form with one name works, both forms together do not") {
  CHECK(LoweredProfile(profile_text(R"({"name": "read", "action": "SCMP_ACT_ERRNO"})")).on("read") == "errno EPERM");
  CHECK(oci_problem(profile_text(R"({"name": "read", "names": ["write"], "action": "SCMP_ACT_ERRNO"})")) ==
        R"(p.json:1 #/syscalls/0: both "name" and "names")");
  CHECK(oci_problem(profile_text(R"({"name": "", "action": "SCMP_ACT_ERRNO"})")) ==
        "p.json:1 #/syscalls/0: a call has no name");
}

TEST_CASE("OCI: linux.seccomp of a whole config.json is taken, and what is not taken is said") {
  const LoweredProfile profile(
      R"({"ociVersion": "1.0.2", "process": {"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}},
          "linux": {"namespaces": [], "seccomp": {"defaultAction": "SCMP_ACT_ALLOW",
          "syscalls": [{"names": ["mount"], "action": "SCMP_ACT_ERRNO", "excludes": {"caps": ["CAP_SYS_ADMIN"]}}]}}})");
  CHECK(profile.on("mount") == "errno EPERM");
  CHECK(profile.decide(165, {}, kernel::kAuditX86_64).rule.pointer == "#/linux/seccomp/syscalls/0");
  CHECK(profile.noted("only linux.seccomp of this config.json is applied"));
  CHECK(profile.noted("process.capabilities is left out"));
  CHECK(oci_problem(R"({"ociVersion": "1.0.2", "linux": {}})") ==
        "p.json:1 #: this config.json has no linux.seccomp: it restricts no system call");
}

TEST_CASE("OCI: documents are told from our own language by shape") {
  const auto is_oci = [](const std::string& text) { return is_oci_document(Document::parse(text, "x")->root()); };
  CHECK(is_oci(R"({"defaultAction": "SCMP_ACT_ALLOW"})"));
  CHECK(is_oci(R"({"ociVersion": "1.0"})"));
  CHECK(is_oci(R"({"linux": {"seccomp": {}}})"));
  CHECK_FALSE(is_oci(R"({"version": 1, "defaultAction": "SCMP_ACT_ALLOW"})"));
  CHECK_FALSE(is_oci("{}"));
  CHECK_FALSE(is_oci("[]"));
}

TEST_CASE("OCI: YAML is named as such with the way out") {
  const auto error = yaml_error("# a comment\n---\napiVersion: v1\n", "p.yaml");
  REQUIRE(error);
  CHECK(error->text() ==
        "p.yaml:2 #: this is YAML, and policies and profiles are JSON; convert it, for instance with \"yq -o=json "
        ".spec FILE\" for "
        "a SeccompProfile resource");
  CHECK(yaml_error("apiVersion: v1\n", "p.yaml").has_value());
  CHECK_FALSE(yaml_error("{\"a\": 1}", "p.json").has_value());
  CHECK_FALSE(yaml_error("  \"a\": 1", "p.json").has_value());
  CHECK_FALSE(yaml_error("", "p.json").has_value());
}

TEST_CASE("OCI: a denial names the entry, its comment and its line") {
  const LoweredProfile profile(
      "{\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\"syscalls\": [\n{\"names\": [\"mount\"], \"action\": "
      "\"SCMP_ACT_ERRNO\", \"errnoRet\": 13, \"comment\": \"no mounts\"}, "
      "{\"names\": [\"file_setattr\"], \"action\": \"SCMP_ACT_ALLOW\"}]}");
  const Verdict& named = profile.decide(165, {}, kernel::kAuditX86_64);
  CHECK(named.rule.layer == 1);
  CHECK(named.rule.file == "p.json");
  CHECK(named.rule.line == 3);
  CHECK(named.rule.pointer == "#/syscalls/0");
  CHECK(named.rule.reason == "no mounts");
  CHECK(named.notified);
  CHECK_FALSE(named.rule.is_default);
  const Verdict& other = profile.decide(0, {}, kernel::kAuditX86_64);
  CHECK(other.rule.pointer == "#/defaultAction");
  CHECK(other.rule.line == 1);
  CHECK(other.rule.is_default);
  CHECK_FALSE(profile.decide(3, {}, kernel::kAuditX86_64).notified);  // close is never notified (H19)
}

TEST_CASE("OCI: what the profile allows and the guard closes is listed by part of the guard") {
  const LoweredProfile profile(
      profile_text(R"({"names": ["read", "mount", "umount2", "keyctl", "bpf"], "action": "SCMP_ACT_ALLOW"})", "ERRNO"));
  const std::vector<std::string> lines = closed_by_guard(profile.profile, guard_policy({}, {}));
  CHECK(std::find(lines.begin(), lines.end(),
                  "p.json: allows mount, umount2; the guard layer keeps that closed unless a policy has \"unsafe\": "
                  "[\"mount\"]") != lines.end());
  CHECK(lines.size() == 3);
}

}  // namespace srun::policy::test
