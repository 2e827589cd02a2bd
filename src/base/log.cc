#include "base/log.h"

#include <atomic>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace srun {
namespace {

std::atomic<bool> enabled{false};

spdlog::logger& logger() {
  // Owned here and never registered globally, so that nothing else in the process can reconfigure it.
  static spdlog::logger instance = [] {
    spdlog::logger made("sandbox-run", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_level(spdlog::level::debug);
    made.set_pattern("sandbox-run[debug] %H:%M:%S.%f [%P/%t] %v");
    made.flush_on(spdlog::level::debug);
    return made;
  }();
  return instance;
}

}  // namespace

void enable_debug_log() { enabled.store(true, std::memory_order_relaxed); }
bool debug_log_enabled() { return enabled.load(std::memory_order_relaxed); }
void debug_log(std::string_view message) {
  if (debug_log_enabled()) logger().debug("{}", message);
}

}  // namespace srun
