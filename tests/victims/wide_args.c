// High bits in arguments that the kernel reads as 32 bits: each call once plain and once with garbage above bit 31.
// Both lines of a pair must be equal, whatever the policy.
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "victim.h"

static const unsigned long kGarbage = 0x5a5a5a5a00000000ul;

// clone(2) with a namespace flag and nothing shared: a fork, whose child ends at once.
static long clone_with(unsigned long flags) {
  const long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  if (child > 0) waitpid((pid_t)child, NULL, 0);
  return child;
}

static void pair(const char* what, long plain, int plain_errno, long high, int high_errno) {
  char line[128];
  errno = plain_errno;
  snprintf(line, sizeof line, "%s plain", what);
  tell(line, plain);
  errno = high_errno;
  snprintf(line, sizeof line, "%s high", what);
  tell(line, high);
}

#define PAIR(what, plain, high)                    \
  do {                                             \
    const long first = (plain);                    \
    const int first_errno = errno;                 \
    const long second = (high);                    \
    pair(what, first, first_errno, second, errno); \
  } while (0)

int main(void) {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  PAIR("socket AF_INET", syscall(SYS_socket, (unsigned long)AF_INET, SOCK_STREAM, 0),
       syscall(SYS_socket, AF_INET | kGarbage, SOCK_STREAM | kGarbage, kGarbage));
  PAIR("socket AF_UNIX", syscall(SYS_socket, (unsigned long)AF_UNIX, SOCK_STREAM, 0),
       syscall(SYS_socket, AF_UNIX | kGarbage, SOCK_STREAM | kGarbage, kGarbage));
  // On a pipe the request is natively answered ENOTTY: nothing is injected anywhere.
  PAIR("ioctl TIOCSTI", syscall(SYS_ioctl, ends[0], (unsigned long)TIOCSTI, "x"),
       syscall(SYS_ioctl, (unsigned long)ends[0] | kGarbage, TIOCSTI | kGarbage, "x"));
  PAIR("ioctl FIONREAD", syscall(SYS_ioctl, ends[0], (unsigned long)FIONREAD, &ends[1]),
       syscall(SYS_ioctl, (unsigned long)ends[0] | kGarbage, FIONREAD | kGarbage, &ends[1]));
  PAIR("clone", clone_with(0), clone_with(kGarbage));
  PAIR("clone CLONE_NEWUTS", clone_with(CLONE_NEWUTS), clone_with(CLONE_NEWUTS | kGarbage));
  PAIR("clone CLONE_NEWUSER", clone_with(CLONE_NEWUSER), clone_with(CLONE_NEWUSER | kGarbage));
  PAIR("personality query", syscall(SYS_personality, 0xfffffffful), syscall(SYS_personality, 0xfffffffful | kGarbage));
  PAIR("personality ADDR_NO_RANDOMIZE", syscall(SYS_personality, 0x0040000ul),
       syscall(SYS_personality, 0x0040000ul | kGarbage));
  PAIR("getpriority", syscall(SYS_getpriority, 0ul, 0ul), syscall(SYS_getpriority, kGarbage, kGarbage));
  puts("end");
  return 0;
}
