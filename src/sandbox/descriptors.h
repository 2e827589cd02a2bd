#pragma once
// Inherited descriptors: the program keeps 0-2, those of make's jobserver, those its arguments name as /dev/fd/N, and
// those of --keep-fd. Everything else that sandbox-run inherited stays behind (pitfalls 5.22).
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace srun::sandbox {

// Descriptors from 3 up that were open when the process started. Call before anything else is opened. Sets O_CLOEXEC on
// all of them, and opens /dev/null (O_CLOEXEC, so it stays closed for the program) where 0, 1 or 2 is closed, lest a
// descriptor of our own lands there.
[[nodiscard]] Result<std::vector<int>> take_inherited_descriptors();

// The numbers that MAKEFLAGS' --jobserver-auth=R,W (or --jobserver-fds=R,W) names; a fifo: form needs none.
std::vector<int> jobserver_descriptors(std::string_view makeflags);
// N of every /dev/fd/N and /proc/self/fd/N that stands anywhere in the arguments.
std::vector<int> descriptors_in_arguments(std::span<const std::string> arguments);

// What the program keeps: the union of the above and `requested`, as far as inherited. A requested number that is not
// open is an error; an io_uring ring is always refused, since its submissions pass every filter (pitfalls 5.15).
[[nodiscard]] Result<std::vector<int>> kept_descriptors(std::span<const int> inherited,
                                                        std::span<const std::string> arguments,
                                                        std::string_view makeflags, std::span<const int> requested);

}  // namespace srun::sandbox
