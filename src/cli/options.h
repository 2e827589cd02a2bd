#pragma once
// The command line of sandbox-run as data. Nothing is opened, looked up or run here.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/exit_status.h"
#include "kernel/features.h"

namespace srun::cli {

enum class Mode : uint8_t {
  kRun,        // run `program` under `policies`
  kCheck,      // --check with a program or a policy: load, lower, say who enforces what; run nothing
  kCheckHost,  // --check alone: what this host can enforce
  kHelp,
  kVersion,
};

enum class Denials : uint8_t { kAuto, kAll, kNone };
enum class DenialsTo : uint8_t { kLive, kEnd, kFile };
enum class Wait : uint8_t { kMain, kAll };
enum class Service : uint8_t { kAuto, kAsync, kSync, kPinned };

// A file to create, or a descriptor that was inherited.
struct OutputPlace {
  std::string path;  // empty: `fd` is it
  int fd = -1;
};

struct Options {
  Mode mode = Mode::kRun;
  std::vector<std::string> policies;  // FILE, NAME or "none", oldest layer first; "default" if none was given
  bool chosen_policy = true;          // false: none was given
  std::vector<std::string> net;       // --net, each a RULE[,RULE…]
  std::vector<std::string> listen;    // --listen [HOST:]PORT
  std::vector<std::string> env;       // NAME, GLOB or NAME=VALUE, as given; the part before "=" is not empty
  struct FileFlag {
    std::string verb;  // "read", "write", "read-only", "deny"
    std::string path;
  };
  std::vector<FileFlag> files;  // in the order given
  std::optional<std::string> chdir;
  std::vector<int> keep_fds;  // >= 0
  bool audit = false;
  Denials denials = Denials::kAuto;
  DenialsTo denials_to = DenialsTo::kLive;
  std::string denials_file;  // only with DenialsTo::kFile
  std::optional<OutputPlace> events;
  bool fail_on_denial = false;
  int failure_status = ExitCode::kFailure;
  Wait wait = Wait::kMain;
  Service service = Service::kAuto;
  bool strict = false;
  bool quiet = false;
  bool debug = false;
  bool no_jit = false;
  kernel::PretendMissing pretend_missing;
  std::vector<std::string> program;  // program and arguments; empty only in modes other than kRun
};

// A command line that cannot be run. `status` is 125 or what --failure-status said before or after the mistake.
struct UsageError {
  std::string message;  // one line, without "sandbox-run: ", hostile bytes escaped
  int status = ExitCode::kFailure;
};

// Options end at the first word that is none, or at "--". `argv[0]` is not looked at.
Result<Options, UsageError> parse_options(int argc, const char* const* argv);

// Both end with a newline. The help fits a screen of 80x24.
std::string_view help_text();
std::string version_text();

}  // namespace srun::cli
