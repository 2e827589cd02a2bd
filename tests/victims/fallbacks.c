// Calls that programs try first and replace by older ones on ENOSYS (H22), numbers that no kernel has, and one that
// nothing ordinary makes.
#include <fcntl.h>

#include "victim.h"

int main(void) {
  tell("clone3", syscall(435, NULL, 0));
  tell("close_range", syscall(436, 100u, 99u, 0));
  tell("openat2", syscall(437, -1, "", NULL, 0));
  tell("faccessat2", syscall(439, -1, "", 0, -1));
  tell("fchmodat2", syscall(452, -1, "", 0, -1));
  tell("statx", syscall(SYS_statx, -1, "", -1, 0, NULL));
  tell("rseq", syscall(SYS_rseq, NULL, 0, -1, 0));
  tell("io_uring_setup", syscall(425, 0, NULL));
  tell("unknown", syscall(1000));
  tell("last", syscall(0x3fffffff));
  tell("acct", syscall(SYS_acct, ""));
  return 0;
}
