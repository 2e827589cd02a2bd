#pragma once
#include <string_view>

namespace srun {

// The debug log of `--debug`, on standard error, prefixed "sandbox-run[debug]". Silent unless enabled. Thread-safe.
// Not async-signal-safe and it allocates: never between fork and exec, never in the service loop.
void enable_debug_log();
bool debug_log_enabled();
void debug_log(std::string_view message);

}  // namespace srun
