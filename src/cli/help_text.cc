#include "cli/options.h"

namespace srun::cli {

std::string_view help_text() {
  return R"(usage: sandbox-run -p FILE|NAME [options] [--] program [args...]
  -p, --policy FILE|NAME  a layer; repeatable, the strictest verdict wins; none:
                          guard layer only; see `sandbox-policy list`
      --read P --write P  grant a path to the last policy; repeatable
      --read-only P --deny P   take it away; wins over every grant
      --net none          no network families
      --env NAME|GLOB|NAME=VALUE   pass or set a variable; repeatable
      --chdir DIR         start there      --keep-fd N   hand a descriptor on
      --check             say who enforces what and what is open; run nothing
      --audit             enforce the guard layer only, say what would be denied
      --denials auto|all|none      which denials are named
      --denials-to live|end|FILE   where; live waits while the terminal is raw
      --events FILE|fd:N  one JSON object a line for each decision
      --fail-on-denial    exit 123 if anything was denied
      --failure-status N  exit N instead of 125 when sandbox-run itself fails
      --wait main|all     end with the program (default) or with its last child
      --strict            refuse to run where a fallback would be used
      --service auto|async|sync|pinned   how calls are served (benchmarks)
      --quiet  --version  --help  --no-jit (no machine code)
      --debug             log to stderr; to test fallbacks: --pretend-missing
             landlock,sync-wake,wait-killable,mount-namespace,user-namespace
exit: the program's; 128+N signal; 159 killed by policy; 123 denied; 124 limit;
      125 sandbox-run failed; 126 not executable; 127 not found
)";
}

std::string version_text() { return "sandbox-run " SANDBOX_RUN_VERSION "\n"; }

}  // namespace srun::cli
