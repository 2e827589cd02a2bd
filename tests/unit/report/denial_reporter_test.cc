#include "report/denial_reporter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "pipe_fixture.h"
#include "report/denial_text.h"
#include "report_fixtures.h"

using namespace srun;
using namespace srun::report;
using namespace srun::report::test;

namespace {

// A reporter over the small enforcement whose lines end in a pipe.
struct Bench {
  policy::Enforcement rules = enforcement();
  Pipe pipe;
  OutputSink sink{std::move(pipe.write_end), OutputSink::Batching::kLineByLine};
  DenialReporter reporter;
  explicit Bench(DenialOptions options = {}) : reporter(rules, sink, std::move(options)) {}
  std::string lines() const { return pipe.drain(); }
};

const char* const kPtraceLine =
    "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] = EPERM; ci.json:7 #/syscalls/0 \"no debuggers in "
    "CI\"\n";

size_t count_lines(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

}  // namespace

TEST_CASE("denial line: call, process, errno, rule with its reason, and the fix") {
  const policy::Enforcement rules = enforcement();
  CHECK(denial_line(rules, ptrace_attach(), 1, "") == kPtraceLine);
  CHECK(denial_line(rules, ptrace_attach(), 1, "deliberate: remove that rule to allow") ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"; deliberate: remove that rule to allow\n");
  CHECK(denial_line(rules, ptrace_attach(), 3, "") ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×3 = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"\n");
}

TEST_CASE("denial line: default, new calls and the guard layer are told apart from rules") {
  const policy::Enforcement rules = enforcement();
  CHECK(denial_line(rules, event(2, kSocket, {2, 1, 0}, "curl"), 1, "") ==
        "sandbox-run: denied socket(AF_INET, SOCK_STREAM, 0) [4712 curl] = EPERM; ci.json:4 #/default (no rule "
        "matches)\n");
  Event unknown = event(3, 480, {1}, "new");
  unknown.answer = 38;
  CHECK(denial_line(rules, unknown, 1, "") ==
        "sandbox-run: denied syscall_480(0x1, 0x0, 0x0, 0x0, 0x0, 0x0) [4712 new] = ENOSYS; ci.json #/default "
        "(newer than the calls this version knows)\n");
  CHECK(denial_line(rules, event(4, 272, {0x10000000}, "unshare"), 1, "") ==
        "sandbox-run: denied unshare(CLONE_NEWUSER) [4712 unshare] = EPERM; (guard layer) namespaces\n");
}

TEST_CASE("denial line: kills and what --audit let pass have their own words") {
  const policy::Enforcement rules = enforcement();
  Event killed = event(5, kPtrace, {0x10, 1});
  killed.outcome = Outcome::kKilled;
  killed.answer = 0;
  CHECK(denial_line(rules, killed, 1, "") ==
        "sandbox-run: killed at ptrace(PTRACE_ATTACH, 1) [4712 gdb]; ci.json:9 #/syscalls/2\n");
  Event audited = event(6, kPtrace, {0x10, 1});
  audited.outcome = Outcome::kAudited;
  audited.answer = 0;
  CHECK(denial_line(rules, audited, 2, "") ==
        "sandbox-run: would deny ptrace(PTRACE_ATTACH, 1) [4712 gdb] ×2 = EACCES; ci.json:11 #/syscalls/3\n");
  audited.verdict = 7;
  CHECK(denial_line(rules, audited, 1, "") ==
        "sandbox-run: would kill at ptrace(PTRACE_ATTACH, 1) [4712 gdb]; ci.json:12 #/syscalls/4\n");
}

TEST_CASE("denial line: hostile names, reasons and files stay on the line and harmless") {
  policy::Enforcement rules = enforcement();
  rules.verdicts[1].rule.reason = "a\nsandbox-run: denied nothing\x1b[2J";
  rules.verdicts[1].rule.file = "x\r.json";
  CHECK(denial_line(rules, event(1, kPtrace, {0x10, 1}, "a\nb\x1b]0;\xff\x80"), 1, "") ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 1) [4712 a\\nb\\x1b]0;\\xff\\x80] = EPERM; x\\r.json:7 #/syscalls/0 "
        "\"a\\nsandbox-run: denied nothing\\x1b[2J\"\n");
  // 16 bytes without a terminator, and a process that could not be found out.
  Event full = event(1, kPtrace, {0x10, 1}, "0123456789abcdef");
  full.tgid = 0;
  full.tid = 99;
  CHECK(denial_line(enforcement(), full, 1, "").find("[99 0123456789abcdef]") != std::string::npos);
}

TEST_CASE("denial line: a verdict outside the table is an internal error, not a crash") {
  CHECK(denial_line(enforcement(), event(500, kPtrace, {0x10, 1}), 1, "") ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 1) [4712 gdb] = EPERM; internal error: no such rule\n");
}

TEST_CASE("reporter: the first denial is printed at once, nothing is added at the end") {
  Bench bench;
  bench.reporter.add(ptrace_attach());
  CHECK(bench.lines() == kPtraceLine);
  bench.reporter.finish();
  CHECK(bench.lines() == "");
  CHECK(bench.reporter.any_denied());
}

TEST_CASE("reporter: a run without denials prints nothing, whatever was logged or answered") {
  Bench bench;
  Event logged = ptrace_attach();
  logged.outcome = Outcome::kLogged;
  bench.reporter.add(logged);
  logged.outcome = Outcome::kReturned;
  bench.reporter.add(logged);
  bench.reporter.finish();
  CHECK(bench.lines() == "");
  CHECK_FALSE(bench.reporter.any_denied());
  CHECK(bench.reporter.counts().logged == 1);
  CHECK(bench.reporter.counts().returned == 1);
}

TEST_CASE("reporter: a loop of 10^6 equal denials prints two lines, the second with the count") {
  Bench bench;
  for (int i = 0; i < 1'000'000; ++i) bench.reporter.add(ptrace_attach());
  CHECK(bench.lines() == kPtraceLine);
  bench.reporter.finish();
  CHECK(bench.lines() ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×1000000 = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"\n");
  CHECK(bench.reporter.counts().denied == 1'000'000);
}

TEST_CASE("reporter: other processes and other numbers are repeats; other programs, rules and requests are not") {
  Bench bench;
  bench.reporter.add(ptrace_attach(4712));
  bench.reporter.add(ptrace_attach(4713));
  bench.reporter.add(event(1, kPtrace, {0x10, 1}));
  CHECK(count_lines(bench.lines()) == 1);
  bench.reporter.add(event(1, kPtrace, {0x10, 4711}, "strace"));
  bench.reporter.add(event(1, kPtrace, {0x4206, 4711}));
  bench.reporter.add(event(2, kPtrace, {0x10, 4711}));
  CHECK(count_lines(bench.lines()) == 3);
  bench.reporter.finish();
  CHECK(bench.lines() ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×3 = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"\n");
}

TEST_CASE("reporter: repeats that the service thread merged count in full") {
  Bench bench;
  Event merged = ptrace_attach();
  merged.repeats = 5;
  bench.reporter.add(merged);
  CHECK(bench.lines().find(" ×5 = EPERM") != std::string::npos);
  bench.reporter.finish();
  CHECK(bench.lines() == "");
  CHECK(bench.reporter.counts().denied == 5);
}

TEST_CASE("reporter: the fix is asked for once per kind and printed behind the rule") {
  int asked = 0;
  DenialOptions options;
  options.suggest_fix = [&](const Event&) -> std::optional<std::string> {
    ++asked;
    return "deliberate: remove that rule to allow";
  };
  Bench bench(options);
  for (int i = 0; i < 10; ++i) bench.reporter.add(ptrace_attach());
  bench.reporter.finish();
  CHECK(asked == 1);
  CHECK(
      bench.lines().ends_with("×10 = EPERM; ci.json:7 #/syscalls/0 \"no debuggers in CI\"; "
                              "deliberate: remove that rule to allow\n"));
}

TEST_CASE("reporter: 20 kinds are listed, then how many more and where the full list is") {
  for (const bool has_events : {false, true}) {
    DenialOptions options;
    if (has_events) options.events_place = "e.jsonl";
    Bench bench(options);
    for (uint64_t family = 1; family <= 25; ++family) bench.reporter.add(event(2, kSocket, {family, 1, 0}, "curl"));
    bench.reporter.add(event(2, kSocket, {25, 1, 0}, "curl"));
    CHECK(count_lines(bench.lines()) == 20);
    bench.reporter.finish();
    CHECK(bench.lines() ==
          (has_events ? "sandbox-run: 5 more kinds of denials (6 calls) not listed; all are in e.jsonl\n"
                      : "sandbox-run: 5 more kinds of denials (6 calls) not listed; --events FILE lists all\n"));
  }
}

TEST_CASE("reporter: a program that renames itself without end neither fills memory nor the terminal") {
  Bench bench;
  for (int i = 0; i < 5000; ++i) bench.reporter.add(event(1, kPtrace, {0x10, 1}, "n" + std::to_string(i)));
  bench.reporter.finish();
  const std::string lines = bench.lines();
  CHECK(count_lines(lines) == 21);
  CHECK(lines.ends_with(
      "sandbox-run: at least 1005 more kinds of denials (4980 calls) not listed; --events FILE lists all\n"));
}

TEST_CASE("reporter: --denials-to end prints nothing before the end, then each kind once with its count") {
  DenialOptions options;
  options.when = DenialOptions::When::kEnd;
  Bench bench(options);
  for (int i = 0; i < 3; ++i) bench.reporter.add(ptrace_attach());
  CHECK(bench.lines() == "");
  bench.reporter.finish();
  CHECK(bench.lines() ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×3 = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"\n");
}

TEST_CASE("reporter: while the terminal is raw lines are held until the end") {
  bool raw = true;
  DenialOptions options;
  options.terminal_is_raw = [&] { return raw; };
  Bench bench(options);
  bench.reporter.add(ptrace_attach());
  CHECK(bench.lines() == "");
  raw = false;
  bench.reporter.add(ptrace_attach());
  CHECK(bench.lines() == "");
  bench.reporter.add(event(2, kSocket, {2, 1, 0}, "curl"));
  CHECK(count_lines(bench.lines()) == 1);
  bench.reporter.finish();
  CHECK(bench.lines() ==
        "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×2 = EPERM; ci.json:7 #/syscalls/0 "
        "\"no debuggers in CI\"\n");
}

TEST_CASE("reporter: --quiet counts and prints nothing") {
  DenialOptions options;
  options.quiet = true;
  Bench bench(options);
  bench.reporter.add(ptrace_attach());
  bench.reporter.set_lost(3);
  bench.reporter.add_final_line("sandbox-run: killed by policy\n");
  bench.reporter.finish();
  CHECK(bench.lines() == "");
  CHECK(bench.reporter.any_denied());
}

TEST_CASE("reporter: lost records are told, even where no denial arrived") {
  Bench bench;
  bench.reporter.set_lost(3);
  bench.reporter.finish();
  CHECK(
      bench.lines() ==
      "sandbox-run: 3 more decisions were enforced but not recorded: they came faster than they could be taken down\n");
  Bench one;
  one.reporter.set_lost(1);
  one.reporter.finish();
  CHECK(one.lines().starts_with("sandbox-run: 1 more decision was enforced but not recorded"));
}

namespace {

// One layer in which the kernel kills: ptrace by number, socket by arguments, everything foreign.
policy::Enforcement killing(bool foreign_too) {
  policy::Enforcement rules = enforcement();
  policy::Verdict kill =
      verdict(policy::Action::kKill, 0, {1, "ci.json", 7, "#/syscalls/0", "no debuggers in CI", false, false});
  kill.notified = false;
  rules.verdicts.push_back(kill);  // 8
  kill.rule = {0, "(guard layer)", 0, "foreign calls", "", false, false};
  rules.verdicts.push_back(kill);  // 9
  bpf::ArchRules native;
  native.audit_arch = kernel::kAuditX86_64;
  native.ranges = {{0, kSocket - 1, {}},
                   {kSocket, kSocket, {{{{}, 8}}, 0}},
                   {kSocket + 1, kPtrace - 1, {}},
                   {kPtrace, kPtrace, {{}, 8}},
                   {kPtrace + 1, 0xffffffff, {}}};
  rules.rules = {bpf::Layer{{native}, static_cast<bpf::VerdictId>(foreign_too ? 9 : 0)}};
  return rules;
}

}  // namespace

TEST_CASE("kill line: the rule that the kernel can have killed for, with its calls") {
  CHECK(kill_line(killing(false), SIGSYS | 0x80, "[4712 gdb]") ==
        "sandbox-run: killed by policy [4712 gdb]: ci.json:7 #/syscalls/0 \"no debuggers in CI\" (socket, ptrace)\n");
  CHECK(kill_line(killing(false), SIGSYS, "") ==
        "sandbox-run: killed by policy: ci.json:7 #/syscalls/0 \"no debuggers in CI\" (socket, ptrace)\n");
}

TEST_CASE("kill line: several candidates are all named, since the kernel does not tell which") {
  CHECK(
      kill_line(killing(true), SIGSYS, "") ==
      "sandbox-run: killed by policy: one of 2 rules: ci.json:7 #/syscalls/0 \"no debuggers in CI\" (socket, ptrace); "
      "(guard layer) foreign calls (calls of other architectures)\n");
}

TEST_CASE("kill line: other deaths, and SIGSYS where no rule kills, are not the policy's") {
  CHECK_FALSE(kill_line(killing(true), SIGKILL, "").has_value());
  CHECK_FALSE(kill_line(killing(true), 31 << 8, "").has_value());
  CHECK_FALSE(kill_line(enforcement(), SIGSYS, "").has_value());
}
