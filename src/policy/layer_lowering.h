#pragma once
// One policy in our own language → one bpf::Layer. Used by lowering only.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/lowering_options.h"
#include "policy/model.h"
#include "policy/policy_error.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

struct LayerLowering {
  const LoweringOptions& options;
  VerdictTableBuilder& verdicts;
  std::vector<std::string>& warnings;
};

// guard_policy() as layer 0.
bpf::Layer lower_guard(const Policy& guard, const LayerLowering& to);
// A policy as layer `layer` (from 1). Fails if its `default` asks for what a call cannot get.
[[nodiscard]] Result<bpf::Layer, PolicyError> lower_policy(const Policy& policy, uint16_t layer,
                                                           const LayerLowering& to);

}  // namespace srun::policy
