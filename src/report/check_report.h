#pragma once
#include <span>
#include <string>

#include "policy/enforcement.h"

namespace srun::report {

// The text of --check: the layers, who enforces what at which cost, what no layer restricts (H42), what was noted while
// loading, and the steps of the launch. Every line ends with a newline; hostile bytes are escaped. Costs are told in
// what happens (a bit test, the filter's instructions, a notification), not in times, which depend on the machine.
std::string check_report(const policy::Enforcement& enforcement, std::span<const std::string> launch_plan);

}  // namespace srun::report
