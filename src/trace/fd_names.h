#pragma once
// What a descriptor of another task refers to, for -y and -yy (R28). Read from /proc and hostile like every name there.
#include <sys/types.h>

#include <string>

namespace srun::trace {

// "</etc/passwd>", "<TCP:[127.0.0.1:1->127.0.0.1:2]>" with `details`; nothing if it can't be found out.
void put_fd_name(std::string& out, pid_t tid, int fd, bool details);
// The working directory, for AT_FDCWD.
void put_directory_name(std::string& out, pid_t tid);

}  // namespace srun::trace
