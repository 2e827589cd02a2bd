// Calls with bit 30 of the number set (the x32 ABI) and numbers that do not exist.
//   x32        prints one line per call; natively ENOSYS where the kernel has no x32
//   x32 probe  exit 0 if the kernel takes x32 calls, 77 if not
#include "victim.h"

#if defined(__x86_64__)
int main(int argc, char** argv) {
  const long x32 = 0x40000000;
  if (argc > 1) return syscall(x32 | SYS_getpid) == getpid() ? 0 : kSkipped;
  tell("x32 getpid", syscall(x32 | SYS_getpid));
  tell("x32 getpriority", syscall(x32 | SYS_getpriority, 0, 0));
  tell("x32 openat", syscall(x32 | SYS_openat, -100, "/dev/null", 0, 0));
  tell("x32 execve", syscall(x32 | 520, "/nonexistent", NULL, NULL));  // __X32_SYSCALL_BIT + 520
  tell("number -1", syscall(-1L));
  tell("number 0x3fffffff", syscall(0x3fffffffL));
  tell("number 0x7fffffff", syscall(0x7fffffffL));
  puts("end");
  return 0;
}
#else
int main(void) { return kSkipped; }
#endif
