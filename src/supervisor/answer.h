#pragma once
// What is answered to a notification.
#include <cstdint>
#include <string_view>

#include "report/event.h"

namespace srun::supervisor {

// Why it is safe to let a call run on in the kernel (I1). An answer can't be "continue" without one of these. All but
// the last two stand for decisions on scalars alone, which the target can't change after the kernel has copied its
// registers.
enum class ContinueReason : uint8_t {
  kNone,
  kRuleOnScalars,  // a "log" rule (or --audit): its conditions are call number and argument registers
  kMemberProcess,  // the process number in a register belongs to the run; where Landlock has the signal scope the
                   // kernel enforces the same boundary, elsewhere the number could only be reused within the
                   // microseconds until the kernel looks it up (README, known limits)
  kSelf,              // the register names the calling process itself
  kAffinityOfMember,  // sched_*affinity of a member: it reads or writes that task's own mask, nothing else
  kPathOnly,  // an open whose flags register has O_PATH: the descriptor grants nothing, each use of it names an object
              // and is decided then; the kernel does not let such a descriptor be injected
  kKernelEnforces,  // Landlock, mounts or a filter enforce the policy on whatever the call will really touch; what was
                    // read from memory only served to name a denial
  kNotRestricted,   // --audit, which restricts nothing of the kind; chdir, which grants nothing (file_broker.h)
};

struct Answer {
  enum class Kind : uint8_t {
    kContinue,
    kErrno,
    kValue,
    kDone,   // answered already, in one step with an injected descriptor
    kLater,  // another thread has taken it over and will answer
  } kind = Kind::kErrno;
  int64_t value = 0;  // errno (positive) or the return value
  ContinueReason reason = ContinueReason::kNone;
  bool report = false;
  report::Outcome outcome = report::Outcome::kDenied;
  uint16_t verdict = 0;
  bool internal_error = false;  // the copy and the kernel disagree (H20)
  // For the report: the path or address that was decided about and, for files, the policy::FileAccess. A view of the
  // broker's own buffer, valid until it serves the next notification.
  std::string_view object;
  uint16_t access = 0;

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
  // The call's own failure, as it would have failed without a sandbox: not a denial.
  static Answer fail(int error) {
    Answer answer;
    answer.value = error;
    return answer;
  }
  static Answer result(int64_t value) {
    Answer answer;
    answer.kind = Kind::kValue;
    answer.value = value;
    return answer;
  }
  static Answer done() {
    Answer answer;
    answer.kind = Kind::kDone;
    return answer;
  }
  static Answer later() {
    Answer answer;
    answer.kind = Kind::kLater;
    return answer;
  }
};

}  // namespace srun::supervisor
