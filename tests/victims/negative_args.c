// Negative numbers in 32-bit arguments, in both forms in which C libraries pass them (libseccomp#69, #383).
#include "victim.h"

int main(void) {
  tell("openat 0xffffff9c", syscall(SYS_openat, 0xffffff9cul, "/dev/null", 0, 0));
  tell("openat 0xffffffffffffff9c", syscall(SYS_openat, 0xffffffffffffff9cul, "/dev/null", 0, 0));
  tell("openat 0", syscall(SYS_openat, 0ul, "/dev/null", 0, 0));
  // Lowering the nice value needs CAP_SYS_NICE: natively EACCES for a user. Upwards last, since it sticks.
  tell("setpriority -1 (32 bits)", syscall(SYS_setpriority, 0, 0, 0xfffffffful));
  tell("setpriority -1 (64 bits)", syscall(SYS_setpriority, 0, 0, -1l));
  tell("setpriority 0", syscall(SYS_setpriority, 0, 0, 0l));
  tell("setpriority 1", syscall(SYS_setpriority, 0, 0, 1l));
  puts("end");
  return 0;
}
