#include "sandbox/mounts.h"

#include <doctest/doctest.h>

using namespace srun::sandbox;

TEST_CASE("mounts: control file systems outside of /proc and /sys are found, with escapes undone (H7)") {
  const std::vector<std::string> found = control_mounts_elsewhere(
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "23 27 0:22 / /sys rw,relatime shared:2 - sysfs sysfs rw\n"
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
      "40 27 0:21 / /srv/a\\040chroot\\134x/proc rw,relatime shared:7 master:3 - proc none rw\n"
      "41 27 0:22 / /system rw,relatime - sysfs none rw\n"
      "42 27 0:30 / /processes rw - proc none rw\n"
      "43 27 0:31 / /tmp rw - tmpfs proc rw\n"
      "44 27 0:32 / /dev/cgroup rw - cgroup none rw,cpu");
  CHECK(found == std::vector<std::string>{"/srv/a chroot\\x/proc", "/system", "/processes", "/dev/cgroup"});
}

TEST_CASE("mounts: lines that are cut off are passed over") {
  CHECK(control_mounts_elsewhere("").empty());
  CHECK(control_mounts_elsewhere("\n\n").empty());
  CHECK(control_mounts_elsewhere("22 27 0:21").empty());
  CHECK(control_mounts_elsewhere("22 27 0:21 / /x rw").empty());
  CHECK(control_mounts_elsewhere("22 27 0:21 / /x rw - proc").size() == 1);
}
