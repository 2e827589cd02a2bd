#pragma once
// The measured program: makes one call (getppid) again and again and says in one line how that went.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace srun::bench {

struct LooperPlan {
  enum class Kind : uint8_t {
    kTimed,  // each call timed in one task
    kTotal,  // calls of `tasks` processes together in the given time
    kTimer,  // a 1 kHz timer runs; interrupted calls are counted
  };
  Kind kind = Kind::kTimed;
  int tasks = 1;
  int batch = 1;         // calls per sample: more than 1 where one call is too short to be timed
  bool restart = false;  // kTimer: the handler has SA_RESTART
  int warm_ms = 60;      // time to get hot: sandbox-run's scheduling decisions look at the last 50 ms
  int measure_ms = 150;
};

struct LooperFigures {
  double median_ns = 0;
  double p99_ns = 0;  // kTimed only
  uint64_t calls = 0;
  uint64_t interrupted = 0;
  uint64_t signals = 0;
};

// The calling process becomes the looper for the plan's time; forks with kTotal and more than one task.
LooperFigures loop(const LooperPlan& plan);

// The line that the looper prints, and back.
std::string to_line(const LooperFigures& figures);
Result<LooperFigures> from_line(std::string_view line);

// Command line words for run_looper, and back.
std::vector<std::string> to_words(const LooperPlan& plan);
Result<LooperPlan> from_words(const std::vector<std::string>& words);

}  // namespace srun::bench
