#include "cli/options.h"

namespace srun::cli {

std::string_view help_text() {
  return R"(usage: sandbox-run [options] [--] program [args...]
  -p, --policy FILE|NAME  a layer, default: `default`; repeatable, the strictest
                          wins; none: guard layer only; `sandbox-policy list`
      --read P --write P       grant a path    --read-only P --deny P  take away
      --net RULE[,RULE...]     none loopback all HOST[:PORT] tcp: udp: unix:
      --listen [HOST:]PORT     may be bound      --env NAME|GLOB|NAME=VALUE
      --chdir DIR              start there     --keep-fd N  hand a descriptor on
      --check             say who enforces what and what is open; run nothing
      --audit             enforce the guard layer only, say what would be denied
      --denials auto|all|none      which denials are named; all: reads too
      --denials-to live|end|FILE   where; live waits while the terminal is raw
      --events FILE|fd:N  one JSON object a line for each decision
      --fail-on-denial    exit 123 if anything was denied
      --failure-status N  exit N instead of 125 when sandbox-run itself fails
      --wait main|all     end with the program (default) or with its last child
      --strict            refuse to run where a fallback would be used
      --service auto|async|sync|pinned   how calls are served (benchmarks)
      --quiet  --version  --help  --no-jit (no machine code)
      --debug  log to stderr       for tests of fallbacks: --pretend-missing
    landlock,sync-wake,wait-killable,mount-namespace,user-namespace,pidfd-getfd
exit: the program's; 128+N signal; 159 killed by policy; 123 denied; 124 limit;
      125 sandbox-run failed; 126 not executable; 127 not found
)";
}

std::string version_text() { return "sandbox-run " SANDBOX_RUN_VERSION "\n"; }

}  // namespace srun::cli
