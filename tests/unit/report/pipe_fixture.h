#pragma once
// A pipe whose read end collects what a sink wrote.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/unique_fd.h"

namespace srun::report::test {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
  Pipe() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  // Everything written so far.
  std::string drain() const {
    std::string text;
    std::array<char, 65536> block;
    for (ssize_t got; (got = read(read_end.get(), block.data(), block.size())) > 0;)
      text.append(block.data(), static_cast<size_t>(got));
    return text;
  }
};

}  // namespace srun::report::test
