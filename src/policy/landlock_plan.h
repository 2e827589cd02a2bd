#pragma once
// One Landlock domain as data: what the launcher puts into force (landlock(7); rights as in linux/landlock.h).
#include <cstdint>
#include <string>
#include <vector>

namespace srun::policy {

struct LandlockPlan {
  uint64_t handled_fs = 0;   // LANDLOCK_ACCESS_FS_*; already cut to what the kernel's ABI knows
  uint64_t handled_net = 0;  // LANDLOCK_ACCESS_NET_*
  uint64_t scoped = 0;       // LANDLOCK_SCOPE_*
  struct PathGrant {
    std::string path;
    uint64_t rights = 0;
    // Objects below `path` that do not get them. Landlock can't subtract, so what is beside them is granted piece by
    // piece at launch; what appears later directly in a directory on the way to one of them is not granted.
    std::vector<std::string> except;
  };
  struct PortGrant {
    uint16_t port = 0;
    uint64_t rights = 0;
  };
  std::vector<PathGrant> paths;
  std::vector<PortGrant> ports;

  bool empty() const { return handled_fs == 0 && handled_net == 0 && scoped == 0; }
};

}  // namespace srun::policy
