// What a program sees of its CPUs while it is hot: affinity [CALLS [CALL]]. Makes CALLS (default 20000) of getppid (or
// openat) and asks for its mask every 50; then from a thread, a child and a child of a thread; each line lists the
// distinct masks seen. "set": narrows its own mask to one CPU, reads it back, and restores it.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "victim.h"

static long calls = 20000;
static int use_openat;

static void hot_call(void) {
  if (use_openat) {
    const long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
    if (fd >= 0) close((int)fd);
  } else {
    syscall(SYS_getppid);
  }
}

// A mask as the kernel gave it: the raw call tells how many bytes it wrote.
static void mask_text(char* out, size_t size) {
  unsigned long words[16] = {0};
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof words, words);
  if (bytes < 0) {
    snprintf(out, size, "%s", strerrorname_np(errno));
    return;
  }
  out[0] = 0;
  for (int cpu = 0; cpu < 1024; ++cpu) {
    if (!((words[cpu / 64] >> (cpu % 64)) & 1)) continue;
    const size_t used = strlen(out);
    if (used + 6 < size) snprintf(out + used, size - used, "%s%d", used ? "," : "", cpu);
  }
}

static void tell_masks(const char* who) {
  static char seen[16][512];
  int distinct = 0;
  for (long i = 0; i <= calls; ++i) {
    hot_call();
    if (i % 50 != 0) continue;
    char now[512];
    mask_text(now, sizeof now);
    int known = 0;
    for (int k = 0; k < distinct; ++k) known |= strcmp(seen[k], now) == 0;
    if (!known && distinct < 16) strcpy(seen[distinct++], now);
  }
  printf("%s:", who);
  for (int k = 0; k < distinct; ++k) printf(" %s", seen[k]);
  printf("\n");
  fflush(stdout);
}

static void tell_from_child(const char* who) {
  const pid_t child = fork();
  if (child == 0) {
    tell_masks(who);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void* thread(void* unused) {
  tell_masks("thread");
  tell_from_child("child of a thread");
  return NULL;
}

int main(int argc, char** argv) {
  calls = count_argument(argc, argv, 1, 20000);
  use_openat = argc > 2 && strcmp(argv[2], "openat") == 0;
  printf("online: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
  tell_masks("self");
  pthread_t id;
  if (pthread_create(&id, NULL, thread, NULL) != 0) return 1;
  pthread_join(id, NULL);
  tell_from_child("child");
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return 1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    break;
  }
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
  tell_masks("set");
  tell_from_child("child after set");
  if (sched_setaffinity(0, sizeof all, &all) != 0) return 1;
  tell_masks("restored");
  return 0;
}
