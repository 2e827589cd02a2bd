// One thread sends the other SIGURG (handler with SA_RESTART) every 0.2 ms, as Go's runtime does to preempt; the other
// makes COUNT openat calls (libseccomp#387): sigurg_storm [COUNT].
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "victim.h"

static atomic_int finished;
static volatile sig_atomic_t signals;
static void on_urgent(int number) { ++signals; }

static void* storm(void* target) {
  const struct timespec pause = {0, 200000};
  while (!atomic_load(&finished)) {
    pthread_kill(*(pthread_t*)target, SIGURG);
    nanosleep(&pause, NULL);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const long count = count_argument(argc, argv, 1, 200);
  struct sigaction action = {.sa_handler = on_urgent, .sa_flags = SA_RESTART};
  sigaction(SIGURG, &action, NULL);
  pthread_t self = pthread_self(), other;
  if (pthread_create(&other, NULL, storm, &self) != 0) return 1;
  while (signals == 0) sched_yield();  // the storm is on
  long good = 0, interrupted = 0;
  for (long i = 0; i < count; ++i) {
    const long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
    if (fd >= 0) {
      ++good;
      close((int)fd);
    } else if (errno == EINTR) {
      ++interrupted;
    }
  }
  atomic_store(&finished, 1);
  pthread_join(other, NULL);
  printf("good: %ld of %ld\neintr: %ld\n", good, count, interrupted);
  return 0;
}
