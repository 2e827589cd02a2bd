#include "sandbox/descriptors.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

using namespace srun;
using namespace srun::sandbox;

TEST_CASE("descriptors: the jobserver's pair is taken from the last --jobserver-auth, a fifo needs none") {
  CHECK(jobserver_descriptors(" -j2 --jobserver-auth=3,4") == std::vector<int>{3, 4});
  CHECK(jobserver_descriptors("-j --jobserver-fds=5,6") == std::vector<int>{5, 6});
  CHECK(jobserver_descriptors("--jobserver-auth=3,4 --jobserver-auth=7,8") == std::vector<int>{7, 8});
  CHECK(jobserver_descriptors("--jobserver-auth=fifo:/tmp/GMfifo1").empty());
  CHECK(jobserver_descriptors("--jobserver-auth=-2,-2").empty());
  CHECK(jobserver_descriptors("--jobserver-auth=3").empty());
  CHECK(jobserver_descriptors("").empty());
}

TEST_CASE("descriptors: /dev/fd/N and /proc/self/fd/N are found anywhere in an argument") {
  const std::vector<std::string> arguments{"diff", "/dev/fd/63", "--file=/proc/self/fd/10", "a:/dev/fd/5:/dev/fd/6", "/dev/fd/x", "/dev/fd/"};
  CHECK(descriptors_in_arguments(arguments) == std::vector<int>{63, 10, 5, 6});
}

TEST_CASE("descriptors: kept are the requested and named ones that were open at the start, in order and once") {
  const std::vector<int> inherited{3, 4, 10, 63};
  const std::vector<std::string> arguments{"cat", "/dev/fd/63", "/dev/fd/99"};
  const std::vector<int> requested{10, 2, 63};
  const auto kept = kept_descriptors(inherited, arguments, "--jobserver-auth=3,4", requested);
  REQUIRE(kept);
  CHECK(*kept == std::vector<int>{3, 4, 10, 63});
}

TEST_CASE("descriptors: asking for one that is not open is an error that names it") {
  const std::vector<int> requested{7};
  const auto kept = kept_descriptors({}, {}, "", requested);
  REQUIRE_FALSE(kept);
  CHECK(kept.error().subject == "7");
}

TEST_CASE("descriptors: all inherited ones become close-on-exec; those that already were are not the program's") {
  UniqueFd plain(open("/dev/null", O_RDONLY));
  UniqueFd closing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto inherited = take_inherited_descriptors();
  REQUIRE(inherited);
  CHECK(std::find(inherited->begin(), inherited->end(), plain.get()) != inherited->end());
  CHECK(std::find(inherited->begin(), inherited->end(), closing.get()) == inherited->end());
  CHECK(fcntl(plain.get(), F_GETFD) == FD_CLOEXEC);
}
