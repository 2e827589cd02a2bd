#pragma once
// One decision as the line that people read. Pure; hostile bytes are escaped; every text is a single line.
#include <cstdint>
#include <optional>
#include <string>

#include "policy/enforcement.h"
#include "report/event.h"

namespace srun::report {

// `ci.json:7 #/syscalls/0 "no debuggers in CI"`; for what no rule matched `ci.json:5 #/default (no rule matches)`.
std::string rule_text(const policy::RuleRef& rule);

// The rule behind an event; nullptr if the index is outside the table, which would be an internal error.
const policy::Verdict* verdict_of(const policy::Enforcement& enforcement, const Event& event);

// "openat /etc/shadow for reading" where the event names its object, else the call with its arguments.
std::string act_text(const Event& event);

// comm up to its terminator.
std::string_view comm_of(const Event& event);

// "sandbox-run: denied ptrace(PTRACE_ATTACH, 4711) [4712 gdb] ×3 = EPERM; ci.json:7 #/syscalls/0 "no debuggers in CI";
// FIX\n". "×N" only from 2 on; `fix` may be empty. The number is the process, or the thread where the process could not
// be found.
std::string denial_line(const policy::Enforcement& enforcement, const Event& event, uint64_t count,
                        const std::string& fix);

// Why a process that died of SIGSYS was killed: the kernel decides scalar kill rules alone and tells nobody which call
// it was (H33), so the candidates are named. `who` is "[4712 gdb]" or empty. Nothing if `wait_status` is no death by
// SIGSYS or no rule of the stack could have caused it. One line with its newline.
std::optional<std::string> kill_line(const policy::Enforcement& enforcement, int wait_status, const std::string& who);

}  // namespace srun::report
