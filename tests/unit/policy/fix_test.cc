#include "policy/fix.h"

#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

std::string fix(const PolicyStack& stack, const bpf::CallData& call, const LoweringOptions& options = {}) {
  auto made = lower(stack, options);
  REQUIRE_MESSAGE(made, made.error().text());
  return suggested_fix(stack, options, *made, call).value_or("none");
}
std::string fix(const std::string& policy, const bpf::CallData& call) { return fix(stack_of({policy}), call); }

const std::string kRules = R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"},
  {"names": ["getppid"], "action": "deny"}]})";

}  // namespace

static QuickFlags net_none() {
  QuickFlags flags;
  flags.network.none = true;
  return flags;
}

TEST_CASE("fix: what no rule matched is added to an allow rule") {
  CHECK(fix(kRules, call_of("swapon")) == "to allow: add \"swapon\" to an allow rule in ci.json");
}

TEST_CASE("fix: a rule that refuses is deliberate: it is removed, if that allows the call") {
  CHECK(fix(kRules, call_of("getppid")) == "deliberate: an allow rule for \"getppid\" before it in ci.json");
  CHECK(fix(R"({"version": 1, "default": "allow", "syscalls": [{"names": ["getppid"], "action": "deny"}]})", call_of("getppid")) ==
        "deliberate: remove that rule to allow");
}

TEST_CASE("fix: a policy without rules keeps its baseline") {
  CHECK(fix(R"({"version": 1})", call_of("swapon")) == "to allow: a rule that allows [\"@baseline\", \"swapon\"] in ci.json");
}

TEST_CASE("fix: an installed policy is extended, not edited") {
  auto stack = load_stack(std::vector<std::string>{"offline"}, {}, load_options());
  REQUIRE(stack);
  CHECK(fix(*stack, call_of("swapon")) == "to allow: an allow rule for \"swapon\" in a policy with \"extends\": [\"offline\"]");
  // A section decides before every rule of its file: there is no rule to add.
  CHECK(fix(*stack, call_of("socket", {2})) == "none");
}

TEST_CASE("fix: a quick flag is left out") {
  auto stack = load_stack(std::vector<std::string>{"baseline"}, net_none(), load_options());
  REQUIRE(stack);
  CHECK(fix(*stack, call_of("socket", {2})) == "deliberate: leave out --net none to allow");
  auto both = load_stack(std::vector<std::string>{"offline"}, net_none(), load_options());
  REQUIRE(both);
  CHECK(fix(*both, call_of("socket", {2})) == "none");
}

TEST_CASE("fix: a part of the guard layer is lifted, with an allow rule where it needs one") {
  CHECK(fix(R"({"version": 1, "default": "allow"})", call_of("bpf")) == "to allow: \"unsafe\": [\"bpf\"] in ci.json");
  CHECK(fix(kRules, call_of("bpf")) == "to allow: \"unsafe\": [\"bpf\"] and an allow rule for \"bpf\" in ci.json");
  CHECK(fix(R"({"version": 1, "default": "allow"})", call_of("ptrace", {16, 1})) == "to allow: \"unsafe\": [\"ptrace\"] in ci.json");
}

TEST_CASE("fix: a call that the supervisor still checks is said to pass among the run's own processes only") {
  CHECK(fix(kRules, call_of("ptrace", {16, 1})) ==
        "to allow: add \"ptrace\" to an allow rule in ci.json (then among the run's own processes)");
}

TEST_CASE("fix: nothing is suggested where no single change helps") {
  bpf::CallData call = call_of("getpid");
  call.nr = static_cast<int32_t>(kernel::first_unknown_number(kernel::kNativeArch));
  CHECK(fix(kRules, call) == "none");                                      // a call without a name
  CHECK(fix(kRules, call_of("clone3")) == "none");                         // closed for good
  CHECK(fix(kRules, call_of("prlimit64", {1, 0, 1})) ==
        "to allow: add \"prlimit64\" to an allow rule in ci.json (then among the run's own processes)");
  CHECK(fix(R"({"version": 1, "default": "allow"})", call_of("prlimit64", {1, 0, 1})) == "none");
  call = call_of("getpid");
  call.arch = kernel::kAuditI386;
  CHECK(fix(kRules, call) == "none");
  CHECK(fix(stack_of({kRules, kRules}), call_of("swapon")) == "none");     // two files refuse
  CHECK(fix(stack_of({R"({"version": 1, "default": "allow"})", R"({"version": 1, "default": "allow"})"}), call_of("bpf")) == "none");
}

TEST_CASE("fix: under --audit the fix is the one of an enforced run") {
  const PolicyStack stack = stack_of({kRules});
  CHECK(fix(stack, call_of("swapon"), LoweringOptions{.audit = true}) == "to allow: add \"swapon\" to an allow rule in ci.json");
}

}  // namespace srun::policy::test
