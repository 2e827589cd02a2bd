// Threads and name look-up as glibc does them (clone3 first, clone on ENOSYS), then a bare clone3 and clone with each
// namespace flag (moby/moby#42680). Natively the bare clone3 is EINVAL.
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "victim.h"

static void* thread(void* argument) {
  *(int*)argument = 1;
  return NULL;
}

static void clone_with(const char* name, unsigned long flag) {
  const long child = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  tell(name, child);
  if (child > 0) waitpid((pid_t)child, NULL, 0);
}

int main(void) {
  pthread_t id;
  int ran = 0;
  errno = pthread_create(&id, NULL, thread, &ran);
  tell("thread", errno ? -1 : 0);
  if (!errno) pthread_join(id, NULL);
  printf("ran: %d\n", ran);
  struct addrinfo* found = NULL;
  const int failed = getaddrinfo("localhost", "80", NULL, &found);
  printf("look-up: %s\n", failed ? gai_strerror(failed) : "ok");
  if (!failed) freeaddrinfo(found);
  tell("clone3", syscall(SYS_clone3, NULL, 0));
  tell("clone3 with a size", syscall(SYS_clone3, NULL, 88));
  clone_with("clone", 0);
  clone_with("clone CLONE_NEWNS", CLONE_NEWNS);
  clone_with("clone CLONE_NEWCGROUP", CLONE_NEWCGROUP);
  clone_with("clone CLONE_NEWUTS", CLONE_NEWUTS);
  clone_with("clone CLONE_NEWIPC", CLONE_NEWIPC);
  clone_with("clone CLONE_NEWUSER", CLONE_NEWUSER);
  clone_with("clone CLONE_NEWPID", CLONE_NEWPID);
  clone_with("clone CLONE_NEWNET", CLONE_NEWNET);
  puts("end");
  return 0;
}
