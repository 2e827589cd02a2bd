#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/enforcement.h"
#include "report/event.h"
#include "report/output.h"

namespace srun::report {

// The smallest change that allows the call of the event, already checked by re-evaluation; called once per printed
// line.
using SuggestFix = std::function<std::optional<std::string>(const Event&)>;

struct DenialOptions {
  enum class When : uint8_t { kLive, kEnd };
  When when = When::kLive;
  bool quiet = false;                     // nothing is printed; everything is still counted
  std::string events_place;               // where --events goes, as given; empty: there is no full list
  SuggestFix suggest_fix;                 // may be empty
  std::function<bool()> terminal_is_raw;  // asked before each live line; empty: never
};

// Decisions counted by outcome; repeats included.
struct DecisionCounts {
  uint64_t denied = 0;
  uint64_t returned = 0;
  uint64_t logged = 0;
  uint64_t killed = 0;
  uint64_t audited = 0;
  uint64_t total() const { return denied + returned + logged + killed + audited; }
};

// Turns decisions into lines for people. Owned by the control plane's thread; not thread-safe. The enforcement and the
// sink must outlive it.
//
// A repeat has the same call, symbolic arguments, rule, answer and program name; its process and its numbers may
// differ. The first of a kind is printed at once, a repeat never: whatever came more than once is told again at the end
// with its count. So 10^6 equal denials print two lines, and no run prints more than 2 × kMaxDistinct + 3. Values that
// a rule returns and calls that it logs are no denials: they are counted and go to --events only (H43).
class DenialReporter {
 public:
  static constexpr size_t kMaxDistinct = 20;   // printed
  static constexpr size_t kMaxTracked = 1024;  // told apart; a hostile program can rename itself without end

  DenialReporter(const policy::Enforcement& enforcement, OutputSink& sink, DenialOptions options);

  // Prints the first of a kind (unless held back); never waits for the reader.
  void add(const Event& event);
  // Decisions that were enforced and whose record was lost on the way (a full ring), in all so far.
  void set_lost(uint64_t lost) { lost_ = lost; }
  // A line that must be seen whatever else is held: kill_line(), a failure of --events. Printed at the end, after the
  // denials.
  void add_final_line(std::string line) { final_lines_.push_back(std::move(line)); }

  // The end of the run: what was held, counts of repeats, how many kinds were not listed, lost records. Nothing if
  // nothing was refused. Waits at most a second for a slow reader.
  void finish();

  const DecisionCounts& counts() const { return counts_; }
  // Something was refused, killed or, under --audit, would have been. For --fail-on-denial.
  bool any_denied() const { return counts_.denied + counts_.killed + counts_.audited > 0; }

 private:
  struct Entry {
    Event first;
    uint64_t count = 0;
    std::string fix;
    bool printed = false;
  };
  void count(const Event& event);
  Entry* entry_of(const Event& event);
  void print(Entry& entry);

  const policy::Enforcement& enforcement_;
  OutputSink& sink_;
  DenialOptions options_;
  DecisionCounts counts_;
  std::vector<Entry> entries_;  // in order of appearance
  std::unordered_map<std::string, size_t> index_;
  std::optional<size_t> latest_;  // entry of the latest event, which a loop mostly repeats
  Event latest_event_;
  uint64_t untracked_ = 0;  // refusals of kinds beyond kMaxTracked
  uint64_t lost_ = 0;
  std::vector<std::string> final_lines_;
};

}  // namespace srun::report
