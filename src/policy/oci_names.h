#pragma once
// The words of OCI profiles: SCMP_* constants, capabilities, and names of calls that none of our architectures has.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernel/arch.h"
#include "policy/oci_tree.h"

namespace srun::policy {

// Action without data: SCMP_ACT_ERRNO is 0x00050000. `nearest_…`: for the message, empty if none is near.
std::optional<uint32_t> find_oci_action(std::string_view name);
std::string nearest_oci_action(std::string_view name);
std::string_view oci_action_name(uint32_t action);  // the data is ignored; KILL reads SCMP_ACT_KILL_THREAD

std::optional<OciOp> find_oci_op(std::string_view name);
std::string nearest_oci_op(std::string_view name);

struct OciArch {
  std::string_view name;  // "SCMP_ARCH_X86"
  uint32_t audit = 0;     // AUDIT_ARCH_*; that of x32 is x86-64's
};
const OciArch* find_oci_arch(std::string_view name);
std::string nearest_oci_arch(std::string_view name);
std::string_view oci_arch_name(kernel::Arch arch);  // "SCMP_ARCH_X86_64"

// What includes.arches and excludes.arches call `arch`, in Docker's and in Podman's files: "amd64".
std::string_view oci_condition_arch(kernel::Arch arch);
bool is_oci_condition_arch(std::string_view name);

bool is_capability(std::string_view name);
std::string nearest_capability(std::string_view name);

// Calls of architectures that the syscall table does not have, and libseccomp's pseudo calls: legal anywhere, silent.
bool is_call_elsewhere(std::string_view name);

}  // namespace srun::policy
