#include "policy/parser.h"

#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

// What is wrong with a rule, without the place of the file.
std::string rule_problem(const std::string& rule) {
  return problem_of("{\"version\": 1, \"syscalls\": [" + rule + "]}");
}
ActionSpec action_of(const std::string& action) {
  return policy_of(R"({"version": 1, "syscalls": [{"names": ["getppid"], "action": )" + action + "}]}").rules.at(0).action;
}
std::vector<std::string> names_of(const std::string& names) {
  std::vector<std::string> out;
  const Policy policy = policy_of(R"({"version": 1, "syscalls": [{"names": )" + names + R"(, "action": "allow"}]})");
  for (const RuleCall& entry : policy.rules.at(0).calls) out.emplace_back(entry.call->name);
  return out;
}
using List = std::vector<std::string>;

}  // namespace

TEST_CASE("parser: a version is required, and it is 1") {
  CHECK(problem_of("{}") == "ci.json:1 #: \"version\" is missing; this program knows version 1");
  CHECK(problem_of(R"({"version": 2})") == "ci.json:1 #/version: this program knows version 1 of policies only");
  CHECK(problem_of(R"({"version": "1"})") == "ci.json:1 #/version: this program knows version 1 of policies only");
  CHECK(problem_of("[]") == "ci.json:1 #: expected a policy, that is an object, found an array");
  CHECK(problem_of(R"({"version": 1, "$schema": 7})") == "");
}

TEST_CASE("parser: sections of later versions are refused by name, never ignored") {
  for (const std::string section : {"limits", "private", "namespaces", "tests"}) {
    CHECK(problem_of("{\"version\": 1,\n \"" + section + "\": {}}") ==
          "ci.json:2 #/" + section + ": \"" + section + "\" is not enforced by this version yet");
  }
}

TEST_CASE("parser: unknown keys are named with the nearest known one") {
  CHECK(problem_of(R"({"version": 1, "syscall": []})") ==
        "ci.json:1 #/syscall: unknown key \"syscall\"; did you mean \"syscalls\"?");
  CHECK(rule_problem(R"({"names": ["read"], "acton": "allow"})") ==
        "ci.json:1 #/syscalls/0/acton: unknown key \"acton\"; did you mean \"action\"?");
  CHECK(rule_problem(R"({"names": ["read"], "action": {"errnoo": 1}})") ==
        "ci.json:1 #/syscalls/0/action/errnoo: unknown key \"errnoo\"; did you mean \"errno\"?");
  CHECK(problem_of(R"({"version": 1, "zzzzzzzzzz": 1})") == "ci.json:1 #/zzzzzzzzzz: unknown key \"zzzzzzzzzz\"");
}

TEST_CASE("parser: what has the wrong type says what was expected") {
  CHECK(problem_of(R"({"version": 1, "syscalls": {}})") ==
        "ci.json:1 #/syscalls: expected a list of rules, found an object");
  CHECK(rule_problem("7") == "ci.json:1 #/syscalls/0: expected a rule {\"names\", \"action\"}, found a number");
  CHECK(rule_problem(R"({"names": "read", "action": "allow"})") ==
        "ci.json:1 #/syscalls/0/names: expected a list of names, found a string");
  CHECK(rule_problem(R"({"names": [1], "action": "allow"})") ==
        "ci.json:1 #/syscalls/0/names/0: expected the name of a system call or group, found a number");
  CHECK(rule_problem(R"({"names": ["read"]})") == "ci.json:1 #/syscalls/0: \"action\" is missing");
  CHECK(rule_problem(R"({"action": "deny"})") == "ci.json:1 #/syscalls/0: \"names\" is missing");
  CHECK(rule_problem(R"({"names": ["read"], "action": 1})") ==
        "ci.json:1 #/syscalls/0/action: expected an action, found a number");
  CHECK(rule_problem(R"({"names": ["read"], "action": "deny", "reason": 1})") ==
        "ci.json:1 #/syscalls/0/reason: expected a string, found a number");
  CHECK(rule_problem(R"({"names": ["read"], "action": "deny", "quiet": "yes"})") ==
        "ci.json:1 #/syscalls/0/quiet: expected true or false, found a string");
  CHECK(problem_of(R"({"version": 1, "extends": "x"})") ==
        "ci.json:1 #/extends: expected a list of files or names, found a string");
  CHECK(problem_of(R"({"version": 1, "description": null})") ==
        "ci.json:1 #/description: expected a string, found null");
}

TEST_CASE("parser: every action has its meaning") {
  CHECK(action_of("\"allow\"") == ActionSpec{Action::kAllow, 0});
  CHECK(action_of("\"deny\"") == ActionSpec{Action::kErrno, 1});
  CHECK(action_of("\"kill\"") == ActionSpec{Action::kKill, 0});
  CHECK(action_of("\"log\"") == ActionSpec{Action::kLog, 0});
  CHECK(action_of("\"trap\"") == ActionSpec{Action::kTrap, 0});
  CHECK(action_of("{\"errno\": \"ENOENT\"}") == ActionSpec{Action::kErrno, 2});
  CHECK(action_of("{\"errno\": 4095}") == ActionSpec{Action::kErrno, 4095});
  CHECK(action_of("{\"return\": 0}") == ActionSpec{Action::kReturn, 0});
  CHECK(action_of("{\"return\": 7}") == ActionSpec{Action::kReturn, 7});
}

TEST_CASE("parser: error numbers that the kernel would cut or turn into success are refused (case 10)") {
  const auto errno_problem = [](const std::string& value) {
    return rule_problem("{\"names\": [\"getpriority\"], \"action\": {\"errno\": " + value + "}}");
  };
  const std::string at = "ci.json:1 #/syscalls/0/action/errno: ";
  CHECK(errno_problem("38") == "");
  CHECK(errno_problem("0") == at + "an error number is 1 to 4095; {\"return\": 0} pretends success");
  CHECK(errno_problem("4096") == at + "an error number is 1 to 4095");
  CHECK(errno_problem("65536") == at + "an error number is 1 to 4095");
  CHECK(errno_problem("-1") == at + "an error number is 1 to 4095");
  CHECK(errno_problem("1.5") == at + "expected an error name or number, found a number that is not a 64-bit integer");
  CHECK(errno_problem("\"EPERN\"") == at + "unknown error name \"EPERN\"; did you mean \"EPERM\"?");
  CHECK(errno_problem("\"38\"").starts_with(at + "unknown error name \"38\""));
}

TEST_CASE("parser: values to return are those that a call can give back") {
  const std::string at = "ci.json:1 #/syscalls/0/action/return: ";
  CHECK(rule_problem(R"({"names": ["getppid"], "action": {"return": -1}})") ==
        at + "a value to return is 0 to 2147483647; {\"errno\": NAME} makes the call fail");
  CHECK(rule_problem(R"({"names": ["getppid"], "action": {"return": 2147483648}})") ==
        at + "a value to return is 0 to 2147483647; {\"errno\": NAME} makes the call fail");
  CHECK(rule_problem(R"({"names": ["getppid"], "action": {"return": "0"}})") == at + "expected a number, found a string");
}

TEST_CASE("parser: actions of later versions and unknown ones are refused") {
  CHECK(rule_problem(R"({"names": ["read"], "action": "ask"})") ==
        "ci.json:1 #/syscalls/0/action: the action \"ask\" is not enforced by this version yet");
  CHECK(rule_problem(R"({"names": ["read"], "action": "trace"})") ==
        "ci.json:1 #/syscalls/0/action: the action \"trace\" is not enforced by this version yet");
  CHECK(rule_problem(R"({"names": ["read"], "action": "alow"})") ==
        "ci.json:1 #/syscalls/0/action: unknown action \"alow\"; known: allow deny kill log trap {\"errno\": …} "
        "{\"return\": …}; did you mean \"allow\"?");
  CHECK(rule_problem(R"({"names": ["read"], "action": {}})") ==
        "ci.json:1 #/syscalls/0/action: expected {\"errno\": …} or {\"return\": …}");
  CHECK(rule_problem(R"({"names": ["read"], "action": {"errno": 1, "return": 0}})") ==
        "ci.json:1 #/syscalls/0/action: expected {\"errno\": …} or {\"return\": …}");
}

TEST_CASE("parser: an unknown call is an error where something is refused and a warning where it is granted (case 8)") {
  for (const std::string action : {"\"deny\"", "\"kill\"", "\"trap\"", "{\"errno\": 5}", "{\"return\": 0}"}) {
    CHECK(rule_problem("{\"names\": [\"read\", \"newuname\"], \"action\": " + action + "}").starts_with(
        "ci.json:1 #/syscalls/0/names/1: unknown system call \"newuname\""));
  }
  CHECK(rule_problem("{\"names\": [\"read\",\n\"opeant\"], \"action\": \"deny\"}") ==
        "ci.json:2 #/syscalls/0/names/1: unknown system call \"opeant\"; did you mean \"openat\"?");
  const Policy granted = policy_of(R"({"version": 1, "syscalls": [{"names": ["future_call_of_7_0"], "action": "allow"}]})");
  REQUIRE(granted.warnings.size() == 1);
  CHECK(granted.warnings[0] == "ci.json:1 #/syscalls/0/names/0: unknown system call \"future_call_of_7_0\" grants nothing");
  CHECK(granted.rules.at(0).calls.empty());
}

TEST_CASE("parser: a call of another processor is silent in both kinds of rule (case 8)") {
  for (const std::string action : {"allow", "deny"}) {
    const Policy policy = policy_of(R"({"version": 1, "syscalls": [{"names": ["socketcall"], "action": ")" + action + "\"}]}");
    CHECK(policy.warnings.empty());
    CHECK(policy.rules.at(0).calls.size() == 1);
  }
}

TEST_CASE("parser: so is a call of a processor that the table does not have, alone or among others (case 8)") {
  for (const std::string action : {"allow", "deny"}) {
    const auto rule = [&](const std::string& names) {
      return policy_of("{\"version\": 1, \"syscalls\": [{\"names\": [" + names + "], \"action\": \"" + action + "\"}]}");
    };
    const Policy among = rule("\"sync_file_range2\", \"read\"");
    CHECK(among.warnings.empty());
    CHECK(among.rules.at(0).calls.size() == 1);
    const Policy alone = rule("\"arm_fadvise64_64\"");
    CHECK(alone.warnings.empty());
    CHECK(alone.rules.at(0).calls.empty());
  }
}

TEST_CASE("parser: empty names and lists are errors (case 8)") {
  CHECK(rule_problem(R"({"names": [""], "action": "allow"})") == "ci.json:1 #/syscalls/0/names/0: an empty name");
  CHECK(rule_problem(R"({"names": ["!"], "action": "allow"})") == "ci.json:1 #/syscalls/0/names/0: an empty name");
  CHECK(rule_problem(R"({"names": [], "action": "allow"})") == "ci.json:1 #/syscalls/0/names: an empty list of names");
}

TEST_CASE("parser: groups and names taken out of them") {
  CHECK(names_of(R"(["@aio", "!io_setup", "!io_uring_setup", "!io_uring_enter", "!io_uring_register"])") ==
        List{"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_pgetevents_time64", "io_submit"});
  CHECK(names_of(R"(["read", "write", "!read", "read"])") == List{"write", "read"});
  CHECK(names_of(R"(["read", "@clock", "!@clock"])") == List{"read"});
  CHECK(rule_problem(R"({"names": ["@clok"], "action": "deny"})") ==
        "ci.json:1 #/syscalls/0/names/0: unknown group \"@clok\"; did you mean \"@clock\"?");
  CHECK(rule_problem(R"({"names": ["@clock", "!read"], "action": "deny"})") ==
        "ci.json:1 #/syscalls/0/names/1: \"!read\" takes nothing out: the call does not stand before it");
  CHECK(rule_problem(R"({"names": ["!@clock", "read"], "action": "deny"})") ==
        "ci.json:1 #/syscalls/0/names/0: \"!@clock\" takes nothing out: none of its calls stands before it");
  CHECK(rule_problem(R"({"names": ["read", "!read"], "action": "allow"})") ==
        "ci.json:1 #/syscalls/0/names: no call is left of these names");
  CHECK(rule_problem(R"({"names": ["@clock", "!clock_setime"], "action": "allow"})") ==
        "ci.json:1 #/syscalls/0/names/1: unknown system call \"clock_setime\"; did you mean \"clock_settime\"?");
}

TEST_CASE("parser: a rule that can never decide is an error (H41)") {
  CHECK(problem_of("{\"version\": 1, \"syscalls\": [\n{\"names\": [\"read\", \"write\"], \"action\": \"allow\"},\n"
                   "{\"names\": [\"write\"], \"action\": \"deny\"}]}") ==
        "ci.json:3 #/syscalls/1: this rule can never decide: #/syscalls/0 (line 2) matches first whenever it would");
  // Hidden by two rules together.
  CHECK(problem_of(R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"}, {"names": ["write"], "action": "allow"},
                       {"names": ["read", "write"], "action": "deny"}]})") != "");
  // A group that is hidden in part only is what one writes to make an exception.
  CHECK(problem_of(R"({"version": 1, "syscalls": [{"names": ["read"], "action": "deny"}, {"names": ["@basic-io"], "action": "allow"}]})") == "");
  // A condition before it leaves room; the same condition does not.
  CHECK(problem_of(R"({"version": 1, "syscalls": [{"names": ["read"], "when": [{"arg": 0, "op": "==", "value": 1}], "action": "deny"},
                       {"names": ["read"], "action": "allow"}]})") == "");
  CHECK(problem_of(R"({"version": 1, "syscalls": [{"names": ["read"], "when": [{"arg": 0, "op": "==", "value": 1}], "action": "deny"},
                       {"names": ["read"], "when": [{"arg": 2, "op": "==", "value": 1}, {"arg": 0, "op": "==", "value": 1}], "action": "allow"}]})") != "");
}

TEST_CASE("parser: what a call that is never notified cannot get is refused (H19)") {
  CHECK(rule_problem(R"({"names": ["close"], "action": "log"})").starts_with("ci.json:1 #/syscalls/0/action: close cannot be recorded"));
  CHECK(rule_problem(R"({"names": ["dup"], "action": {"return": 3}})").starts_with(
      "ci.json:1 #/syscalls/0/action: dup can only be refused or return 0"));
  CHECK(rule_problem(R"({"names": ["close"], "action": {"return": 0}})") == "");
  CHECK(rule_problem(R"({"names": ["close", "fork"], "action": "deny"})") == "");
  CHECK(rule_problem(R"({"names": ["@process"], "action": "log"})") == "");
  CHECK(rule_problem(R"({"names": ["read"], "action": "log", "quiet": true})") ==
        "ci.json:1 #/syscalls/0/quiet: \"quiet\" and the action \"log\" contradict each other");
}

TEST_CASE("parser: unsafe names parts of the guard layer only") {
  CHECK(problem_of(R"({"version": 1, "unsafe": ["ptrace", "mount"]})") == "");
  CHECK(problem_of(R"({"version": 1, "unsafe": ["ptraec"]})") ==
        "ci.json:1 #/unsafe/0: unknown part of the guard layer \"ptraec\"; did you mean \"ptrace\"?");
  CHECK(problem_of(R"({"version": 1, "unsafe": ["supervisor"]})") ==
        "ci.json:1 #/unsafe/0: \"supervisor\" cannot be lifted: what watches the run is out of its reach");
  CHECK(problem_of(R"({"version": 1, "unsafe": "ptrace"})") ==
        "ci.json:1 #/unsafe: expected a list of parts of the guard layer, found a string");
}

}  // namespace srun::policy::test
