#include "report/check_report.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bpf/compiler.h"
#include "bpf/instruction.h"
#include "kernel/syscall_table.h"
#include "report_fixtures.h"

using namespace srun;
using namespace srun::report;
using namespace srun::report::test;
using policy::Action;

namespace {

constexpr uint32_t kIoctl = 16;
constexpr uint32_t kMkdir = 83;
constexpr uint32_t kX32 = 0x40000000;

bpf::Decision always(bpf::VerdictId id) { return {{}, id}; }

// Layer 0 refuses one ioctl by its argument, x32 and foreign calls; layer 1 kills at ptrace, records mkdir and refuses
// what is newer than the table.
policy::Enforcement stack() {
  policy::Enforcement made;
  made.layers = {{"(guard layer)", "always on", false}, {"x\n.json", "a\tdescription", true}};
  made.verdicts = {
      policy::Verdict{},
      verdict(Action::kErrno, 1, {0, "(guard layer)", 0, "terminal-injection", "typed input", false, false}),
      verdict(Action::kErrno, 38, {0, "(guard layer)", 0, "foreign-abi", "", false, false}),
      verdict(Action::kKill, 0, {1, "ci.json", 7, "#/syscalls/0", "no debuggers in CI", false, false}),
      verdict(Action::kLog, 0, {1, "ci.json", 8, "#/syscalls/1", "", false, false}),
      verdict(Action::kErrno, 38, {1, "ci.json", 4, "#/syscalls", "", false, true}),
  };
  made.verdicts[3].notified = false;
  const auto returns = [](uint32_t copy) { return bpf::VerdictReturn{copy, copy}; };
  made.returns = {returns(bpf::kRetAllow),       returns(bpf::kRetErrno | 1), returns(bpf::kRetErrno | 2),
                  returns(bpf::kRetKillProcess), returns(bpf::kRetLog | 4),   returns(bpf::kRetErrno | 5)};
  bpf::ArchRules guard;
  guard.audit_arch = kernel::kAuditX86_64;
  guard.ranges = {
      {0, kIoctl - 1, always(0)},
      {kIoctl, kIoctl, {{{{{1, bpf::CompareWidth::kU32, bpf::CompareOp::kEqual, ~uint64_t{0}, {0x5412}}}, 1}}, 0}},
      {kIoctl + 1, kX32 - 1, always(0)},
      {kX32, 0xffffffff, always(2)}};
  const uint32_t unknown = kernel::first_unknown_number(kernel::Arch::kX86_64);
  bpf::ArchRules ci;
  ci.audit_arch = kernel::kAuditX86_64;
  ci.ranges = {
      {0, kMkdir - 1, always(0)},    {kMkdir, kMkdir, always(4)},           {kMkdir + 1, kPtrace - 1, always(0)},
      {kPtrace, kPtrace, always(3)}, {kPtrace + 1, unknown - 1, always(0)}, {unknown, 0xffffffff, always(5)}};
  made.rules = {bpf::Layer{{guard}, 2}, bpf::Layer{{ci}, 0}};
  made.programs = *bpf::compile(made.rules, made.returns);
  made.unrestricted = {"files", "network"};
  made.notes = {"line one\nline two"};
  made.warnings = {"ptrace is lifted"};
  return made;
}

size_t known_calls() {
  size_t known = 0;
  for (const kernel::Syscall& call : kernel::syscalls())
    if (call.number(kernel::Arch::kX86_64)) ++known;
  return known;
}

}  // namespace

#if defined(__x86_64__)

TEST_CASE("check report: layers, who enforces what, what is open, notes and the launch, every line harmless") {
  const std::vector<std::string> plan{"no_new_privs", "filter of 120 instructions"};
  const size_t known = known_calls();
  const std::string unknown = std::to_string(kernel::first_unknown_number(kernel::Arch::kX86_64));
  CHECK(check_report(stack(), plan) ==
        "layers (the strictest verdict wins)\n"
        "  (guard layer): always on\n"
        "  x\\n.json (OCI seccomp profile): a\\tdescription\n"
        "system calls (x86_64, " +
            std::to_string(known) +
            " known)\n"
            "  " +
            std::to_string(known - 3) +
            " allowed whatever their arguments: kernel filter, " +
            std::to_string(known - 3) +
            " by one test in its allow bitmap\n"
            "  1 decided by their arguments, marked *: kernel filter, its instructions for each call\n"
            "  (guard layer) terminal-injection \"typed input\": refused with EPERM (supervisor, one notification):\n"
            "      ioctl*\n"
            "  ci.json:7 #/syscalls/0 \"no debuggers in CI\": killed (kernel filter, explained from the wait status):\n"
            "      ptrace\n"
            "  ci.json:8 #/syscalls/1: allowed and recorded (supervisor, one notification): mkdir\n"
            "  numbers from " +
            unknown +
            " on: refused with ENOSYS (supervisor, one notification); ci.json:4 #/syscalls "
            "(newer than the calls this version knows)\n"
            "  x32 calls: refused with ENOSYS (supervisor, one notification); ci.json:4 #/syscalls "
            "(newer than the calls this version knows)\n"
            "  i386 calls: refused with ENOSYS (supervisor, one notification); (guard layer) foreign-abi\n"
            "  other architectures: refused with ENOSYS (supervisor, one notification); (guard layer) foreign-abi\n"
            "not restricted: files, network\n"
            "warning: ptrace is lifted\n"
            "notes\n"
            "  line one\\nline two\n"
            "launch\n"
            "  no_new_privs\n"
            "  filter of 120 instructions\n"
            "no_new_privs is set: set-user-ID programs and file capabilities gain no rights inside\n");
}

TEST_CASE("check report: checks, kernel answers, the environment and --audit") {
  policy::Enforcement rules = stack();
  rules.audit = true;
  rules.unrestricted.clear();
  rules.verdicts[1].action = Action::kCheck;
  rules.verdicts[1].check = policy::Check::kPtrace;
  rules.verdicts[3].action = Action::kErrno;
  rules.verdicts[3].value = 13;
  rules.returns[3].copy_return = bpf::kRetErrno | 3;
  rules.verdicts[4].audited = Action::kErrno;
  rules.verdicts[4].value = 17;
  rules.environment = {{{"PATH"}, {"*_TOKEN", "A\nB"}, {{"CI", "true"}}}};
  const std::string text = check_report(rules, {});
  const auto has = [&](const std::string& line) { return text.find(line) != std::string::npos; };
  CHECK(has("  --audit: only the guard layer is enforced; the rest is reported\n"));
  CHECK(has(
      "\"typed input\": checked (allowed on members of the run only; supervisor, one notification):\n      ioctl*\n"));
  CHECK(has("refused with EACCES (kernel filter, not explained):"));
  CHECK(has("would be refused with EEXIST (--audit) (supervisor, one notification):\n      mkdir\n"));
  CHECK(
      has("environment\n  dropped before the program starts: *_TOKEN, A\\nB\n  kept all the same: PATH\n  set: CI\n"));
  CHECK(has("not restricted: nothing that a policy can name\n"));
  CHECK_FALSE(has("launch\n"));
}

#endif
