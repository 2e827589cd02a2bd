#include "cli/options.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace srun;
using namespace srun::cli;

namespace {

using Words = std::vector<std::string>;

Result<Options, UsageError> parse(const Words& words) {
  std::vector<const char*> argv{"sandbox-run"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

Options good(const Words& words) {
  Result<Options, UsageError> parsed = parse(words);
  REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
  return *parsed;
}

// "125: message", so that both are compared at once.
std::string bad(const Words& words) {
  const Result<Options, UsageError> parsed = parse(words);
  if (parsed.has_value()) return "accepted";
  return std::to_string(parsed.error().status) + ": " + parsed.error().message;
}

}  // namespace

TEST_CASE("options: they end at the first word that is none; the program's own options stay its own") {
  const Options options = good({"-p", "ci.json", "gcc", "-p", "--check", "--nonsense", "--", "x.c"});
  CHECK(options.mode == Mode::kRun);
  CHECK(options.policies == Words{"ci.json"});
  CHECK(options.program == Words{"gcc", "-p", "--check", "--nonsense", "--", "x.c"});
}

TEST_CASE("options: -- ends them, and a program may then begin with a dash") {
  CHECK(good({"-p", "a", "--", "--check"}).program == Words{"--check"});
  CHECK(good({"-p", "a", "--", "--", "x"}).program == Words{"--", "x"});
  CHECK(good({"-p", "a", "-", "x"}).program == Words{"-", "x"});
  CHECK(good({"-p", "a", "", "x"}).program == Words{"", "x"});
}

TEST_CASE("options: -p is repeatable, in every way of writing it, and keeps its order") {
  CHECK(good({"-p", "a", "--policy", "b", "--policy=c", "-pd", "-p=e", "true"}).policies ==
        Words{"a", "b", "c", "d", "e"});
}

TEST_CASE("options: a value may begin with a dash, hold =, commas or brackets, and is taken literally") {
  const Options options = good({"-p", "-x.json", "--chdir", "--", "--env", "A=-b=[c,d]", "--env", "[x]", "true"});
  CHECK(options.policies == Words{"-x.json"});
  CHECK(options.chdir == "--");
  CHECK(options.env == Words{"A=-b=[c,d]", "[x]"});
}

TEST_CASE("options: defaults") {
  const Options options = good({"-p", "none", "true"});
  CHECK(options.mode == Mode::kRun);
  CHECK(options.policies == Words{"none"});
  CHECK(options.net.empty());
  CHECK(options.env.empty());
  CHECK_FALSE(options.chdir.has_value());
  CHECK(options.keep_fds.empty());
  CHECK_FALSE(options.audit);
  CHECK(options.denials == Denials::kAuto);
  CHECK(options.denials_to == DenialsTo::kLive);
  CHECK_FALSE(options.events.has_value());
  CHECK_FALSE(options.fail_on_denial);
  CHECK(options.failure_status == 125);
  CHECK(options.wait == Wait::kMain);
  CHECK(options.service == Service::kAuto);
  CHECK_FALSE(options.strict);
  CHECK_FALSE(options.quiet);
  CHECK_FALSE(options.debug);
  CHECK_FALSE(options.pretend_missing.landlock);
}

TEST_CASE("options: every option of this version") {
  const Options options = good({"-p",
                                "a",
                                "--net",
                                "none",
                                "--env",
                                "CI",
                                "--env=LC_*",
                                "--chdir",
                                "/tmp",
                                "--keep-fd",
                                "5",
                                "--keep-fd=7",
                                "--audit",
                                "--denials",
                                "all",
                                "--denials-to",
                                "end",
                                "--events",
                                "e.jsonl",
                                "--fail-on-denial",
                                "--failure-status",
                                "99",
                                "--wait",
                                "all",
                                "--quiet",
                                "--debug",
                                "--no-jit",
                                "--strict",
                                "--service",
                                "pinned",
                                "--pretend-missing",
                                "landlock,wait-killable",
                                "make",
                                "-j2"});
  CHECK(options.net == std::vector<std::string>{"none"});
  CHECK(options.env == Words{"CI", "LC_*"});
  CHECK(options.chdir == "/tmp");
  CHECK(options.keep_fds == std::vector<int>{5, 7});
  CHECK(options.audit);
  CHECK(options.denials == Denials::kAll);
  CHECK(options.denials_to == DenialsTo::kEnd);
  REQUIRE(options.events.has_value());
  CHECK(options.events->path == "e.jsonl");
  CHECK(options.fail_on_denial);
  CHECK(options.failure_status == 99);
  CHECK(options.wait == Wait::kAll);
  CHECK(options.quiet);
  CHECK(options.debug);
  CHECK(options.no_jit);
  CHECK(options.strict);
  CHECK(options.service == Service::kPinned);
  CHECK(options.pretend_missing.landlock);
  CHECK(options.pretend_missing.wait_killable);
  CHECK_FALSE(options.pretend_missing.sync_wake);
  CHECK_FALSE(options.pretend_missing.mount_namespace);
  CHECK(options.program == Words{"make", "-j2"});
}

TEST_CASE("options: of an option that holds one value the last one wins") {
  const Options options =
      good({"-p", "a", "--denials-to", "log.txt", "--denials-to", "live", "--events", "x", "--events", "fd:4",
            "--chdir", "a", "--chdir", "b", "--wait", "all", "--wait", "main", "true"});
  CHECK(options.denials_to == DenialsTo::kLive);
  CHECK(options.denials_file.empty());
  REQUIRE(options.events.has_value());
  CHECK(options.events->path.empty());
  CHECK(options.events->fd == 4);
  CHECK(options.chdir == "b");
  CHECK(options.wait == Wait::kMain);
  CHECK(good({"-p", "a", "--denials-to", "log.txt", "true"}).denials_file == "log.txt");
}

TEST_CASE("options: without a policy it is `default`") {
  CHECK(good({"true"}).policies == std::vector<std::string>{"default"});
  CHECK_FALSE(good({"true"}).chosen_policy);
  CHECK(good({"--net", "none", "true"}).policies == std::vector<std::string>{"default"});
  CHECK(good({"-p", "none", "true"}).policies == std::vector<std::string>{"none"});
  CHECK(good({"-p", "none", "true"}).chosen_policy);
}

TEST_CASE("options: paths and endpoints are kept in their order") {
  const Options options = good({"--deny", "a", "--read", "b", "--write=c", "--read-only", "d", "--net", "x:1,y", "--listen", "80", "true"});
  REQUIRE(options.files.size() == 4);
  CHECK(std::count_if(options.files.begin(), options.files.end(), [](const Options::FileFlag& flag) { return flag.verb == "deny" && flag.path == "a"; }) == 1);
  CHECK(std::count_if(options.files.begin(), options.files.end(), [](const Options::FileFlag& flag) { return flag.verb == "read-only" && flag.path == "d"; }) == 1);
  CHECK(options.net == std::vector<std::string>{"x:1,y"});
  CHECK(options.listen == std::vector<std::string>{"80"});
}

TEST_CASE("options: no program is refused unless --check can do without") {
  CHECK(bad({}) == "125: no program to run; see --help");
  CHECK(bad({"-p", "a"}) == "125: no program to run; see --help");
  CHECK(bad({"-p", "a", "--"}) == "125: no program to run; see --help");
  CHECK(good({"--check"}).mode == Mode::kCheckHost);
  CHECK(good({"--check", "-p", "a"}).mode == Mode::kCheck);
  CHECK(good({"--check", "-p", "a", "true"}).mode == Mode::kCheck);
}

TEST_CASE("options: an unknown one is refused with the nearest name and never taken for the program") {
  CHECK(bad({"--polcy", "a", "true"}) == "125: unknown option --polcy; did you mean --policy?");
  CHECK(bad({"--fail-on-denail", "true"}) == "125: unknown option --fail-on-denail; did you mean --fail-on-denial?");
  CHECK(bad({"--evnts=x", "true"}) == "125: unknown option --evnts; did you mean --events?");
  CHECK(bad({"--frobnicate", "true"}) == "125: unknown option --frobnicate; see --help");
  CHECK(bad({"-q", "true"}) == "125: unknown option -q; see --help");
  CHECK(bad({"--poli", "a", "true"}) == "125: unknown option --poli; did you mean --policy?");
  CHECK(bad({"--\x1b[31mred", "true"}) == "125: unknown option --\\x1b[31mred; see --help");
}

TEST_CASE("options: those of later versions say so") {
  for (const std::string name : {
                                 "--limit",
                                 "--timeout",
                                 "--private",
                                 "--learn",
                                 "--ask",
                                 "--trace",
                                 "--attach",
                                 "--summary",
                                 "--report",
                                 "--known",
                                 "--annotate",
                                 "--strict-paths",
                                 "-e",
                                 "-f",
                                 "-c",
                                 "-o",
                                 "-t",
                                 "-tt",
                                 "-ttt",
                                 "-r",
                                 "-T",
                                 "-y",
                                 "-yy",
                                 "-s",
                                 "-v",
                                 "-x",
                                 "-P",
                                 "-z",
                                 "-Z",
                                 "-k",
                                 "-n",
                                 "-C",
                                 "-w",
                                 "-S",
                                 "-U"})
    CHECK(bad({"-p", "a", name, "true"}) == "125: " + name + " is not part of this version yet");
  CHECK(bad({"--trace=open", "true"}) == "125: --trace is not part of this version yet");
  CHECK(bad({"--timeout=3", "true"}) == "125: --timeout is not part of this version yet");
  CHECK(bad({"-etrace=open", "true"}) == "125: -e is not part of this version yet");
  CHECK(bad({"-s200", "true"}) == "125: -s is not part of this version yet");
  CHECK(bad({"--failure-status", "77", "-p", "a", "--learn", "x", "true"}) ==
        "77: --learn is not part of this version yet");
}

TEST_CASE("options: impossible values are refused with what was expected") {
  CHECK(bad({"-p", "a", "--denials", "al", "true"}) ==
        "125: --denials al: expected auto, all or none; did you mean all?");
  CHECK(bad({"-p", "a", "--wait", "forever", "true"}) == "125: --wait forever: expected main or all");
  CHECK(bad({"-p", "a", "--service", "synch", "true"}) ==
        "125: --service synch: expected auto, async, sync or pinned; did you mean sync?");
  CHECK(bad({"-p", "a", "--keep-fd", "-1", "true"}) == "125: --keep-fd -1: expected the number of an open descriptor");
  CHECK(bad({"-p", "a", "--keep-fd", "5x", "true"}) == "125: --keep-fd 5x: expected the number of an open descriptor");
  CHECK(bad({"-p", "a", "--keep-fd", "99999999999", "true"}) ==
        "125: --keep-fd 99999999999: expected the number of an open descriptor");
  CHECK(bad({"-p", "a", "--env", "=x", "true"}) == "125: --env =x: expected NAME, GLOB or NAME=VALUE");
  CHECK(bad({"-p", "a", "--events", "fd:two", "true"}) ==
        "125: --events fd:two: expected FILE or fd:N (a file of that name is ./fd:…)");
  CHECK(bad({"-p", "a", "--pretend-missing", "landlock,sync", "true"}) ==
        "125: --pretend-missing sync: expected landlock, sync-wake, wait-killable, mount-namespace, user-namespace or pidfd-getfd");
  CHECK(bad({"-p", "a", "--quiet=yes", "true"}) == "125: --quiet takes no value");
  CHECK(bad({"-p"}) == "125: --policy needs a value");
  CHECK(bad({"-p", "", "true"}) == "125: --policy needs a value that is not empty");
  CHECK(bad({"-p", "a", "--chdir=", "true"}) == "125: --chdir needs a value that is not empty");
}

TEST_CASE("options: a bad --failure-status is a mistake of its own; a good one counts before and after the mistake") {
  CHECK(bad({"-p", "a", "--failure-status", "0", "true"}) == "125: --failure-status 0: expected 1 to 255");
  CHECK(bad({"-p", "a", "--failure-status", "256", "true"}) == "125: --failure-status 256: expected 1 to 255");
  CHECK(bad({"-p", "a", "--failure-status", "x", "true"}) == "125: --failure-status x: expected 1 to 255");
  CHECK(bad({"--failure-status=42", "--bogus-thing", "true"}) == "42: unknown option --bogus-thing; see --help");
  CHECK(bad({"-p", "a", "--bogus-thing", "--failure-status", "42", "true"}) ==
        "42: unknown option --bogus-thing; see --help");
  CHECK(bad({"--bogus-thing", "true", "--failure-status", "42"}) == "125: unknown option --bogus-thing; see --help");
  CHECK(bad({"--chdir", "--failure-status=42", "--bogus-thing", "true"}) ==
        "125: unknown option --bogus-thing; see --help");
}

TEST_CASE("options: the descriptor of --events is not handed to the program") {
  CHECK(bad({"-p", "a", "--events", "fd:5", "--keep-fd", "5", "true"}) ==
        "125: --keep-fd 5 would hand the descriptor of --events to the program");
  CHECK(good({"-p", "a", "--events", "fd:2", "--keep-fd", "2", "true"}).events->fd == 2);
}

TEST_CASE("options: --help and --version need nothing else and win over a missing policy") {
  CHECK(good({"--help"}).mode == Mode::kHelp);
  CHECK(good({"-h"}).mode == Mode::kHelp);
  CHECK(good({"--version", "true"}).mode == Mode::kVersion);
  CHECK(good({"--version", "--help"}).mode == Mode::kHelp);
  CHECK(version_text() == "sandbox-run 0.1.0\n");
}

TEST_CASE("options: the help fits a screen of 80x24 and names every option of this version") {
  const std::string help(help_text());
  size_t column = 0;
  size_t widest = 0;
  for (const char c : help) {
    column = c == '\n' ? 0 : column + 1;
    widest = std::max(widest, column);
    CHECK(static_cast<unsigned char>(c) < 0x80);
  }
  CHECK(widest <= 80);
  CHECK(std::ranges::count(help, '\n') <= 23);  // and the prompt below it
  CHECK(help.ends_with("\n"));
  for (const std::string name :
       {"--policy",   "--net",        "--env",     "--chdir",           "--keep-fd",        "--check", "--audit",
        "--denials ", "--denials-to", "--events",  "--fail-on-denial",  "--failure-status", "--wait",  "--quiet",
        "--debug",    "--no-jit",     "--strict",     "--service", "--pretend-missing", "--version",        "--help"})
    CHECK_MESSAGE(help.find(name) != std::string::npos, name);
}
