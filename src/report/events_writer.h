#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/enforcement.h"
#include "report/denial_reporter.h"
#include "report/event.h"
#include "report/output.h"

namespace srun::report {

// The last record's view of how the run ended.
struct RunResult {
  int status = 0;                  // sandbox-run's own exit status
  std::optional<int> wait_status;  // of the program; absent if it never ran
  bool killed_by_policy = false;
};

// --events: JSON Lines, one object per decision, for machines. Every line parses in every reader, whatever bytes a
// program put in its name (case 67): a text that is not UTF-8 has U+FFFD for each bad byte, and a field of the same
// name with "_hex" behind it has its exact bytes ("comm":"a\ufffd","comm_hex":"61ff").
//
//   first   {"type":"run","time","version","kernel","pid","argv":[…],
//            "policies":[{"layer","name","description"}],"audit"}
//   then    {"type":"decision","time","pid","tid","comm","arch","nr","syscall","args":[6],"text","verdict",
//            "errno" or "value","repeats","rule":{"layer","file","line","pointer","reason","default"}}
//   last    {"type":"summary","time","decisions":{"denied","returned","logged","killed","audited"},
//            "lost","unwritten","exit":{"status","exited" or "signal","killed_by_policy"}}
//
// time is RFC 3339 UTC with nanoseconds. pid and tid are those that sandbox-run sees; pid is null if it could not be
// found out. arch is "x86_64", "x32", "i386", "aarch64" or "0x…"; syscall is null for a number without a name. args are
// the raw registers: integers up to 2^53, which every JSON reader keeps exactly, and "0x…" strings above. verdict is
// denied, returned, logged, killed or audited; with audited, errno is what would have been answered. repeats is how
// many equal decisions in a row the record stands for. "lost" decisions were enforced but never reached the writer,
// "unwritten" ones could not be written in time.
//
// Owned by the control plane's thread. Written in blocks at least every kFlushInterval and never waits for a slow
// reader, except up to kPatience at the end; what a stuck reader leaves no room for (OutputSink) is dropped by whole
// lines.
class EventsWriter {
 public:
  static constexpr std::chrono::milliseconds kFlushInterval{100};
  static constexpr std::chrono::milliseconds kPatience{2000};
  static constexpr size_t kFlushBytes = size_t{64} << 10;

  EventsWriter(const policy::Enforcement& enforcement, UniqueFd fd);

  void begin(const std::string& version, const std::vector<std::string>& argv);
  void add(const Event& event);
  // To be called every kFlushInterval while anything may be queued.
  void tick() { sink_.flush(); }
  bool pending() const { return sink_.queued_bytes() > 0; }
  void finish(const DecisionCounts& counts, uint64_t lost, const RunResult& result);

  // The first failure to write, once: "write: No space left on device" for people.
  std::optional<Error> take_failure() { return sink_.take_failure(); }
  uint64_t unwritten() const { return sink_.lost_lines(); }

 private:
  const policy::Enforcement& enforcement_;
  OutputSink sink_;
  std::string line_;  // reused
};

// One decision record, with its newline.
void append_event_record(std::string& out, const policy::Enforcement& enforcement, const Event& event);

// "2026-12-01T03:04:05.000000678Z"; nanoseconds since 1970.
std::string rfc3339(uint64_t time_ns);

}  // namespace srun::report
