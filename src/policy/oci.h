#pragma once
// OCI seccomp profiles (runtime-spec's linux.seccomp, alone or in a whole config.json) with the extensions of Docker
// and Podman, as one layer that means what libseccomp makes of them: not "first match wins" (oci_tree.h), arguments
// compared as 64-bit numbers, values of the errno keys up to 4095, foreign ABIs killed. Pure: reads no file and no host
// state.
//
// Where runc and crun differ the stricter reading is taken. Deviations, each for a reason:
// - numbers beyond the newest call that the profile names answer ENOSYS as in runc (H22), and so does number -1;
// - SCMP_ACT_KILL and KILL_THREAD end the process: a program that lost one thread to a filter mostly hangs;
// - SCMP_ACT_NOTIFY and SCMP_ACT_TRACE answer ENOSYS, what the kernel gives without an agent and without a tracer;
// - other ABIs that the profile opens (SCMP_ARCH_X86, X32, ARM) stay closed with ENOSYS and are listed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bpf/rules.h"
#include "kernel/arch.h"
#include "kernel/features.h"
#include "policy/json_document.h"
#include "policy/model.h"
#include "policy/oci_tree.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

// What the conditions of a profile (includes, excludes) are decided by.
struct OciEnvironment {
  std::vector<std::string> capabilities;  // the bounding set of the run: "CAP_CHOWN"
  kernel::KernelVersion kernel;
  kernel::Arch arch = kernel::kNativeArch;
};

struct OciRule {
  std::vector<std::string> names;
  uint32_t action = 0;  // as OciOutcome::action
  std::vector<OciCondition> conditions;
  std::string comment;
  uint32_t index = 0;  // in the file's list
  Place place;
};

struct OciProfile {
  std::string file;
  std::string description;
  uint32_t default_action = 0;
  Place default_place;
  bool disabled = false;       // neither a default action nor rules: "no seccomp"
  std::vector<OciRule> rules;  // those that hold in this run, in the file's order
  size_t rules_in_file = 0;
  kernel::Arch arch = kernel::kNativeArch;
  // Architectures that the file opens beside the native one. They stay closed: ENOSYS in place of libseccomp's kill.
  std::vector<uint32_t> closed_arches;  // AUDIT_ARCH_*
  bool closed_x32 = false;
  // Rules per call number of `arch`, first match wins.
  std::map<uint32_t, std::vector<OciCallRules::FlatRule>> calls;
  std::optional<uint32_t> newest_call;  // the highest number that a rule names
  std::vector<std::string> warnings;    // told at every run: rules that do not refuse what they mean to
  std::vector<std::string> notes;       // what was left out and what deserves a look, one line each
};

// True for a document that is meant as an OCI profile or a config.json: by shape, since they have no "version": 1.
bool is_oci_document(const Node& root);

[[nodiscard]] Result<OciProfile, PolicyError> parse_oci(const Node& root, const OciEnvironment& environment);

// The profile as a layer for its arch; `layer` is its index in Enforcement::layers.
bpf::Layer lower_oci(const OciProfile& profile, VerdictTableBuilder& verdicts, uint16_t layer);

// Calls that the guard refuses whatever their arguments, with the part that does it.
std::vector<std::pair<const kernel::Syscall*, std::string>> always_refused(const Policy& guard);

// What the profile allows and the guard refuses whatever the arguments, one line for each part of the guard.
std::vector<std::string> closed_by_guard(const OciProfile& profile, const Policy& guard);

// The profiles of Kubernetes' operator come as YAML. An error that names the way out, if `text` is that and not JSON.
std::optional<PolicyError> yaml_error(std::string_view text, const std::string& file);

}  // namespace srun::policy
