#include "sandbox/program.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/unique_fd.h"
#include "sandbox/capabilities.h"

using namespace srun;
using namespace srun::sandbox;

TEST_CASE("program: a name with a slash is taken as it is, existing or not") {
  CHECK(find_program("./x", "/bin").value() == "./x");
  CHECK(find_program("/no/such", "/bin").value() == "/no/such");
}

TEST_CASE("program: PATH is searched in order, directories and unusable files are passed over") {
  char base[] = "/tmp/srun-program-XXXXXX";
  REQUIRE(mkdtemp(base) != nullptr);
  const std::string first = std::string(base) + "/a";
  const std::string second = std::string(base) + "/b";
  REQUIRE(mkdir(first.c_str(), 0755) == 0);
  REQUIRE(mkdir(second.c_str(), 0755) == 0);
  const auto make = [](const std::string& path, mode_t mode) {
    UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, mode));
    REQUIRE(file);
  };
  make(first + "/tool", 0644);
  make(second + "/tool", 0755);
  make(first + "/data", 0644);
  REQUIRE(mkdir((first + "/dir").c_str(), 0755) == 0);
  const std::string path = first + ":" + second;
  CHECK(find_program("tool", path).value() == second + "/tool");
  CHECK(find_program("data", path).error().code == EACCES);
  CHECK(find_program("dir", path).error().code == ENOENT);
  CHECK(find_program("missing", path).error().code == ENOENT);
  CHECK(find_program("", path).error().code == ENOENT);
  CHECK(std::system(("rm -r " + std::string(base)).c_str()) == 0);
}

TEST_CASE("capabilities: root's target has Docker's default set without MKNOD, NET_RAW and SYS_CHROOT") {
  CHECK(capability_names(root_target_capabilities()) ==
        std::vector<std::string>{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
                                 "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_AUDIT_WRITE", "CAP_SETFCAP"});
  CHECK(target_capabilities(false, ~uint64_t{0}, ~uint64_t{0}) == 0);
  CHECK(target_capabilities(true, ~uint64_t{0}, ~uint64_t{0}) == root_target_capabilities());
  CHECK(target_capabilities(true, uint64_t{1}, ~uint64_t{0}) == 1);
}
