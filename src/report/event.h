#pragma once
// One decision of the supervisor, as it travels through the bounded ring from the service thread to the control plane.
#include <cstdint>
#include <type_traits>

namespace srun::report {

enum class Outcome : uint8_t {
  kDenied,    // answered with -errno
  kReturned,  // answered with a value without executing the call
  kLogged,    // executed, the rule asked for a record
  kKilled,    // the process was killed by the supervisor
  kAudited,   // would have been denied, but --audit let it pass
};

// Plain data: copied into the ring by the service thread, no allocation.
struct Event {
  uint64_t time_ns = 0;  // CLOCK_REALTIME
  int32_t tid = 0;       // in the supervisor's pid namespace
  int32_t tgid = 0;      // 0 if it could not be found out
  uint32_t audit_arch = 0;
  uint32_t nr = 0;
  uint64_t args[6] = {};
  uint64_t instruction_pointer = 0;
  uint16_t verdict = 0;  // index into Enforcement::verdicts
  Outcome outcome = Outcome::kDenied;
  int32_t answer = 0;    // errno (positive) or the value returned
  uint32_t repeats = 1;  // how many equal decisions (same task, call, arguments, verdict) this event stands for
  char comm[16] = {};    // hostile text, not necessarily terminated
  // What the call was about, where its registers do not say: a resolved path, an address. Hostile text. One that is
  // longer than `object` keeps its end: the name matters more than the root.
  uint16_t object_length = 0;  // bytes in `object`
  bool object_cut = false;
  uint16_t access = 0;  // policy::FileAccess for files; 0 elsewhere
  char object[472] = {};
};
static_assert(std::is_trivially_copyable_v<Event>);

}  // namespace srun::report
