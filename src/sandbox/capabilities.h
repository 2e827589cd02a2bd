#pragma once
// A target that runs as root keeps Docker's default capabilities without MKNOD, NET_RAW and SYS_CHROOT (H7).
#include <cstdint>
#include <string>
#include <vector>

namespace srun::sandbox {

// Bit set by capability number (capabilities(7)).
uint64_t root_target_capabilities();
// "CAP_CHOWN", … in numerical order.
std::vector<std::string> capability_names(uint64_t set);
// The capabilities that the target will be able to have, for OCI conditions: of `bounding` and `effective` of the
// caller, cut as above for root; an ordinary user's target has none, since no_new_privs keeps files from granting any.
uint64_t target_capabilities(bool root, uint64_t bounding, uint64_t effective);

// In the child, async-signal-safe: cuts bounding, permitted, effective, inheritable and ambient sets to `keep`.
// Returns 0 or the errno.
int restrict_capabilities(uint64_t keep);

}  // namespace srun::sandbox
