/* Small deterministic programs for the comparison with strace: `trace-programs NAME` runs one, without arguments it lists
   them. Each does one kind of thing; results that differ from run to run are kept out of what is printed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char *self;
static void handler(int number) { (void)number; }
static void ignore(long value) { (void)value; }
#define RAW(...) ignore(syscall(__VA_ARGS__))

static void nothing(void) {}
static void exit_status(void) { _exit(42); }
static void killed(void) { raise(SIGKILL); }
static void killed_term(void) { kill(getpid(), SIGTERM); }
static void segfault(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  *(volatile int *)16 = 1;
}
static void strings(void) {
  char text[300];
  for (int i = 0; i < 256; i++) text[i] = (char)i;
  int fd = open("/dev/null", O_WRONLY);
  for (int i = 0; i < 256; i += 16) ignore(write(fd, text + i, 16));
  ignore(write(fd, "\0011\0018\0019\1a", 8));
  ignore(write(fd, "12345678901234567890123456789012", 32));
  ignore(write(fd, "123456789012345678901234567890123", 33));
  ignore(write(fd, "", 0));
  ignore(write(fd, "tab\tnl\ncr\rff\fvt\vq\"b\\s'<>", 25));
}
static void long_paths(void) {
  static char path[5000];
  memset(path, 'a', sizeof path);
  path[4094] = 0;
  RAW(SYS_open, path, O_RDONLY);
  path[4094] = 'a';
  path[4095] = 0;
  RAW(SYS_open, path, O_RDONLY);
  path[4095] = 'a';
  path[4096] = 0;
  RAW(SYS_open, path, O_RDONLY);
  path[300] = 0;
  RAW(SYS_open, path, O_RDONLY);
}
static void bad_pointers(void) {
  char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *hole = page;
  munmap(page, 4096);
  RAW(SYS_open, hole, O_RDONLY);
  RAW(SYS_open, 1, O_RDONLY);
  RAW(SYS_open, 0, O_RDONLY);
  RAW(SYS_stat, "/", 0);
  RAW(SYS_stat, "/", 1);
  RAW(SYS_write, 1, hole, 5);
  RAW(SYS_writev, 1, hole, 2);
  RAW(SYS_nanosleep, hole, 0);
  RAW(SYS_rt_sigaction, 10, hole, 0, 8);
  RAW(SYS_rt_sigprocmask, 0, hole, 0, 8);
  RAW(SYS_pipe2, hole, 0);
  RAW(SYS_poll, hole, 1, 0);
  RAW(SYS_connect, 1, hole, 16);
  RAW(SYS_execve, hole, 0, 0);
  RAW(SYS_execve, "/nonexistent", 1, 1);
  RAW(SYS_uname, hole);
  RAW(SYS_clock_gettime, 0, 1);
  RAW(SYS_getcwd, hole, 100);
  RAW(SYS_readlink, "/proc/self/exe", hole, 100);
}
static void page_edge(void) {
  char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(pages + 4096, 4096);
  memset(pages, 'x', 4096);
  RAW(SYS_open, pages + 4090, O_RDONLY);
  memcpy(pages + 4091, "/abc", 5);
  RAW(SYS_open, pages + 4091, O_RDONLY);
  int fd = open("/dev/null", O_WRONLY);
  ignore(write(fd, pages + 4090, 6));
  ignore(write(fd, pages + 4090, 7));
}
static void unknown_calls(void) {
  RAW(500, 1, 2, 3, 4, 5, 6);
  RAW(9999, -1, 0, 0x7fffffff, 4, 5, 6);
}
static void files(void) {
  char buffer[64];
  int fd = open("f1", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  ignore(ftruncate(fd, 10));
  lseek(fd, 0, SEEK_SET);
  lseek(fd, -3, SEEK_END);
  lseek(fd, 0, 77);
  ignore(pwrite(fd, "ab\001\0012\377", 6, 5));
  ignore(pread(fd, buffer, 10, 0));
  fsync(fd);
  fdatasync(fd);
  ignore(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 10));
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  fchmod(fd, 04755);
  fchmod(fd, 0);
  ignore(fchown(fd, -1, -1));
  ignore(link("f1", "f2"));
  rename("f2", "f3");
  renameat2(AT_FDCWD, "f3", AT_FDCWD, "f1", RENAME_NOREPLACE);
  unlink("f3");
  ignore(symlink("target of link", "l1"));
  ignore(readlink("l1", buffer, 64));
  ignore(readlink("l1", buffer, 3));
  ignore(readlink("f1", buffer, 64));
  unlinkat(AT_FDCWD, "l1", 0);
  mkdir("d1", 0700);
  mkdirat(AT_FDCWD, "d1", 0755);
  unlinkat(AT_FDCWD, "d1", AT_REMOVEDIR);
  rmdir("d1");
  access("f1", F_OK);
  access("f1", R_OK | W_OK | X_OK);
  faccessat(AT_FDCWD, "f1", X_OK, AT_EACCESS);
  chmod("f1", 0600);
  umask(022);
  umask(0);
  ignore(mknod("fifo", S_IFIFO | 0600, 0));
  unlink("fifo");
  ignore(truncate("f1", 3));
  flock(fd, LOCK_EX | LOCK_NB);
  flock(fd, LOCK_UN);
  unlink("f1");
  close(fd);
  close(fd);
}
static void open_flags(void) {
  RAW(SYS_open, "nope", O_RDONLY);
  RAW(SYS_open, "nope", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
  RAW(SYS_open, "nope", O_RDWR | O_SYNC | O_DIRECT | O_LARGEFILE);
  RAW(SYS_open, "nope", O_RDWR | O_DSYNC | O_NOATIME | O_NOFOLLOW);
  RAW(SYS_open, "nope", 3);
  RAW(SYS_open, "nope", O_PATH | O_CLOEXEC | O_DIRECTORY);
  RAW(SYS_openat, -100, "nope/x", O_TMPFILE | O_RDWR, 0600);
  RAW(SYS_openat, 5, "nope/x", 0x40000000);
  RAW(SYS_creat, "nope/x", 0644);
  uint64_t how[3] = {O_RDONLY | O_CLOEXEC, 0, 8 | 2};
  RAW(SYS_openat2, AT_FDCWD, "nope", how, 24);
}
static void stats(void) {
  struct stat st;
  struct statx sx;
  stat("/", &st);
  stat("/dev/null", &st);
  lstat("/proc/self/exe", &st);
  lstat("/nonexistent", &st);
  fstat(99, &st);
  RAW(SYS_stat, "/tmp", &st);
  RAW(SYS_lstat, "/dev/zero", &st);
  RAW(SYS_newfstatat, AT_FDCWD, "/", &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
  statx(AT_FDCWD, "/", 0, STATX_ALL, &sx);
  statx(AT_FDCWD, "/", AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_MODE | STATX_SIZE, &sx);
  statx(AT_FDCWD, "/nonexistent", AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &sx);
}
static void times(void) {
  int fd = open("tf", O_RDWR | O_CREAT, 0600);
  futimens(fd, 0);
  utimensat(AT_FDCWD, "tf", (struct timespec[]){{0, UTIME_NOW}, {0, UTIME_OMIT}}, 0);
  utimensat(AT_FDCWD, "tf", (struct timespec[]){{1, 2}, {3, 4}}, AT_SYMLINK_NOFOLLOW);
  utimensat(AT_FDCWD, "tf", (struct timespec[]){{0, 0}, {1000000000, 0}}, 0);
  RAW(SYS_utimes, "tf", (struct timeval[]){{1, 2}, {3, 4}});
  unlink("tf");
  RAW(SYS_clock_gettime, 99, 0);
  RAW(SYS_clock_getres, CLOCK_MONOTONIC, (long[2]){0, 0});
}
static void directories(void) {
  char buffer[32768], cwd[128];
  int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  RAW(SYS_getdents64, fd, buffer, 8);
  RAW(SYS_getdents64, fd, buffer, sizeof buffer);
  RAW(SYS_getdents64, fd, buffer, sizeof buffer);
  ignore(fchdir(fd));
  ignore(chdir("/"));
  ignore((long)getcwd(cwd, sizeof cwd));
  RAW(SYS_getcwd, cwd, 1);
  ignore(chdir("/nonexistent"));
}
static void descriptors(void) {
  int p[2];
  ignore(pipe(p));
  ignore(pipe2(p, O_CLOEXEC | O_NONBLOCK));
  ignore(dup(p[0]));
  dup2(p[0], 50);
  dup3(p[0], 51, O_CLOEXEC);
  dup3(p[0], p[0], 0);
  fcntl(p[0], F_GETFD);
  fcntl(p[0], F_SETFD, 0);
  fcntl(p[0], F_SETFD, FD_CLOEXEC);
  fcntl(p[0], F_GETFL);
  fcntl(p[1], F_SETFL, O_NONBLOCK | O_APPEND);
  fcntl(p[0], F_DUPFD, 60);
  fcntl(p[0], F_DUPFD_CLOEXEC, 60);
  fcntl(p[0], F_GETPIPE_SZ);
  fcntl(p[0], F_GETOWN);
  fcntl(p[0], F_SETPIPE_SZ, 4096);
  fcntl(p[0], 9999, 1);
  struct flock lock = {.l_type = F_WRLCK, .l_len = 5};
  int fd = open("lk", O_RDWR | O_CREAT, 0600);
  fcntl(fd, F_SETLK, &lock);
  fcntl(fd, F_GETLK, &lock);
  fcntl(fd, F_OFD_SETLK, &lock);
  unlink("lk");
  int m = memfd_create("name", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  fcntl(m, F_GET_SEALS);
  RAW(SYS_close_range, 200, 300, 0);
  RAW(SYS_close_range, 200, 300, 4);
}
static void ioctls(void) {
  int p[2], n;
  ignore(pipe(p));
  char buffer[64];
  ioctl(p[0], FIONREAD, &n);
  ioctl(0, TCGETS, buffer);
  ioctl(0, TIOCGWINSZ, buffer);
  ioctl(0, TIOCGPGRP, &n);
  n = 1;
  ioctl(p[0], FIONBIO, &n);
  ioctl(p[0], FIOCLEX);
  ioctl(0, 0x12345678, 0x55);
  ioctl(0, 0xc0101234, 0);
}
static void vectors(void) {
  int p[2];
  char a[8], b[8];
  ignore(pipe(p));
  struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdefghijklmnopqrstuvwxyz0123456789ABCDEF", 40}};
  struct iovec in[2] = {{a, 8}, {b, 8}};
  ignore(writev(p[1], out, 3));
  ignore(readv(p[0], in, 2));
  ignore(writev(p[1], out, 0));
  ignore(readv(99, in, 2));
  ignore(read(p[0], a, 8));
  ignore(read(99, a, 8));
}
static void many_elements(void) {
  struct iovec out[40];
  for (int i = 0; i < 40; i++) out[i] = (struct iovec){"x", 1};
  int fd = open("/dev/null", O_WRONLY);
  ignore(writev(fd, out, 40));
  struct pollfd polls[40];
  for (int i = 0; i < 40; i++) polls[i] = (struct pollfd){fd, POLLOUT, 0};
  poll(polls, 40, 0);
}
static void waiting(void) {
  int p[2];
  ignore(pipe(p));
  struct timespec ts = {0, 1000}, zero = {0, 0};
  struct timeval tv = {0, 1000};
  struct pollfd polls[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT | POLLWRNORM, 0}};
  poll(polls, 2, 10);
  poll(polls, 1, 1);
  poll(0, 0, 0);
  polls[0].fd = -1;
  poll(polls, 2, 0);
  fd_set r, w;
  FD_ZERO(&r);
  FD_SET(p[0], &r);
  FD_ZERO(&w);
  FD_SET(p[1], &w);
  RAW(SYS_select, p[1] + 1, &r, &w, 0, &tv);
  FD_ZERO(&r);
  FD_SET(p[0], &r);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pselect(p[0] + 1, &r, 0, 0, &zero, &set);
  pselect(0, 0, 0, 0, &zero, 0);
  ppoll(polls + 1, 1, &zero, &set);
  nanosleep(&ts, &ts);
  RAW(SYS_nanosleep, &ts, &ts);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &zero, 0);
}
static void epolls(void) {
  int p[2];
  ignore(pipe(p));
  int fd = epoll_create1(EPOLL_CLOEXEC);
  RAW(SYS_epoll_create, 1);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = 0x123456789abcull};
  epoll_ctl(fd, EPOLL_CTL_ADD, p[1], &event);
  epoll_ctl(fd, EPOLL_CTL_MOD, p[1], &event);
  epoll_wait(fd, &event, 1, 10);
  RAW(SYS_epoll_pwait, fd, &event, 1, 0, 0, 8);
  epoll_ctl(fd, EPOLL_CTL_DEL, p[1], 0);
  epoll_wait(fd, &event, 1, 0);
  epoll_wait(99, &event, 1, 0);
}
static void signals(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, 0);
  sigaction(SIGUSR1, 0, &action);
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESETHAND | SA_ONSTACK;
  sigaction(SIGUSR2, &action, 0);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGPIPE, SIG_DFL);
  kill(getpid(), SIGUSR1);
  raise(SIGUSR2);
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_BLOCK, &set, &set);
  kill(getpid(), SIGTERM);
  sigpending(&set);
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGRTMIN + 3);
  struct timespec zero = {0, 0};
  siginfo_t info;
  sigtimedwait(&set, &info, &zero);
  sigtimedwait(&set, &info, &zero);
  sigprocmask(SIG_SETMASK, &set, 0);
  kill(getpid(), 0);
  kill(getpid(), 99);
  sigaction(99, 0, 0);
}
static void restarts(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  int p[2];
  char byte;
  ignore(pipe(p));
  struct itimerval timer = {{0, 0}, {0, 30000}};
  pid_t child = fork();
  if (child == 0) {
    usleep(90000);
    ignore(write(p[1], "x", 1));
    _exit(0);
  }
  setitimer(ITIMER_REAL, &timer, 0);
  ignore(read(p[0], &byte, 1));
  waitpid(child, 0, 0);
  action.sa_flags = 0;
  sigaction(SIGALRM, &action, 0);
  setitimer(ITIMER_REAL, &timer, 0);
  ignore(read(p[0], &byte, 1));
  setitimer(ITIMER_REAL, &timer, 0);
  pause();
  setitimer(ITIMER_REAL, &timer, 0);
  poll(0, 0, 200);
  sigset_t set;
  sigemptyset(&set);
  setitimer(ITIMER_REAL, &timer, 0);
  sigsuspend(&set);
}
static void restart_block(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, 0);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    usleep(100000);
    kill(parent, SIGSTOP);
    usleep(100000);
    kill(parent, SIGCONT);
    _exit(0);
  }
  struct timespec ts = {0, 500000000};
  nanosleep(&ts, 0);
  waitpid(child, 0, 0);
}
static void alt_stack(void) {
  static char stack[65536];
  stack_t s = {.ss_sp = stack, .ss_size = sizeof stack}, old;
  sigaltstack(&s, &old);
  sigaltstack(0, &old);
  s.ss_flags = SS_DISABLE;
  sigaltstack(&s, 0);
}
static void forks(void) {
  int status;
  pid_t child = fork();
  if (child == 0) _exit(3);
  waitpid(child, &status, 0);
  child = fork();
  if (child == 0) raise(SIGKILL);
  waitpid(child, &status, WUNTRACED);
  child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  usleep(50000);
  kill(child, SIGTERM);
  waitpid(child, &status, 0);
  waitpid(-1, &status, WNOHANG);
}
static void wait_ids(void) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  pid_t child = fork();
  if (child == 0) _exit(7);
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  memset(&info, 0, sizeof info);
  waitid(P_ALL, 0, &info, WEXITED);
  waitid(P_ALL, 0, &info, WEXITED);
}
static void vforks(void) {
  int status;
  pid_t child = vfork();
  if (child == 0) _exit(5);
  waitpid(child, &status, 0);
  child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", NULL);
    _exit(1);
  }
  waitpid(child, &status, 0);
}
static void executes(void) {
  char *const environment[] = {"A=1", "B=2", NULL};
  char *const arguments[] = {self, "nothing", "with \"quotes\"", "a long argument that is longer than 32 bytes", NULL};
  execve("/nonexistent", arguments, environment);
  execve("/", arguments, environment);
  execve(self, arguments, environment);
}
static void execute_at(void) {
  char *const arguments[] = {self, "nothing", NULL};
  char *const environment[] = {NULL};
  int fd = open(self, O_PATH);
  RAW(SYS_execveat, fd, "", arguments, environment, AT_EMPTY_PATH);
}
static void *thread(void *arg) {
  (void)arg;
  RAW(SYS_gettid);
  return 0;
}
static void threads(void) {
  pthread_t t[3];
  for (int i = 0; i < 3; i++) {
    pthread_create(&t[i], 0, thread, 0);
    usleep(50000);
    pthread_join(t[i], 0);
  }
}
static void *executing(void *arg) {
  (void)arg;
  execl(self, self, "nothing", NULL);
  return 0;
}
static void thread_executes(void) {
  pthread_t t;
  pthread_create(&t, 0, executing, 0);
  pause();
}
static void *exiting(void *arg) {
  (void)arg;
  usleep(20000);
  _exit(9);
}
static void thread_exits(void) {
  pthread_t t;
  pthread_create(&t, 0, exiting, 0);
  pause();
}
static void *killing(void *arg) {
  (void)arg;
  usleep(20000);
  kill(getpid(), SIGKILL);
  return 0;
}
static void thread_kills(void) {
  pthread_t t;
  pthread_create(&t, 0, killing, 0);
  pause();
}
static void killed_in_call(void) {
  pid_t child = fork();
  if (child == 0) {
    char byte;
    int p[2];
    ignore(pipe(p));
    ignore(read(p[0], &byte, 1));
    _exit(0);
  }
  usleep(50000);
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
}
static void stops(void) {
  // Whether the child's stop is noticed inside a call is up to the scheduler.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, 0);
  pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    usleep(100000);
    _exit(0);
  }
  int status;
  waitpid(child, &status, WUNTRACED);
  usleep(50000);
  kill(child, SIGCONT);
  usleep(50000);
  waitpid(child, &status, 0);
}
static void inet(void) {
  int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 4);
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, 4);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  bind(s, (void *)&a, sizeof a);
  listen(s, 5);
  socklen_t l = sizeof a;
  getsockname(s, (void *)&a, &l);
  int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  connect(c, (void *)&a, sizeof a);
  l = sizeof a;
  int d = accept4(s, (void *)&a, &l, SOCK_CLOEXEC);
  send(c, "hello", 5, MSG_NOSIGNAL);
  char buffer[64];
  recv(d, buffer, 64, 0);
  l = 4;
  getsockopt(c, SOL_SOCKET, SO_ERROR, &one, &l);
  l = 4;
  getsockopt(c, SOL_SOCKET, SO_TYPE, &one, &l);
  struct linger linger = {1, 2};
  setsockopt(c, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  recv(d, buffer, 64, MSG_DONTWAIT);
  getpeername(99, (void *)&a, &l);
  shutdown(c, SHUT_RDWR);
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(1)};
  int e = socket(AF_INET6, SOCK_DGRAM, 0);
  connect(e, (void *)&six, sizeof six);
  sendto(s, "x", 1, 0, (void *)&a, sizeof a);
  socket(AF_NETLINK, SOCK_RAW, 0);
  socket(77, 1, 0);
}
static void unix_sockets(void) {
  struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/x"};
  int s = socket(AF_UNIX, SOCK_DGRAM, 0), pair[2];
  connect(s, (void *)&a, sizeof a);
  memcpy(a.sun_path, "\0abstract", 9);
  connect(s, (void *)&a, offsetof(struct sockaddr_un, sun_path) + 9);
  connect(s, (void *)&a, 2);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  struct iovec v[2] = {{"ab", 2}, {"cde", 3}};
  struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(8)];
  } control;
  memset(&control, 0, sizeof control);
  control.header.cmsg_len = CMSG_LEN(8);
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  int fds[2] = {0, 1};
  memcpy(CMSG_DATA(&control.header), fds, 8);
  m.msg_control = &control;
  m.msg_controllen = sizeof control;
  sendmsg(pair[0], &m, MSG_NOSIGNAL);
  char buffer[64];
  v[0] = (struct iovec){buffer, 64};
  m.msg_iovlen = 1;
  recvmsg(pair[1], &m, 0);
  recvmsg(pair[1], &m, MSG_DONTWAIT);
}
static void memory(void) {
  char *p = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(p, 4096, PROT_NONE);
  mprotect(p, 4096, PROT_READ | PROT_EXEC);
  madvise(p, 8192, MADV_DONTNEED);
  madvise(p, 8192, 99);
  p = mremap(p, 16384, 32768, MREMAP_MAYMOVE);
  msync(p, 4096, MS_SYNC);
  mlock(p, 0);
  munmap(p, 32768);
  mmap(0, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mmap((void *)0x10000000, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
  mmap(0, 4096, PROT_READ, MAP_PRIVATE, 99, 4096);
  RAW(SYS_brk, 0);
}
static void limits(void) {
  struct rlimit r;
  getrlimit(RLIMIT_NOFILE, &r);
  getrlimit(RLIMIT_STACK, &r);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 4096});
  RAW(SYS_getrlimit, RLIMIT_CPU, &r);
  getrlimit(99, &r);
  RAW(SYS_getpriority, PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, 5);
  struct sched_param param;
  sched_getparam(0, &param);
  sched_getscheduler(0);
  sched_yield();
  sched_get_priority_max(SCHED_FIFO);
}
static void prctls(void) {
  char name[16];
  int n;
  prctl(PR_SET_NAME, "foo");
  prctl(PR_SET_NAME, "a name that is longer than that");
  prctl(PR_GET_NAME, name);
  prctl(PR_GET_DUMPABLE);
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_GET_PDEATHSIG, &n);
  prctl(PR_CAPBSET_READ, 1);
  prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_GET_SECCOMP);
}
static void identities(void) {
  uid_t u[3];
  gid_t g[3];
  getuid();
  geteuid();
  getgid();
  getegid();
  getresuid(u, u + 1, u + 2);
  getresgid(g, g + 1, g + 2);
  setuid(getuid());
  setreuid(-1, -1);
  setresgid(-1, -1, -1);
  getppid() > 0 ? 0 : 1;
  getpgid(0);
  setpgid(0, 0);
}
static void capabilities(void) {
  uint32_t header[2] = {0x20080522, 0}, data[6];
  RAW(SYS_capget, header, data);
  header[0] = 0;
  RAW(SYS_capget, header, 0);
}
static void futexes(void) {
  static int word = 1;
  struct timespec ts = {0, 1000000};
  RAW(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
  RAW(SYS_futex, &word, FUTEX_WAIT, 0, 0);
  RAW(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &ts);
  RAW(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 0, &ts, 0, -1);
  RAW(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, 0, 0, 5);
  RAW(SYS_futex, &word, FUTEX_REQUEUE, 1, 2, &word);
  RAW(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 2, &word, 5);
  RAW(SYS_futex, &word, 99, 1, 2, &word, 5);
}
static void clones(void) {
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  waitpid(child, 0, 0);
  int tid = 0;
  child = (pid_t)syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, 0, &tid, 0, 0);
  if (child == 0) _exit(0);
  waitpid(child, 0, 0);
  RAW(SYS_clone, CLONE_THREAD, 0, 0, 0, 0);
  uint64_t args[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
  child = (pid_t)syscall(SYS_clone3, args, sizeof args);
  if (child == 0) _exit(0);
  waitpid(child, 0, 0);
  RAW(SYS_unshare, 0);
  RAW(SYS_setns, 99, CLONE_NEWNET);
}
static void special_descriptors(void) {
  eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  signalfd(-1, &set, SFD_CLOEXEC);
  int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec its = {{0, 0}, {100, 5}};
  timerfd_settime(t, TFD_TIMER_ABSTIME, &its, 0);
  int i = inotify_init1(IN_CLOEXEC);
  inotify_add_watch(i, "/tmp", IN_CREATE | IN_DELETE | IN_MOVED_FROM);
  inotify_rm_watch(i, 99);
  struct itimerval it = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &it, 0);
  getitimer(ITIMER_REAL, &it);
  alarm(0);
}
static void system_information(void) {
  struct utsname name;
  struct rusage usage;
  uname(&name);
  getrusage(RUSAGE_SELF, &usage);
  getrusage(RUSAGE_CHILDREN, &usage);
  getrusage(99, &usage);
  struct sysinfo info;
  sysinfo(&info);
  struct statfs fs;
  statfs("/proc", &fs);
  statfs("/nonexistent", &fs);
  char bytes[8];
  RAW(SYS_getrandom, bytes, 8, 1);
}
static void mounts(void) {
  mount("source", "/nonexistent", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=1k");
  umount2("/nonexistent", MNT_DETACH);
  ignore(chroot("/nonexistent"));
  RAW(SYS_pivot_root, "/nonexistent", "/nonexistent");
}
static void attributes(void) {
  char value[16];
  getxattr("/", "user.none", value, sizeof value);
  setxattr("/nonexistent", "user.x", "value", 5, XATTR_CREATE);
  listxattr("/", value, 0);
  removexattr("/nonexistent", "user.x");
}
static void copies(void) {
  int a = open("c1", O_RDWR | O_CREAT | O_TRUNC, 0600), b = open("c2", O_RDWR | O_CREAT | O_TRUNC, 0600), p[2];
  ignore(write(a, "0123456789", 10));
  loff_t from = 2;
  RAW(SYS_copy_file_range, a, &from, b, 0, 3, 0);
  off_t offset = 1;
  RAW(SYS_sendfile, b, a, &offset, 2);
  ignore(pipe(p));
  from = 0;
  RAW(SYS_splice, a, &from, p[1], 0, 4, SPLICE_F_MOVE);
  RAW(SYS_tee, p[0], p[1], 1, SPLICE_F_NONBLOCK);
  RAW(SYS_sync_file_range, a, 0, 0, 2);
  RAW(SYS_readahead, a, 0, 4096);
  unlink("c1");
  unlink("c2");
}
static void personalities(void) {
  personality(0xffffffff);
  RAW(SYS_arch_prctl, 0x1003, (long[1]){0});
  RAW(SYS_membarrier, 99, 0, 0);
  RAW(SYS_seccomp, 2, 0, (int[1]){0});
  RAW(SYS_seccomp, 77, 1, 0);
}

static const struct {
  const char *name;
  void (*run)(void);
} programs[] = {
#define P(x) {#x, x}
    P(nothing), P(exit_status), P(killed), P(killed_term), P(segfault), P(strings), P(long_paths), P(bad_pointers), P(page_edge),
    P(unknown_calls), P(files), P(open_flags), P(stats), P(times), P(directories), P(descriptors), P(ioctls), P(vectors),
    P(many_elements), P(waiting), P(epolls), P(signals), P(restarts), P(restart_block), P(alt_stack), P(forks), P(wait_ids), P(vforks), P(executes),
    P(execute_at), P(threads), P(thread_executes), P(thread_exits), P(thread_kills), P(killed_in_call), P(stops), P(inet),
    P(unix_sockets), P(memory), P(limits), P(prctls), P(identities), P(capabilities), P(futexes), P(clones),
    P(special_descriptors), P(system_information), P(mounts), P(attributes), P(copies), P(personalities),
};

int main(int argc, char **argv) {
  self = argv[0];
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
    if (argc < 2) puts(programs[i].name);
    if (argc >= 2 && strcmp(argv[1], programs[i].name) == 0) {
      programs[i].run();
      return 0;
    }
  }
  return argc < 2 ? 0 : 2;
}
