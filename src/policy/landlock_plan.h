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
