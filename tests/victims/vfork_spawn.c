// vfork in all its uses (reprozip#121): vfork + execve N times alone and from four threads at once, posix_spawn of a
// missing program, a vfork child that calls _exit, one that is killed before its exec: vfork_spawn [N].
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "victim.h"

extern char** environ;
static long count = 500;

static int spawn_true(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execve("/bin/true", (char*[]){"true", NULL}, environ);
    _exit(99);
  }
  int status;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void* many(void* result) {
  long good = 0;
  for (long i = 0; i < count / 4; ++i) good += spawn_true();
  *(long*)result = good;
  return NULL;
}

int main(int argc, char** argv) {
  count = count_argument(argc, argv, 1, 500);
  long good = 0;
  for (long i = 0; i < count; ++i) good += spawn_true();
  printf("alone: %ld\n", good);
  pthread_t threads[4];
  long results[4] = {0};
  for (int i = 0; i < 4; ++i) {
    if (pthread_create(&threads[i], NULL, many, &results[i]) != 0) return 1;
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("four threads: %ld\n", results[0] + results[1] + results[2] + results[3]);
  pid_t child;
  errno = posix_spawn(&child, "/nonexistent/program", NULL, NULL, (char*[]){"program", NULL}, environ);
  tell("posix_spawn of a missing program", errno ? -1 : 0);
  child = vfork();
  if (child == 0) _exit(7);
  int status;
  waitpid(child, &status, 0);
  printf("_exit in the child: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) {
    kill(getpid(), SIGKILL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  printf("killed before exec: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
  return 0;
}
