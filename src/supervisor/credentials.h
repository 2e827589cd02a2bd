#pragma once
// On-behalf calls run with the target's identity: file system ids, groups and effective capabilities (H18). Raw system
// calls only, since the C library's wrappers change all threads. One object a thread.
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

namespace srun::supervisor {

// From /proc/TID/status, read for each call: a task can change them at any time without a notification.
struct TaskCredentials {
  static constexpr size_t kMaxGroups = 256;
  uid_t real_uid = 0;
  gid_t real_gid = 0;
  uid_t fs_uid = 0;
  gid_t fs_gid = 0;
  uint64_t effective = 0;  // capabilities
  uint64_t permitted = 0;
  mode_t umask = 022;
  uint32_t group_count = 0;
  std::array<gid_t, kMaxGroups> groups;
};
// False if the task is gone or has more groups than fit.
bool read_credentials(pid_t tid, TaskCredentials& credentials);

// The service thread's own identity and its way into another's and back.
class Identity {
 public:
  Identity();

  // False: it can't be done; the caller denies. Skipped where nothing would change. `real`: as access(2) looks at
  // files, with the real ids.
  [[nodiscard]] bool become(const TaskCredentials& task, bool real);
  // The same for acts whose peer sees who did them (unix(7): SO_PEERCRED, SCM_CREDENTIALS): real and effective ids too.
  [[nodiscard]] bool become_peer(const TaskCredentials& task);
  // Back to the supervisor's. Ends the process if that fails: nothing can be decided under a wrong identity.
  void restore();
  // Without privileges every task of the run has the supervisor's identity for good: set*id, setgroups and file
  // capabilities can't change it under no_new_privs.
  bool can_differ() const { return privileged_; }

 private:
  bool set_effective(uint64_t capabilities);

  bool privileged_ = false;
  bool changed_ids_ = false;
  bool changed_peer_ = false;
  bool changed_capabilities_ = false;
  TaskCredentials own_;
};

}  // namespace srun::supervisor
