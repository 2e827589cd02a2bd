// Children that end while their parent makes calls: sigchld [CHILDREN [CALLS per child]]. The handler has SA_RESTART
// and reaps; the parent waits for the rest in sigsuspend. Prints how many were reaped and how many calls saw EINTR.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "victim.h"

static volatile sig_atomic_t reaped;
static void on_child(int number) {
  const int saved = errno;
  while (waitpid(-1, NULL, WNOHANG) > 0) ++reaped;
  errno = saved;
}

int main(int argc, char** argv) {
  const long children = count_argument(argc, argv, 1, 100);
  const long calls = count_argument(argc, argv, 2, 20);
  struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
  sigaction(SIGCHLD, &action, NULL);
  long interrupted = 0, failed = 0;
  for (long i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit((int)(i & 127));
    if (child < 0) ++failed;
    for (long k = 0; k < calls; ++k) {
      const long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
      if (fd >= 0) {
        close((int)fd);
      } else if (errno == EINTR) {
        ++interrupted;
      } else {
        ++failed;
      }
    }
  }
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  while (reaped < children) sigsuspend(&before);
  printf("reaped: %ld\neintr: %ld\nfailed: %ld\n", (long)reaped, interrupted, failed);
  return 0;
}
