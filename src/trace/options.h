#pragma once
// strace's command line.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "trace/decoder.h"
#include "trace/filter.h"

namespace srun::trace {

enum class WallTime : uint8_t { kNone, kSeconds, kMicroseconds, kEpoch };  // -t, -tt, -ttt

// -e inject=SET:… (R11).
struct Injection {
  CallSet calls;
  std::optional<int> error;
  std::optional<uint64_t> retval;
  std::optional<int> signal;
  uint64_t delay_enter_us = 0;
  uint64_t delay_exit_us = 0;
  uint32_t first = 1, last = UINT32_MAX, step = 1;  // when=, per task
};

struct Options {
  std::vector<std::string> program;
  std::vector<pid_t> attach;         // -p
  std::vector<std::string> environment;  // -E NAME or NAME=VALUE
  std::string user;                  // -u
  bool follow = false;               // -f
  bool separate = false;             // -ff
  std::string output;                // -o; "|command" or "!command" starts one
  bool append = false;               // -A
  bool always_pid = false;
  DecodeOptions decode;
  CallSet calls = CallSet::all();
  uint64_t signals = UINT64_MAX;     // -e signal=
  uint8_t statuses = kAllStatuses;
  std::vector<std::string> paths;    // -P: exact
  std::vector<std::string> prefixes;  // --trace-path-prefix=
  std::vector<int> errnos;           // --errno=
  WallTime wall = WallTime::kNone;
  bool relative = false;             // -r
  bool durations = false;            // -T
  bool numbers = false;              // -n
  bool instruction_pointer = false;  // -i
  size_t column = 40;                // -a
  int quiet = 0;                     // -q
  bool summary = false;              // -c or -C
  bool summary_only = false;         // -c
  bool wall_summary = false;         // -w
  std::string sort = "time";         // -S
  bool json = false;                 // --json
  bool seccomp = false;              // --seccomp-bpf
  bool share_cpu = true;             // --no-share-cpu
  std::vector<Injection> injections;
  bool help = false, version = false;
};

// Errors are strace's sentences, without its name in front.
[[nodiscard]] Result<Options> parse_strace_options(int argc, char** argv);

}  // namespace srun::trace
