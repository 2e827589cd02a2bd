// A 1 kHz timer over a loop of calls, counting EINTR (H26).
//   timers CALL COUNT [restart]   CALL: getppid, openat, getpriority; `restart`: the handler has SA_RESTART
// Prints calls, eintr, other errors, and whether any signal came at all; the number of signals differs from run to run.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#include "victim.h"

static volatile sig_atomic_t signals;
static void on_alarm(int number) { ++signals; }

static long call(const char* name) {
  if (strcmp(name, "openat") == 0) {
    const long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
      const int saved = errno;
      close((int)fd);
      errno = saved;
    }
    return fd;
  }
  if (strcmp(name, "getpriority") == 0) return syscall(SYS_getpriority, 0, 0);
  return syscall(SYS_getppid);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "getppid";
  const long count = count_argument(argc, argv, 2, 100000);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = argc > 3 ? SA_RESTART : 0};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval every = {{0, 1000}, {0, 1000}};
  if (setitimer(ITIMER_REAL, &every, NULL) != 0) return 1;
  long interrupted = 0, other = 0, done = 0;
  for (; done < count || signals == 0; ++done) {  // at least one signal, on machines however fast
    errno = 0;
    if (call(name) < 0) {
      if (errno == EINTR)
        ++interrupted;
      else
        ++other;
    }
    if (done > count * 1000) break;
  }
  const struct itimerval off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &off, NULL);
  printf("calls: %s\n", done >= count ? "all" : "too few");
  printf("eintr: %ld\nother errors: %ld\nsignals: %s\n", interrupted, other, signals > 0 ? "some" : "none");
  fprintf(stderr, "timers: %ld of %ld signals interrupted a call\n", interrupted, (long)signals);
  return 0;
}
