// Every act by which a process can reach another one (H4). Prints one line per act.
//   reach supervisor | guard | PID   acts on what is outside the run; the supervisor is the parent of the first process
//   reach group                      acts that name everybody at once: groups, users, -1; the caller ignores the signal
//   reach child                      the same acts on a child and a grandchild of its own, which must work as natively
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "victim.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#define SYS_pidfd_getfd 438
#define SYS_process_madvise 440
#endif
#ifndef FIOSETOWN
#define FIOSETOWN 0x8901
#define SIOCSPGRP 0x8902
#endif
enum { kIoprioProcess = 1, kIoprioGroup = 2, kIoprioUser = 3, kIoprioIdle = 3 << 13 };

// struct sched_attr of sched_setattr(2), first version.
struct attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

static pid_t parent_of(pid_t pid) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE* file = fopen(path, "re");
  pid_t parent = 0;
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "PPid: %d", &parent) == 1) break;
  }
  if (file) fclose(file);
  return parent;
}

// The top of the run as seen from inside: sandbox-run's own processes are named so.
static pid_t supervisor(void) {
  for (pid_t at = getppid(); at > 1; at = parent_of(at)) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", at);
    FILE* file = fopen(path, "re");
    if (file && !fgets(name, sizeof name, file)) name[0] = 0;
    if (file) fclose(file);
    if (strncmp(name, "srun-", 5) == 0) return at;
  }
  return 0;
}

static void schedule(pid_t pid) {
  const struct rlimit64 {
    uint64_t soft, hard;
  } cpu = {0, 0}, files = {0, 0};
  tell("prlimit RLIMIT_CPU", syscall(SYS_prlimit64, pid, RLIMIT_CPU, &cpu, NULL));
  tell("prlimit RLIMIT_NOFILE", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &files, NULL));
  tell("setpriority", syscall(SYS_setpriority, PRIO_PROCESS, pid, 19));
  tell("ioprio_set", syscall(SYS_ioprio_set, kIoprioProcess, pid, kIoprioIdle));
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  for (int cpu_number = 0, seen = 0; cpu_number < CPU_SETSIZE; ++cpu_number) {
    if (CPU_ISSET(cpu_number, &mask) && seen++) CPU_CLR(cpu_number, &mask);
  }
  tell("sched_setaffinity", syscall(SYS_sched_setaffinity, pid, sizeof mask, &mask));
  const struct sched_param none = {0};
  tell("sched_setparam", syscall(SYS_sched_setparam, pid, &none));
  struct attributes idle = {.size = sizeof idle, .policy = SCHED_BATCH, .nice = 19};
  tell("sched_setattr", syscall(SYS_sched_setattr, pid, &idle, 0));
  tell("sched_setscheduler", syscall(SYS_sched_setscheduler, pid, SCHED_IDLE, &none));
}

// Data arriving at `end` sends SIGKILL to the owner that `set` names.
static void by_owner(const char* what, pid_t pid, int set) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  const struct f_owner_ex process = {F_OWNER_PID, pid}, group = {F_OWNER_PGRP, pid < 0 ? -pid : pid};
  int value = pid;
  long result = 0;
  switch (set) {
    case 0: result = fcntl(pair[0], F_SETOWN, pid); break;
    case 1: result = fcntl(pair[0], F_SETOWN_EX, pid < 0 ? &group : &process); break;
    case 2: result = ioctl(pair[0], FIOSETOWN, &value); break;
    case 3: result = ioctl(pair[0], SIOCSPGRP, &value); break;
  }
  if (what) tell(what, result);
  fcntl(pair[0], F_SETSIG, pid < 0 ? SIGUSR1 : SIGKILL);
  fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  if (write(pair[1], "x", 1) != 1) puts("write failed");
  close(pair[0]);
  close(pair[1]);
}

static void signal_it(pid_t pid, int number) {
  siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
  const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  tell("kill", syscall(SYS_kill, pid, number));
  tell("tkill", syscall(SYS_tkill, pid, number));
  tell("tgkill", syscall(SYS_tgkill, pid, pid, number));
  tell("rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, pid, number, &info));
  tell("rt_tgsigqueueinfo", syscall(SYS_rt_tgsigqueueinfo, pid, pid, number, &info));
  tell("pidfd_send_signal", syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0));
  close(pidfd);
}

static void look_into(pid_t pid, pid_t child, void* there) {
  char buffer[8] = {0};
  const struct iovec mine = {buffer, sizeof buffer}, theirs = {there, sizeof buffer};
  const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  tell("process_vm_readv", syscall(SYS_process_vm_readv, pid, &mine, 1, &theirs, 1, 0));
  tell("process_vm_writev", syscall(SYS_process_vm_writev, pid, &mine, 1, &theirs, 1, 0));
  tell("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
  tell("kcmp", syscall(SYS_kcmp, getpid(), pid, 0, 0, 0));
  // Advice to another process needs a capability that even the caller of a child may lack.
  if (pid != child) tell("process_madvise", syscall(SYS_process_madvise, pidfd, &theirs, 1, 20 /* MADV_COLD */, 0));
  const unsigned long nodes = 1;
  tell("migrate_pages", syscall(SYS_migrate_pages, pid, 64, &nodes, &nodes));
  int status = 0;
  tell("move_pages", syscall(SYS_move_pages, pid, 1, &there, NULL, &status, 0));
  close(pidfd);
}

static void trace(pid_t pid) {
  const long seized = tell("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, pid, NULL, NULL));
  if (seized == 0) {
    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
    waitpid(pid, NULL, __WALL);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
  }
  if (tell("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, NULL, NULL)) == 0) {
    waitpid(pid, NULL, __WALL);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
  }
}

static void open_files(pid_t pid) {
  const char* const names[] = {"mem", "environ", "maps", "auxv", "stack", "syscall", "personality"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char path[64], what[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
    snprintf(what, sizeof what, "/proc/PID/%s", names[i]);
    const int fd = open(path, (i == 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    char byte;
    // Some check at the open, some at the read; mem's first page is never mapped, so EIO there means that it is open.
    const long result = fd < 0 ? -1 : i == 0 ? 0 : read(fd, &byte, 1);
    tell(what, result);
    if (fd >= 0) close(fd);
  }
  const char* const links[] = {"fd/0", "cwd", "root", "exe", "ns/mnt"};
  for (size_t i = 0; i < sizeof links / sizeof *links; ++i) {
    char path[64], what[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, links[i]);
    snprintf(what, sizeof what, "/proc/PID/%s", links[i]);
    const int fd = open(path, O_PATH | O_CLOEXEC);
    tell(what, fd);
    if (fd >= 0) close(fd);
  }
}

static void groups(void) {
  // SIGKILL would end the caller's own group with it; a signal that the guard passes on or dies of does as well.
  signal(SIGTERM, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);
  tell("kill 0", syscall(SYS_kill, 0, SIGTERM));
  tell("kill -1", syscall(SYS_kill, -1, SIGKILL));
  tell("kill -group", syscall(SYS_kill, -getpgrp(), SIGUSR1));
  tell("setpriority of the group", syscall(SYS_setpriority, PRIO_PGRP, 0, 19));
  tell("setpriority of the user", syscall(SYS_setpriority, PRIO_USER, 0, 19));
  tell("ioprio_set of the group", syscall(SYS_ioprio_set, kIoprioGroup, 0, kIoprioIdle));
  tell("ioprio_set of the user", syscall(SYS_ioprio_set, kIoprioUser, 0, kIoprioIdle));
  for (int set = 0; set < 4; ++set) by_owner(NULL, -getpgrp(), set);
}

static void outside(pid_t pid) {
  schedule(pid);
  signal_it(pid, SIGKILL);
  for (int set = 0; set < 4; ++set) by_owner(NULL, pid, set);
  static long here;
  look_into(pid, 0, &here);
  trace(pid);
  open_files(pid);
}

static int member(void) {
  static long here;
  int ready[2];
  if (pipe(ready) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild != 0 && write(ready[1], &grandchild, sizeof grandchild) != sizeof grandchild) _exit(1);
    while (1) pause();
  }
  pid_t grandchild = 0;
  if (read(ready[0], &grandchild, sizeof grandchild) != sizeof grandchild) return 1;
  puts("grandchild:");
  signal_it(grandchild, 0);
  by_owner("F_SETOWN", grandchild, 0);
  puts("child:");
  look_into(child, child, &here);
  trace(child);
  signal_it(child, 0);
  schedule(child);
  kill(child, SIGKILL);
  int status = 0;
  tell("waitpid", waitpid(child, &status, 0));
  printf("the child died of signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  const pid_t traced = fork();
  if (traced == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
  waitpid(traced, &status, 0);
  printf("PTRACE_TRACEME ended with %d\n", WEXITSTATUS(status));
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "child") == 0) return member();
  const pid_t watcher = supervisor();
  if (strcmp(argv[1], "group") == 0) {
    groups();
  } else {
    const pid_t pid = strcmp(argv[1], "supervisor") == 0 ? watcher
                      : strcmp(argv[1], "guard") == 0    ? parent_of(watcher)
                                                         : (pid_t)atoi(argv[1]);
    if (pid <= 1) return 2;
    outside(pid);
    if (getppid() == watcher) tell("PTRACE_TRACEME", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  }
  puts("end");
  return 0;
}
