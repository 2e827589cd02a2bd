#pragma once
// One question of the kernel, with what can be done about the task that asks. The task sleeps until the answer, but it
// can be killed at any time and its number reused, and its other threads run on: read first, then valid(), then act,
// and act only on copies (pitfalls 5.1, 5.3). Service thread, or the thread that took it over.
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "base/unique_fd.h"
#include "bpf/program.h"
#include "supervisor/answer.h"

namespace srun::supervisor {

struct Notification {
  uint64_t id = 0;
  pid_t tid = 0;  // in the supervisor's pid namespace; never 0
  bpf::CallData call;
  BorrowedFd listener;

  // SECCOMP_IOCTL_NOTIF_ID_VALID: the task still waits for this answer, so what was read from its number before is its
  // own.
  bool valid() const;

  // Negative errno of the read where there is one; the caller answers it to the target (EFAULT) or denies.
  int read_string(uint64_t address, std::span<char> buffer, std::string_view& text) const;
  // All of `to` or an errno.
  int read(uint64_t address, std::span<std::byte> to) const;
  int write(uint64_t address, std::span<const std::byte> from) const;

  // A duplicate of the task's descriptor `fd` by pidfd_getfd(2) (Linux 5.6): the same open file description. Owned by
  // the caller; on failure an empty descriptor and errno set (EBADF: the task has no such descriptor; EPERM: refused
  // here).
  UniqueFd duplicate(int fd) const;
  // O_PATH descriptors of what the task has: `fd` of it, its working directory, its root. Works without pidfd_getfd.
  // The object's own permissions are not asked. On failure empty with errno (ENOENT becomes EBADF for a descriptor).
  UniqueFd pin_descriptor(int fd) const;
  UniqueFd pin_working_directory() const;
  UniqueFd pin_root() const;

  // Makes `fd` a descriptor of the task and its number the call's result, in one step (Linux 5.14; pitfalls 5.6). On
  // failure an errno: ENOENT the task is gone, EMFILE its limit is reached: then an answer is still owed.
  int inject_and_answer(BorrowedFd fd, bool close_on_exec) const;

  // Sends the answer; kDone and kLater send nothing. ENOENT (the task died or took a signal) is normal and told by
  // false.
  bool send(const Answer& answer) const;
};

}  // namespace srun::supervisor
