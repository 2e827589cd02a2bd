#pragma once
// What to answer to a notification. Pure of the listener: takes the call, gives the answer. Service thread only.
#include <cstdint>

#include "bpf/program.h"
#include "policy/enforcement.h"
#include "supervisor/affinity.h"
#include "supervisor/process_tree.h"
#include "supervisor/task_table.h"

namespace srun::supervisor {

// Why it is safe to let a call run on in the kernel (I1). An answer can't be "continue" without one of these, and each
// stands for decisions on scalars alone, which the target can't change after the kernel has copied its registers.
enum class ContinueReason : uint8_t {
  kNone,
  kRuleOnScalars,    // a "log" rule (or --audit): its conditions are call number and argument registers
  kMemberProcess,    // the process number in a register belongs to the run; where Landlock has the signal scope the kernel
                     // enforces the same boundary, elsewhere the number could only be reused within the microseconds until
                     // the kernel looks it up (README, known limits)
  kSelf,             // the register names the calling process itself
  kAffinityOfMember, // sched_*affinity of a member: it reads or writes that task's own mask, nothing else
};

struct Answer {
  enum class Kind : uint8_t { kContinue, kErrno, kValue } kind = Kind::kErrno;
  int32_t value = 0;  // errno (positive) or the return value
  ContinueReason reason = ContinueReason::kNone;
  bool report = false;
  report::Outcome outcome = report::Outcome::kDenied;
  uint16_t verdict = 0;
  bool internal_error = false;  // the copy and the kernel disagree (H20)

  static Answer go_on(ContinueReason why) {
    Answer answer;
    answer.kind = Kind::kContinue;
    answer.reason = why;
    return answer;
  }
  static Answer refuse(int error) {
    Answer answer;
    answer.value = error;
    answer.report = true;
    return answer;
  }
};

class Dispatcher {
 public:
  // `enforcement` is borrowed. `own_pid_namespace`: inode of the supervisor's, to recognise tasks whose numbers mean
  // something else.
  Dispatcher(const policy::Enforcement& enforcement, Membership membership, Affinity& affinity);

  // `task` is the asking one, asleep until the answer.
  Answer decide(const bpf::CallData& call, TaskRecord& task, uint64_t now);

 private:
  Answer check(policy::Check check, const bpf::CallData& call, TaskRecord& task, uint64_t now);
  Answer check_pid(int32_t pid, TaskRecord& task);
  Answer check_kill(int32_t pid, int32_t signal, TaskRecord& task);
  Answer check_priority(const bpf::CallData& call, TaskRecord& task);
  Answer check_ptrace(const bpf::CallData& call, TaskRecord& task);
  bool foreign_pid_namespace(pid_t tid) const;

  const policy::Enforcement& enforcement_;
  Membership membership_;
  Affinity& affinity_;
  uint64_t own_pid_namespace_;
};

}  // namespace srun::supervisor
