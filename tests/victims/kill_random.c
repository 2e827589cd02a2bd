// Children that call openat in a loop, each killed with SIGKILL after a random 0-2 ms (crun#526): kill_random
// [CHILDREN]. Prints "alive" at the end.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "victim.h"

int main(int argc, char** argv) {
  const long children = count_argument(argc, argv, 1, 500);
  unsigned seed = 20240607;
  long killed = 0;
  for (long i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      for (;;) {
        const long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
        if (fd >= 0) close((int)fd);
      }
    }
    seed = seed * 1103515245u + 12345u;
    const struct timespec pause = {0, (long)(seed >> 8) % 2000000};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    int status;
    if (waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++killed;
  }
  printf("killed: %ld\n", killed);
  if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0) >= 0) puts("alive");
  return 0;
}
