#include "policy/lowering.h"

#include <algorithm>

#include "policy/file_lowering.h"
#include "policy/guard.h"
#include "policy/guard_conflicts.h"
#include "policy/layer_lowering.h"
#include "policy/network_lowering.h"
#include "policy/oci.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

namespace {

constexpr size_t kMaxLayers = 64;  // far above use; keeps merged programs and layer numbers small

PolicyError stack_error(std::string message) { return PolicyError{{}, 0, {}, std::move(message), {}}; }

// Every lifted part is told loudly, and so is one that some policy lifts in vain.
void warn_lifted(const PolicyStack& stack, const std::vector<std::string>& lifted, std::vector<std::string>& warnings) {
  for (const GuardPart& part : guard_parts()) {
    const bool open = std::find(lifted.begin(), lifted.end(), part.name) != lifted.end();
    for (const StackLayer& layer : stack.layers) {
      if (layer.policy == nullptr || !lifts(*layer.policy, part.name)) continue;
      if (open) {
        warnings.push_back("UNSAFE: " + std::string(part.lifted) + "; " + layer.policy->name + " has \"unsafe\": [\"" +
                           std::string(part.name) + "\"]");
      } else {
        warnings.push_back(layer.policy->name + " lifts \"" + std::string(part.name) +
                           "\" of the guard layer in vain: another policy of this run does not");
      }
      break;
    }
  }
}

// H42. Setting variables takes nothing away, so it restricts nothing.
std::vector<std::string> unrestricted_parts(const PolicyStack& stack, bool environment) {
  std::vector<std::string> parts;
  if (stack.layers.empty()) parts.emplace_back("system calls (but for the guard layer)");
  if (!restricts_files(stack)) parts.emplace_back("files");
  if (!restricts_network(stack)) parts.emplace_back("network");
  parts.emplace_back("limits");
  if (!environment) parts.emplace_back("environment");
  return parts;
}

}  // namespace

std::vector<std::string> lifted_parts(const PolicyStack& stack) {
  std::vector<std::string> lifted;
  for (const GuardPart& part : guard_parts()) {
    size_t policies = 0;
    size_t lifting = 0;
    for (const StackLayer& layer : stack.layers) {
      if (layer.policy == nullptr || layer.policy->open_ended) continue;
      ++policies;
      if (lifts(*layer.policy, part.name)) ++lifting;
    }
    if (part.liftable && policies > 0 && lifting == policies) lifted.emplace_back(part.name);
  }
  return lifted;
}

Policy guard_layer(const PolicyStack& stack, const LoweringOptions& options, KernelFiles* kernel_files) {
  KernelFiles kernel;
  if (restricts_files(stack) && !options.audit) kernel = plan_kernel_files(file_layers(stack), options);
  Policy guard = guard_policy(options, lifted_parts(stack));
  // After the guard's own rules: of those that match a call the first decides, and they are never weaker.
  for (Rule& rule : file_rules(stack, kernel, options)) guard.rules.push_back(std::move(rule));
  for (Rule& rule : network_rules(stack, options.audit)) guard.rules.push_back(std::move(rule));
  if (kernel_files != nullptr) *kernel_files = std::move(kernel);
  return guard;
}

Result<Enforcement, PolicyError> lower(const PolicyStack& stack, const LoweringOptions& options) {
  if (stack.layers.size() > kMaxLayers) {
    return failure(stack_error("more than " + std::to_string(kMaxLayers) + " policies"));
  }
  Enforcement out;
  out.warnings = stack.warnings;
  out.notes = stack.notes;
  out.display_name = stack.display_name;
  out.audit = options.audit;

  const std::vector<std::string> lifted = lifted_parts(stack);
  warn_lifted(stack, lifted, out.warnings);
  VerdictTableBuilder verdicts({options.audit, options.denials != Denials::kNone});
  const LayerLowering to{options, verdicts, out.warnings};

  const auto kernel_files = std::make_shared<KernelFiles>();
  const Policy guard = guard_layer(stack, options, kernel_files.get());
  out.layers.push_back({guard.name, guard.description, false});
  out.rules.push_back(lower_guard(guard, to));
  for (const StackLayer& layer : stack.layers) {
    const auto index = static_cast<uint16_t>(out.rules.size());
    out.layers.push_back(layer.info);
    if (layer.oci != nullptr) {
      out.rules.push_back(lower_oci(*layer.oci, verdicts, index));
      const std::vector<std::string> closed = closed_by_guard(*layer.oci, guard);
      out.notes.insert(out.notes.end(), closed.begin(), closed.end());
      continue;
    }
    const Policy& policy = *layer.policy;
    if (auto fits = check_guard_conflicts(policy, options, out.notes); !fits) return failure(std::move(fits.error()));
    auto rules = lower_policy(policy, index, to);
    if (!rules) return failure(std::move(rules.error()));
    out.rules.push_back(std::move(*rules));
    // --audit lets the program run as it would without the policies, and variables are part of that.
    if (policy.environment && !options.audit) out.environment.push_back(*policy.environment);
  }
  if (auto files = lower_files(stack, kernel_files, options, verdicts, out); !files)
    return failure(std::move(files.error()));
  if (auto network = lower_network(stack, options, verdicts, out); !network) return failure(std::move(network.error()));
  if (verdicts.overflowed()) return failure(stack_error("the policies have more than 65536 different verdicts"));

  out.verdicts = verdicts.take_verdicts();
  out.returns = verdicts.take_returns();
  auto programs = bpf::compile(out.rules, out.returns);
  if (!programs) return failure(stack_error("the policies cannot be compiled: " + programs.error().message()));
  out.programs = std::move(*programs);
  const bool environment = std::any_of(out.environment.begin(), out.environment.end(),
                                       [](const EnvironmentRules& rules) { return !rules.drop.empty(); });
  out.unrestricted = unrestricted_parts(stack, environment);
  return out;
}

}  // namespace srun::policy
