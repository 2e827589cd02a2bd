#pragma once
// As root: a private mount namespace in which the kernel's control files are read-only or masked, with Docker's lists,
// since uid 0 writes them even without capabilities (H7: /proc/sys/kernel/core_pattern runs a program as real root).
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace srun::sandbox {

std::span<const char* const> masked_paths();  // hidden behind an empty file or directory
std::span<const char* const> read_only_paths();

// Mount points outside of /proc and /sys that show the kernel's control files too (the /proc of a chroot, a control
// group tree): from the text of /proc/PID/mountinfo, in its order.
std::vector<std::string> control_mounts_elsewhere(std::string_view mountinfo);

// In the child, async-signal-safe; needs CAP_SYS_ADMIN. `elsewhere` becomes read-only. Paths that do not exist are
// passed over. Returns 0 or the errno; *failed_path then names what could not be covered (nullptr: the namespace
// itself).
int enter_private_mounts(std::span<const std::string> elsewhere, const char** failed_path);

}  // namespace srun::sandbox
