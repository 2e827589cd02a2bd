#pragma once
// A small enforcement and events over it, for the tests of the report room. All numbers are x86-64's.
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "kernel/arch.h"
#include "policy/enforcement.h"
#include "report/event.h"

namespace srun::report::test {

inline constexpr uint32_t kPtrace = 101;
inline constexpr uint32_t kSocket = 41;

inline policy::Verdict verdict(policy::Action action, int32_t value, policy::RuleRef rule) {
  policy::Verdict made;
  made.action = action;
  made.value = value;
  made.notified = true;
  made.rule = std::move(rule);
  return made;
}

// Verdict 0: allow; 1: ptrace denied with a reason; 2: the default; 3: newer than the table; 4: a guard layer's part;
// 5: kill by the supervisor; 6: audited EACCES; 7: audited kill.
inline policy::Enforcement enforcement() {
  using policy::Action;
  policy::Enforcement made;
  made.layers = {{"(guard layer)", "always on", false}, {"ci.json", "builds and tests this project offline", false}};
  made.verdicts = {
      policy::Verdict{},
      verdict(Action::kErrno, 1, {1, "ci.json", 7, "#/syscalls/0", "no debuggers in CI", false, false}),
      verdict(Action::kErrno, 1, {1, "ci.json", 4, "#/default", "", true, false}),
      verdict(Action::kErrno, 38, {1, "ci.json", 0, "#/default", "", true, true}),
      verdict(Action::kErrno, 1, {0, "(guard layer)", 0, "namespaces", "", false, false}),
      verdict(Action::kKill, 0, {1, "ci.json", 9, "#/syscalls/2", "", false, false}),
      verdict(Action::kLog, 13, {1, "ci.json", 11, "#/syscalls/3", "", false, false}),
      verdict(Action::kLog, 0, {1, "ci.json", 12, "#/syscalls/4", "", false, false}),
  };
  made.verdicts[6].audited = Action::kErrno;
  made.verdicts[7].audited = Action::kKill;
  return made;
}

inline Event event(uint16_t verdict_id, uint32_t nr, std::initializer_list<uint64_t> args,
                   std::string_view comm = "gdb", int32_t pid = 4712) {
  Event made;
  made.time_ns = 1'796'094'245'000'000'678;  // 2026-12-01T03:04:05.000000678Z
  made.tid = pid;
  made.tgid = pid;
  made.audit_arch = kernel::kAuditX86_64;
  made.nr = nr;
  size_t i = 0;
  for (const uint64_t arg : args) made.args[i++] = arg;
  made.verdict = verdict_id;
  made.outcome = Outcome::kDenied;
  made.answer = 1;
  std::memcpy(made.comm, comm.data(), std::min(comm.size(), sizeof(made.comm)));
  return made;
}

inline Event ptrace_attach(int32_t pid = 4712) { return event(1, kPtrace, {0x10, 4711, 0, 0}, "gdb", pid); }

}  // namespace srun::report::test
