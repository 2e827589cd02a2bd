// i386 calls from a 64-bit program through int 0x80.
//   int80        prints one line per call
//   int80 probe  exit 0 if the kernel takes them, 77 if not
#include <setjmp.h>
#include <signal.h>

#include "victim.h"

#if defined(__x86_64__)
static long int80(long number, long a, long b, long c) {
  long result;
  // The pointer arguments of i386 calls are 32 bits wide; none is passed here. r8-r11 are lost on old kernels.
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(a), "c"(b), "d"(c)
                   : "memory", "r8", "r9", "r10", "r11");
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

static sigjmp_buf refused;
static void on_fault(int number) { siglongjmp(refused, number); }

int main(int argc, char** argv) {
  signal(SIGSEGV, on_fault);  // what a kernel without IA32 emulation sends
  if (sigsetjmp(refused, 1)) return kSkipped;
  if (argc > 1) return int80(20, 0, 0, 0) == getpid() ? 0 : kSkipped;
  tell("int80 getpid", int80(20, 0, 0, 0));
  tell("int80 getpriority", int80(96, 0, 0, 0));
  tell("int80 socket", int80(359, 1, 1, 0));      // AF_UNIX, SOCK_STREAM
  tell("int80 socketcall", int80(102, 0, 0, 0));  // natively EINVAL
  tell("int80 number 9999", int80(9999, 0, 0, 0));
  puts("end");
  return 0;
}
#else
int main(void) { return kSkipped; }
#endif
