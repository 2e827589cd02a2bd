#pragma once
// What a policy takes away below a place that it grants, covered in a private mount namespace: the kernel then enforces
// it for every call alike, and nobody has to be asked (Linux 5.12: mount_setattr(2)).
#include <sys/types.h>

#include <span>

#include "policy/files.h"

namespace srun::sandbox {

// All of these: in the child, async-signal-safe; 0 or the errno.

// For callers without CAP_SYS_ADMIN: a user namespace in which the own ids mean themselves and all others nobody, and
// with it a mount namespace. The capabilities that come with it are the caller's to drop.
int enter_user_namespace(uid_t uid, gid_t gid);

// In a private mount namespace. Denied files become a device node without a device, which nobody can open (EACCES, root
// included); denied directories an empty one without permissions; read-only ones stay what they are; a file may get
// another text. *failed_path names what could not be covered (nullptr: the masks themselves).
int cover_paths(std::span<const policy::Mask> masks, const char** failed_path);

}  // namespace srun::sandbox
