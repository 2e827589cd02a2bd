#include "supervisor/credentials.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace srun::supervisor {
namespace {

// The text after "\nName:", or null.
const char* field(const char* status, const char* name) {
  const char* const at = std::strstr(status, name);
  return at == nullptr ? nullptr : at + std::strlen(name);
}

}  // namespace

bool read_credentials(pid_t tid, TaskCredentials& credentials) {
  std::array<char, 48> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/status", tid);
  const UniqueFd file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  std::array<char, 8192> text;
  const ssize_t size = read(file.get(), text.data(), text.size() - 1);
  if (size <= 0) return false;
  text[static_cast<size_t>(size)] = '\0';
  const char* const uids = field(text.data(), "\nUid:");
  const char* const gids = field(text.data(), "\nGid:");
  const char* const groups = field(text.data(), "\nGroups:");
  const char* const umask = field(text.data(), "\nUmask:");
  const char* const effective = field(text.data(), "\nCapEff:");
  const char* const permitted = field(text.data(), "\nCapPrm:");
  if (!uids || !gids || !groups || !umask || !effective || !permitted) return false;
  unsigned real = 0, ignored = 0, fs = 0;
  if (std::sscanf(uids, "%u %u %u %u", &real, &ignored, &ignored, &fs) != 4) return false;
  credentials.real_uid = real;
  credentials.fs_uid = fs;
  if (std::sscanf(gids, "%u %u %u %u", &real, &ignored, &ignored, &fs) != 4) return false;
  credentials.real_gid = real;
  credentials.fs_gid = fs;
  credentials.umask = static_cast<mode_t>(std::strtoul(umask, nullptr, 8));
  credentials.effective = std::strtoull(effective, nullptr, 16);
  credentials.permitted = std::strtoull(permitted, nullptr, 16);
  credentials.group_count = 0;
  const char* at = groups;
  while (true) {
    while (*at == ' ' || *at == '\t') ++at;
    if (*at < '0' || *at > '9') break;
    if (credentials.group_count == TaskCredentials::kMaxGroups) return false;
    char* end = nullptr;
    credentials.groups[credentials.group_count++] = static_cast<gid_t>(std::strtoul(at, &end, 10));
    at = end;
  }
  return true;
}

Identity::Identity() {
  privileged_ = geteuid() == 0;
  // Without it nothing can be compared, and become() would refuse: fail early instead.
  if (!read_credentials(static_cast<pid_t>(syscall(SYS_gettid)), own_)) std::abort();
}

bool Identity::set_effective(uint64_t capabilities) {
  // The task's memory and /proc entries are still to be read under its identity, and it may not be dumpable. For the
  // acts themselves this one counts on procfs only, where the walk decides by hand whose entries are entered.
  capabilities |= uint64_t{1} << CAP_SYS_PTRACE;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) {
    data[half].effective = static_cast<uint32_t>((capabilities & own_.permitted) >> (32 * half));
    data[half].permitted = static_cast<uint32_t>(own_.permitted >> (32 * half));
  }
  return syscall(SYS_capset, &header, data) == 0;
}

bool Identity::become(const TaskCredentials& task, bool real) {
  const uid_t uid = real ? task.real_uid : task.fs_uid;
  const gid_t gid = real ? task.real_gid : task.fs_gid;
  // access(2): a real root has what it is permitted, everybody else nothing (fs/open.c, access_override_creds).
  const uint64_t capabilities = !real ? task.effective : uid == 0 ? task.permitted : 0;
  const bool same_groups = task.group_count == own_.group_count &&
                           std::equal(task.groups.begin(), task.groups.begin() + task.group_count, own_.groups.begin());
  const bool same_ids = uid == own_.fs_uid && gid == own_.fs_gid && same_groups;
  if (!privileged_) return same_ids && (capabilities & ~own_.effective) == 0;
  if (same_ids && capabilities == own_.effective) return true;
  if (!same_ids) {
    changed_ids_ = true;
    if (!same_groups && syscall(SYS_setgroups, task.group_count, task.groups.data()) != 0) return false;
    // setfsgid(2) and setfsuid(2) tell of success only by the value that the next call returns.
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
    if (static_cast<gid_t>(syscall(SYS_setfsgid, -1)) != gid || static_cast<uid_t>(syscall(SYS_setfsuid, -1)) != uid)
      return false;
  }
  changed_capabilities_ = true;
  return set_effective(capabilities);
}

bool Identity::become_peer(const TaskCredentials& task) {
  const bool same_groups = task.group_count == own_.group_count &&
                           std::equal(task.groups.begin(), task.groups.begin() + task.group_count, own_.groups.begin());
  const bool same_ids = task.fs_uid == own_.fs_uid && task.fs_gid == own_.fs_gid && task.real_uid == own_.real_uid &&
                        task.real_gid == own_.real_gid;
  if (!privileged_ || (same_ids && same_groups)) return become(task, false) && (privileged_ || same_ids);
  changed_ids_ = changed_peer_ = true;
  if (!same_groups && syscall(SYS_setgroups, task.group_count, task.groups.data()) != 0) return false;
  // The saved ids stay ours: they keep the permitted capabilities and are the way back. The file system ids follow.
  if (syscall(SYS_setresgid, task.real_gid, task.fs_gid, -1) != 0 ||
      syscall(SYS_setresuid, task.real_uid, task.fs_uid, -1) != 0)
    return false;
  changed_capabilities_ = true;
  return set_effective(task.effective);
}

void Identity::restore() {
  if (changed_capabilities_ || changed_ids_) {
    // Capabilities first: they are what the rest needs. They come from the permitted set, which is never given up.
    bool restored = set_effective(own_.effective);
    if (changed_peer_) {
      restored = restored && syscall(SYS_setresuid, own_.real_uid, own_.fs_uid, -1) == 0 &&
                 set_effective(own_.effective) && syscall(SYS_setresgid, own_.real_gid, own_.fs_gid, -1) == 0;
    }
    if (changed_ids_) {
      syscall(SYS_setfsuid, own_.fs_uid);
      syscall(SYS_setfsgid, own_.fs_gid);
      restored = restored && syscall(SYS_setgroups, own_.group_count, own_.groups.data()) == 0 &&
                 static_cast<uid_t>(syscall(SYS_setfsuid, -1)) == own_.fs_uid &&
                 static_cast<gid_t>(syscall(SYS_setfsgid, -1)) == own_.fs_gid;
      // setfsuid back to root raised file capabilities in the effective set; say it again.
      restored = set_effective(own_.effective) && restored;
    }
    if (!restored) std::abort();
  }
  changed_ids_ = changed_peer_ = false;
  changed_capabilities_ = false;
}

}  // namespace srun::supervisor
