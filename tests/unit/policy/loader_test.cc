#include "policy/loader.h"

#include <sys/stat.h>

#include <algorithm>

#include "policy/matcher.h"
#include "policy_fixture.h"

namespace srun::policy::test {

namespace {

using List = std::vector<std::string>;

std::string load_problem(const List& arguments, const QuickFlags& quick = {}, LoadOptions options = load_options()) {
  auto stack = load_stack(arguments, quick, options);
  return stack ? std::string() : stack.error().text();
}

PolicyStack loaded(const List& arguments, const QuickFlags& quick = {}, LoadOptions options = load_options()) {
  auto stack = load_stack(arguments, quick, options);
  REQUIRE_MESSAGE(stack, stack.error().text());
  return std::move(*stack);
}

Enforcement lowered(const PolicyStack& stack) {
  auto made = lower(stack, {});
  REQUIRE_MESSAGE(made, made.error().text());
  return std::move(*made);
}

const std::string kAllowAll = R"({"version": 1, "default": "allow"})";

}  // namespace

TEST_CASE("loader: no policy is an error that says what to give") {
  CHECK(load_problem({}) == "no policy; --policy baseline filters system calls only");
}

TEST_CASE("loader: none is the guard layer alone") {
  const PolicyStack stack = loaded({"none"});
  CHECK(stack.layers.empty());
  CHECK(stack.display_name == "none");
  const Enforcement made = lowered(stack);
  CHECK(made.layers.size() == 1);
  CHECK(told(verdict_of(made, call_of("swapon"))) == "allow (guard layer)  default");
  CHECK(told(verdict_of(made, call_of("bpf"))) == "errno 1 notified (guard layer) bpf");
}

TEST_CASE("loader: a word is a NAME only without slash and suffix, and is never looked up below the current directory") {
  CHECK(is_policy_name("baseline"));
  CHECK(!is_policy_name("./baseline"));
  CHECK(!is_policy_name("baseline.json"));
  const TemporaryDirectory directory;
  directory.write("mine.json", kAllowAll);
  directory.write("mine", kAllowAll);
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  CHECK(load_problem({"mine"}).starts_with("no policy is called \"mine\" in "));
  CHECK(load_problem({"mine.json"}) == "");
  CHECK(load_problem({"./mine"}) == "");
  std::filesystem::current_path(before);
}

TEST_CASE("loader: an unknown NAME shows the nearest one") {
  CHECK(load_problem({"basline"}).ends_with("a file is given with a slash or as NAME.json; did you mean \"baseline\"?"));
  LoadOptions nowhere = load_options();
  nowhere.directories = PolicyDirectories{};
  CHECK(load_problem({"baseline"}, {}, nowhere) ==
        "no policy is called \"baseline\": no directory of policies is installed; a file is given with a slash or as NAME.json");
}

TEST_CASE("loader: the first directory that has a NAME decides, even if its file is bad") {
  const TemporaryDirectory first;
  const TemporaryDirectory second;
  LoadOptions options = load_options();
  options.directories = PolicyDirectories{{first.path(), second.path()}};
  second.write("x.json", kAllowAll);
  CHECK(load_problem({"x"}, {}, options) == "");
  first.write("x.json", "{}");
  CHECK(load_problem({"x"}, {}, options) == "x:1 #: \"version\" is missing; this program knows version 1");
  const std::vector<NamedPolicy> names = list_policies(*options.directories);
  REQUIRE(names.size() == 1);
  CHECK(names[0].path == first.path() + "/x.json");
}

TEST_CASE("loader: a file that others can change is refused, and the message says what to do") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("p.json", kAllowAll, 0602);
  CHECK(load_problem({file}) == file + ": can be changed by other users; chmod go-w " + file);
  ::chmod(file.c_str(), 0660);  // the group is the caller's own
  CHECK(load_problem({file}) == "");
  ::chmod(file.c_str(), 0444);
  CHECK(load_problem({file}) == "");
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), 65534, 0) == 0);
    CHECK(load_problem({file}) == file + ": belongs to user 65534, who could change it; a policy belongs to root or to you: copy it");
    REQUIRE(::chown(file.c_str(), 0, 65534) == 0);
    ::chmod(file.c_str(), 0660);
    CHECK(load_problem({file}) == file + ": can be changed by other users; chmod go-w " + file);
  }
}

TEST_CASE("loader: what is no regular file is refused without waiting for it") {
  const TemporaryDirectory directory;
  const std::string fifo = directory.path() + "/fifo.json";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(load_problem({fifo}) == fifo + ": is not a regular file");
  CHECK(load_problem({directory.path() + "/"}) == directory.path() + "/: is not a regular file");
  CHECK(load_problem({directory.path() + "/absent.json"}) ==
        directory.path() + "/absent.json: cannot be opened: No such file or directory");
  const std::string big = directory.write("big.json", std::string(kMaxDocumentBytes + 1, ' '));
  CHECK(load_problem({big}) == big + ": is larger than 1048576 bytes");
}

TEST_CASE("loader: a symbolic link is followed and what it leads to is checked") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("real.json", kAllowAll);
  const std::string link = directory.path() + "/link.json";
  REQUIRE(::symlink(file.c_str(), link.c_str()) == 0);
  CHECK(load_problem({link}) == "");
  ::chmod(file.c_str(), 0606);
  CHECK(load_problem({link}) == link + ": can be changed by other users; chmod go-w " + link);
}

TEST_CASE("extends: own rules come first, scalars of the nearest file win, lists add up, objects merge by key") {
  const TemporaryDirectory directory;
  directory.write("base.json", R"({"version": 1, "description": "base", "default": "kill",
    "syscalls": [{"names": ["read", "write"], "action": "allow"}, {"names": ["swapon"], "action": "allow"}],
    "environment": {"drop": ["A"], "set": {"X": "base", "Y": "base"}}, "unsafe": ["perf"]})");
  const std::string own = directory.write("own.json", R"({"version": 1, "extends": ["base.json"],
    "default": {"errno": "ENOENT"},
    "syscalls": [{"names": ["read"], "action": {"errno": "EIO"}}],
    "environment": {"drop": ["B"], "set": {"X": "own"}}, "unsafe": ["bpf"]})");
  const PolicyStack stack = loaded({own});
  const Policy& policy = *stack.layers.at(0).policy;
  CHECK(policy.description == "base");
  CHECK(policy.rules.size() == 3);
  CHECK(policy.environment->drop == List{"B", "A"});
  CHECK(policy.environment->set == std::vector<std::pair<std::string, std::string>>{{"X", "own"}, {"Y", "base"}});
  CHECK(lifts(policy, "bpf"));
  CHECK(lifts(policy, "perf"));
  const Enforcement made = lowered(stack);
  CHECK(told(verdict_of(made, call_of("read"))) == "errno 5 notified " + own + " #/syscalls/0");
  CHECK(told(verdict_of(made, call_of("write"))) == "allow " + directory.path() + "/base.json #/syscalls/0");
  CHECK(told(verdict_of(made, call_of("getpid"))) == "errno 2 notified " + own + " #/default default");
}

TEST_CASE("extends: names and files relative to the extending file; a file counts once whatever the way to it") {
  const TemporaryDirectory directory;
  REQUIRE(::mkdir((directory.path() + "/sub").c_str(), 0700) == 0);
  directory.write("sub/c.json", R"({"version": 1, "syscalls": [{"names": ["read"], "action": "allow"}]})");
  directory.write("a.json", R"({"version": 1, "extends": ["sub/c.json"]})");
  directory.write("b.json", R"({"version": 1, "extends": ["./sub/../sub/c.json"]})");
  const std::string own = directory.write("own.json", R"({"version": 1, "extends": ["a.json", "b.json", "baseline"]})");
  const PolicyStack stack = loaded({own});
  CHECK(stack.layers.at(0).policy->rules.size() == 3);
  CHECK(stack.layers.at(0).policy->has_syscalls);
}

TEST_CASE("extends: a circle, a missing file and a profile of another language are errors at the entry") {
  const TemporaryDirectory directory;
  const std::string a = directory.write("a.json", "{\"version\": 1,\n\"extends\": [\"b.json\"]}");
  const std::string b = directory.write("b.json", "{\"version\": 1,\n\n\"extends\": [\"a.json\"]}");
  CHECK(load_problem({a}) == directory.path() + "/b.json:3 #/extends/0: \"a.json\" extends itself in a circle");
  const std::string self = directory.write("self.json", R"({"version": 1, "extends": ["./self.json"]})");
  CHECK(load_problem({self}) == self + ":1 #/extends/0: \"./self.json\" extends itself in a circle");
  const std::string lost = directory.write("lost.json", R"({"version": 1, "extends": ["gone.json"]})");
  CHECK(load_problem({lost}) == lost + ":1 #/extends/0: cannot extend: " + directory.path() +
                                    "/gone.json cannot be opened: No such file or directory");
  const std::string named = directory.write("named.json", R"({"version": 1, "extends": ["basline"]})");
  CHECK(load_problem({named}).ends_with("did you mean \"baseline\"?"));
  directory.write("oci.json", R"({"defaultAction": "SCMP_ACT_ALLOW"})");
  const std::string mixed = directory.write("mixed.json", R"({"version": 1, "extends": ["oci.json"]})");
  CHECK(load_problem({mixed}) == mixed + ":1 #/extends/0: an OCI profile cannot be extended, its rules mean something "
                                         "else; give it as a layer of its own: --policy oci.json");
}

TEST_CASE("extends: a mistake in an extended file is reported there") {
  const TemporaryDirectory directory;
  directory.write("bad.json", "{\"version\": 1,\n\"sycalls\": []}");
  const std::string own = directory.write("own.json", R"({"version": 1, "extends": ["bad.json"]})");
  CHECK(load_problem({own}) == directory.path() + "/bad.json:2 #/sycalls: unknown key \"sycalls\"; did you mean \"syscalls\"?");
}

TEST_CASE("extends: a rule of the base that the own rules hide is no error") {
  const TemporaryDirectory directory;
  const std::string own = directory.write(
      "own.json", R"({"version": 1, "extends": ["baseline"], "syscalls": [{"names": ["@baseline"], "action": "deny"}]})");
  CHECK(load_problem({own}) == "");
}

TEST_CASE("loader: an OCI profile is a layer, recognised by its shape") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("oci.json", R"({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]})");
  const PolicyStack stack = loaded({"baseline", file});
  REQUIRE(stack.layers.size() == 2);
  CHECK(stack.layers[1].info.oci);
  const Enforcement made = lowered(stack);
  CHECK(verdict_of(made, call_of("read")).action == Action::kAllow);
  CHECK(verdict_of(made, call_of("write")).rule.layer == 2);
}

TEST_CASE("quick flags: --net none refuses every family but AF_UNIX in front of the last policy's rules") {
  const TemporaryDirectory directory;
  const std::string open = directory.write("open.json", kAllowAll);
  QuickFlags quick;
  quick.network.none = true;
  for (const List& arguments : {List{open}, List{"none"}, List{open, "none"}}) {
    const Enforcement made = lowered(loaded(arguments, quick));
    CHECK(told(verdict_of(made, call_of("socket", {2, 1, 0}))) == "errno 13 notified (command line) --net none");
    CHECK(told(verdict_of(made, call_of("socketpair", {0xdeadbeef00000010, 1, 0}))) ==
          "errno 13 notified (command line) --net none");
    CHECK(verdict_of(made, call_of("socket", {0xdeadbeef00000001, 1, 0})).action == Action::kAllow);
    CHECK(verdict_of(made, call_of("read")).action == Action::kAllow);
  }
  CHECK(loaded({open}, quick).layers.size() == 1);
  CHECK(loaded({"none"}, quick).layers.size() == 1);
}

TEST_CASE("quick flags: beside an OCI profile they are a layer of their own") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("oci.json", R"({"defaultAction": "SCMP_ACT_ALLOW"})");
  QuickFlags quick;
  quick.network.none = true;
  const PolicyStack stack = loaded({file}, quick);
  REQUIRE(stack.layers.size() == 2);
  CHECK(told(verdict_of(lowered(stack), call_of("socket", {2}))) == "errno 13 notified (command line) --net none");
}

TEST_CASE("quick flags: --env keeps, with a pattern too, and sets") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("p.json", R"({"version": 1, "environment": {"drop": ["@secrets"], "set": {"CI": "1"}}})");
  QuickFlags quick;
  quick.env = {"NPM_TOKEN", "AWS_*", "CI=2", "E=a=b"};
  const Enforcement made = lowered(loaded({file}, quick));
  CHECK(apply_environment({"NPM_TOKEN=t", "AWS_KEY=k", "GH_TOKEN=g", "PATH=/bin"}, made.environment) ==
        List{"NPM_TOKEN=t", "AWS_KEY=k", "PATH=/bin", "CI=2", "E=a=b"});
  const Enforcement earlier = lowered(loaded({file, "none"}, quick));
  CHECK(apply_environment({"NPM_TOKEN=t"}, earlier.environment) == List{"CI=2", "E=a=b"});
}

TEST_CASE("loader: a refusal that a sibling makes pointless is warned about (H41)") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("p.json", R"({"version": 1, "extends": ["baseline"], "syscalls": [
    {"names": ["unlink", "rmdir"], "action": "deny"},
    {"names": ["mkdir", "mkdirat"], "action": "deny"},
    {"names": ["rename"], "when": [{"arg": 0, "op": "==", "value": 0}], "action": "deny"}]})");
  if constexpr (kernel::kNativeArch == kernel::Arch::kX86_64) {
    CHECK(loaded({file}).warnings == List{file + ":2 #/syscalls/0: unlink is refused, but unlinkat can do the same",
                                          file + ":2 #/syscalls/0: rmdir is refused, but unlinkat can do the same"});
  }
}

TEST_CASE("loader: the stack is named after all policies, and every policy tells its description") {
  const PolicyStack stack = loaded({"baseline", "offline"});
  CHECK(stack.display_name == "baseline,offline");
  CHECK(stack.layers[1].info.description.starts_with("baseline without network"));
}

TEST_CASE("policies: every shipped policy loads, compiles and says what it is") {
  const LoadOptions options = load_options();
  const std::vector<NamedPolicy> names = list_policies(*options.directories);
  CHECK(names.size() >= 2);
  for (const NamedPolicy& row : names) {
    CAPTURE(row.name);
    const PolicyStack stack = loaded({row.name});
    CHECK(!stack.layers.at(0).info.description.empty());
    CHECK(stack.warnings == List{});
    const Enforcement made = lowered(stack);
    CHECK(made.programs->kernel.code().size() <= bpf::kMaxInstructions);
    CHECK(made.warnings == List{});
  }
}

}  // namespace srun::policy::test
