#include "sandbox/capabilities.h"

#include <linux/capability.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

namespace srun::sandbox {

uint64_t root_target_capabilities() {
  uint64_t set = 0;
  for (const int cap : {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID,
                        CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_AUDIT_WRITE, CAP_SETFCAP})
    set |= uint64_t{1} << cap;
  return set;
}

std::vector<std::string> capability_names(uint64_t set) {
  std::vector<std::string> names;
  for (unsigned cap = 0; cap < 64; ++cap) {
    if (((set >> cap) & 1) == 0) continue;
    char* const text = cap_to_name(static_cast<cap_value_t>(cap));
    std::string name = text != nullptr ? text : std::to_string(cap);
    cap_free(text);
    for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    names.push_back(std::move(name));
  }
  return names;
}

uint64_t target_capabilities(bool root, uint64_t bounding, uint64_t effective) {
  return root ? bounding & effective & root_target_capabilities() : 0;
}

int restrict_capabilities(uint64_t keep) {
  for (unsigned cap = 0; cap < 64; ++cap) {
    const int in_set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (in_set < 0) break;  // EINVAL: beyond the last capability
    if (in_set == 1 && ((keep >> cap) & 1) == 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) return errno;
  }
  // EINVAL before Linux 4.3, where there is no ambient set to clear.
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) return errno;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return errno;
  for (unsigned half = 0; half < 2; ++half) {
    const auto mask = static_cast<uint32_t>(keep >> (32 * half));
    data[half].permitted &= mask;
    data[half].effective &= mask;
    data[half].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, data) != 0) return errno;
  return 0;
}

}  // namespace srun::sandbox
