#pragma once
// The filters that `sandbox-bench kernel` installs: one rule set as our compiler and as libseccomp lay it out.
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "bpf/instruction.h"

namespace srun::bench {

// x86-64 and aarch64 numbers alike up to 330: all but each eleventh are allowed, getpid only unless argument 0 is 7,
// the rest get EPERM. `constant`: getpid whatever its arguments.
struct RuleShape {
  bool constant = false;
};

enum class Layout : uint8_t { kOurs, kLinear, kTree };  // the last two are libseccomp's

// Errors: built without libseccomp; what its functions say.
[[nodiscard]] Result<std::vector<bpf::Instruction>> rule_filter(const RuleShape& shape, Layout layout);

}  // namespace srun::bench
