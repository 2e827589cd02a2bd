#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace srun::policy {

// Where else what is at `path` (canonical) can be reached: bind mounts and second mounts of its file system that show
// it, something above it or something below it (H8). From the text of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
std::vector<std::string> mount_aliases(std::string_view mountinfo, const std::string& path);

}  // namespace srun::policy
