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
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bpf/rules.h"
#include "kernel/arch.h"
#include "policy/json_document.h"
#include "policy/model.h"
#include "policy/oci_tree.h"
#include "policy/verdict_table_builder.h"

namespace srun::policy {

struct KernelVersion {
  unsigned major = 0;
  unsigned minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};
// "6.1.0-18-amd64" → 6.1, as Docker compares: what follows the second number is ignored.
std::optional<KernelVersion> parse_kernel_release(std::string_view release);

// What the conditions of a profile (includes, excludes) are decided by.
struct OciEnvironment {
  std::vector<std::string> capabilities;  // the bounding set of the run: "CAP_CHOWN"
  KernelVersion kernel;
  kernel::Arch arch = kernel::kNativeArch;
};

// The capabilities that Docker gives by default, and what is left of them in this sandbox (H7): as root without MKNOD,
// NET_RAW and SYS_CHROOT, otherwise none.
std::span<const std::string_view> docker_capabilities();
std::vector<std::string> oci_capabilities(bool root);

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

// What the profile allows without a condition and the guard layer closes all the same, one line for each part of it.
std::vector<std::string> closed_by_guard(const OciProfile& profile, const Policy& guard);

// "SCMP_ACT_ERRNO(38 ENOSYS)" for an action value.
std::string oci_action_text(uint32_t action);

// The profiles of Kubernetes' operator come as YAML. An error that names the way out, if `text` is that and not JSON.
std::optional<PolicyError> yaml_error(std::string_view text, const std::string& file);

}  // namespace srun::policy
