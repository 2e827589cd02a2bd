// network_calls: every call that gives a socket an address, with every result that can be had on the loopback and in the
// current directory. Prints one line each, the same whoever carries the calls out.
#include "victim.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct sockaddr_in at(uint32_t address, int port) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = (in_port_t)port, .sin_addr.s_addr = htonl(address)};
  return in;
}
static struct sockaddr_un named(const char *path) {
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  strcpy(un.sun_path, path);
  return un;
}
#define ADDRESS(x) (struct sockaddr *)&(x), sizeof(x)

static int listener(int backlog, struct sockaddr_in *where) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t size = sizeof *where;
  *where = at(INADDR_LOOPBACK, 0);
  if (bind(fd, ADDRESS(*where)) != 0 || listen(fd, backlog) != 0 || getsockname(fd, (struct sockaddr *)where, &size) != 0) exit(3);
  return fd;
}

// A server whose queue is full, so that one more connect waits.
static int full_listener(struct sockaddr_in *where) {
  const int fd = listener(0, where);
  for (int i = 0; i < 2; ++i) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(client, ADDRESS(*where));
    struct pollfd wait = {client, POLLOUT, 0};
    poll(&wait, 1, 200);
  }
  return fd;
}

static volatile sig_atomic_t signals;
static void count(int signal) {
  (void)signal;
  ++signals;
}
static void alarm_in(int milliseconds, int flags) {
  struct sigaction action = {.sa_handler = count, .sa_flags = flags};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {.it_value = {.tv_usec = 1000 * milliseconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void tcp(void) {
  struct sockaddr_in server, closed, any;
  const int listening = listener(8, &server);
  const int other = listener(8, &closed);
  close(other);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  tell("connect", connect(fd, ADDRESS(server)));
  tell("connect again", connect(fd, ADDRESS(server)));
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  tell("disconnect", connect(fd, &none, sizeof none));
  tell("connect after disconnect", connect(fd, ADDRESS(server)));
  tell("sendto connected", sendto(fd, "x", 1, 0, ADDRESS(server)));
  tell("bind connected", bind(fd, ADDRESS(server)));
  tell("listen connected", listen(fd, 1));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  tell("sendto unconnected", sendto(fd, "x", 1, MSG_NOSIGNAL, ADDRESS(server)));
  tell("connect refused", connect(fd, ADDRESS(closed)));
  any = at(INADDR_ANY, server.sin_port);
  tell("connect to any", connect(fd, ADDRESS(any)));
  struct sockaddr_in peer;
  socklen_t size = sizeof peer;
  getpeername(fd, (struct sockaddr *)&peer, &size);
  printf("it is %x\n", ntohl(peer.sin_addr.s_addr));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  tell("connect short", connect(fd, (struct sockaddr *)&server, 8));
  tell("connect very short", connect(fd, (struct sockaddr *)&server, 1));
  tell("connect long", connect(fd, (struct sockaddr *)&server, 4096));
  tell("connect negative", syscall(SYS_connect, fd, &server, -1));
  tell("connect null", syscall(SYS_connect, fd, 0, 16));
  tell("connect bad pointer", syscall(SYS_connect, fd, 8, 16));
  struct sockaddr_in wrong = server;
  wrong.sin_family = AF_INET6;
  tell("connect wrong family", connect(fd, ADDRESS(wrong)));
  tell("bind in use", bind(fd, ADDRESS(server)));
  struct sockaddr_in foreign = at(0x7f000001, 0);
  tell("bind", bind(fd, ADDRESS(foreign)));
  tell("bind again", bind(fd, ADDRESS(foreign)));
  tell("bind short", bind(fd, (struct sockaddr *)&server, 8));
  tell("listen", listen(fd, 1));
  tell("listen again", listen(fd, 5));
  close(fd);
  tell("connect closed", connect(fd, ADDRESS(server)));
  tell("connect a pipe's number", connect(9999, ADDRESS(server)));
  tell("connect a file", connect(open("/dev/null", O_RDONLY), ADDRESS(server)));
  tell("connect a path", connect(open("/dev/null", O_PATH), ADDRESS(server)));
  tell("listen a file", listen(open("/dev/null", O_RDONLY), 1));
  fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const long result = connect(fd, ADDRESS(server));
  printf("non-blocking: %s\n", result == 0 || errno == EINPROGRESS ? "as natively" : strerror(errno));
  struct pollfd wait = {fd, POLLOUT, 0};
  poll(&wait, 1, 1000);
  int error = -1;
  size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  printf("then %d\n", error);
  tell("then connect", connect(fd, ADDRESS(server)));
  close(fd);
  close(listening);
}

static void waiting(void) {
  struct sockaddr_in server;
  const int listening = full_listener(&server);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  tell("non-blocking to a full queue", connect(fd, ADDRESS(server)));
  tell("meanwhile", connect(fd, ADDRESS(server)));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  alarm_in(100, 0);
  tell("interrupted connect", connect(fd, ADDRESS(server)));
  printf("signals %d\n", (int)signals);
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  struct timeval timeout = {.tv_usec = 200000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  tell("connect with a time limit", connect(fd, ADDRESS(server)));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  alarm_in(50, 0);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  tell("interrupted with a time limit", connect(fd, ADDRESS(server)));
  close(fd);
  close(listening);
}

static void *accept_later(void *server) {
  usleep(300000);
  for (int i = 0; i < 3; ++i) accept(*(int *)server, NULL, NULL);
  return NULL;
}

static void restarted(void) {
  struct sockaddr_un where = named("full");
  int server = socket(AF_UNIX, SOCK_STREAM, 0), client[3];
  bind(server, ADDRESS(where));
  listen(server, 0);
  signals = 0;
  client[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  tell("unix", connect(client[0], ADDRESS(where)));
  client[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  tell("unix full", connect(client[1], ADDRESS(where)));
  client[2] = socket(AF_UNIX, SOCK_STREAM, 0);
  alarm_in(50, 0);
  tell("unix interrupted", connect(client[2], ADDRESS(where)));
  pthread_t thread;
  pthread_create(&thread, NULL, accept_later, &server);
  alarm_in(100, SA_RESTART);
  tell("unix restarted", connect(client[2], ADDRESS(where)));
  printf("signals %d\n", (int)signals);
}

static void udp(void) {
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0), v6 = socket(AF_INET6, SOCK_DGRAM, 0);
  struct sockaddr_in to = at(INADDR_LOOPBACK, 0), nowhere = at(INADDR_LOOPBACK, 0);
  socklen_t size = sizeof to;
  tell("udp bind", bind(a, ADDRESS(to)));
  getsockname(a, (struct sockaddr *)&to, &size);
  tell("udp sendto", sendto(b, "1", 1, 0, ADDRESS(to)));
  tell("udp send without address", sendto(b, "1", 1, 0, NULL, 0));
  tell("udp sendto nowhere", sendto(b, "1", 1, 0, ADDRESS(nowhere)));
  tell("udp sendto short", sendto(b, "1", 1, 0, (struct sockaddr *)&to, 4));
  static char much[70000];
  tell("udp much", sendto(b, much, sizeof much, 0, ADDRESS(to)));
  tell("udp bad data", sendto(b, (void *)8, 5, 0, ADDRESS(to)));
  struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = to.sin_port};
  memcpy(&mapped.sin6_addr.s6_addr[12], &to.sin_addr, 4);
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  tell("udp mapped", sendto(v6, "2", 1, 0, ADDRESS(mapped)));
  struct iovec parts[2] = {{"3", 1}, {"45", 2}};
  struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = 2};
  printf("sendmsg %zd\n", sendmsg(b, &message, 0));
  message.msg_iovlen = 2000;
  tell("sendmsg many parts", sendmsg(b, &message, 0));
  tell("sendmsg bad header", syscall(SYS_sendmsg, b, 8, 0));
  struct mmsghdr many[3] = {{.msg_hdr = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = 1}},
                            {.msg_hdr = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = 2}},
                            {.msg_hdr = {.msg_name = &to, .msg_namelen = 3, .msg_iov = parts, .msg_iovlen = 1}}};
  printf("sendmmsg %d", sendmmsg(b, many, 3, 0));
  printf(" %u %u\n", many[0].msg_len, many[1].msg_len);
  tell("sendmmsg bad first", sendmmsg(b, many + 2, 1, 0));
  printf("sendmmsg none %d\n", sendmmsg(b, many, 0, 0));
  tell("udp connect", connect(b, ADDRESS(to)));
  message.msg_name = NULL;
  message.msg_iovlen = 1;
  tell("sendmsg connected", sendmsg(b, &message, 0));
  tell("udp autobind", bind(socket(AF_INET, SOCK_DGRAM, 0), ADDRESS(nowhere)));
  char text[16];
  ssize_t got;
  while ((got = recv(a, text, sizeof text, MSG_DONTWAIT)) >= 0) printf("got %.*s\n", (int)got, text);
  if (fork() == 0) _exit(send(b, "f", 1, 0) == 1 && connect(b, ADDRESS(to)) == 0 ? 0 : 1);
  int status = -1;
  wait(&status);
  printf("forked %d\n", status);
}

static void unix_sockets(void) {
  struct sockaddr_un where = named("socket"), gone = named("absent/socket"), file = named("file");
  int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
  close(open("file", O_CREAT | O_RDWR, 0600));
  tell("unix bind", bind(server, ADDRESS(where)));
  tell("unix bind again", bind(server, ADDRESS(where)));
  tell("unix bind in use", bind(client, ADDRESS(where)));
  tell("unix bind absent", bind(client, ADDRESS(gone)));
  tell("unix connect before listen", connect(client, ADDRESS(where)));
  tell("unix listen", listen(server, 5));
  tell("unix connect a file", connect(client, ADDRESS(file)));
  tell("unix connect absent", connect(client, ADDRESS(gone)));
  tell("unix wrong type", connect(socket(AF_UNIX, SOCK_DGRAM, 0), ADDRESS(where)));
  tell("unix sendto unconnected", sendto(client, "x", 1, 0, ADDRESS(where)));
  tell("unix connect", connect(client, ADDRESS(where)));
  tell("unix sendto connected", sendto(client, "x", 1, 0, ADDRESS(where)));
  tell("unix connect again", connect(client, ADDRESS(where)));
  struct sockaddr_un name;
  socklen_t size = sizeof name;
  memset(&name, 0, sizeof name);
  getpeername(client, (struct sockaddr *)&name, &size);
  printf("peer %s\n", name.sun_path);
  size = sizeof name;
  const int accepted = accept(server, NULL, NULL);
  int pipes[2];
  if (pipe(pipes) != 0) exit(3);
  struct iovec data = {"fd", 2};
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(2 * sizeof(int))];
  } control = {.header = {.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), pipes, sizeof pipes);
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  tell("pass descriptors", sendmsg(client, &message, 0));
  char text[8];
  struct iovec into = {text, sizeof text};
  memset(&control, 0, sizeof control);
  struct msghdr received = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  printf("received %zd\n", recvmsg(accepted, &received, 0));
  int passed[2] = {-1, -1};
  memcpy(passed, CMSG_DATA(&control.header), sizeof passed);
  write(pipes[1], "through", 7);
  printf("read %zd\n", read(passed[0], text, sizeof text));
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(&control.header), &(int){9999}, sizeof(int));
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  tell("pass a closed one", sendmsg(client, &message, 0));
  message.msg_controllen = 0;
  message.msg_flags = 0;
  close(accepted);
  signal(SIGPIPE, count);
  signals = 0;
  recv(client, text, sizeof text, MSG_DONTWAIT);
  tell("broken", sendmsg(client, &message, 0));
  printf("signals %d\n", (int)signals);
  tell("broken without a signal", sendmsg(client, &message, MSG_NOSIGNAL));
  printf("signals %d\n", (int)signals);

  int datagram = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un box = named("box");
  tell("datagram bind", bind(datagram, ADDRESS(box)));
  tell("datagram sendto", sendto(sender, "d", 1, 0, ADDRESS(box)));
  tell("datagram connect", connect(sender, ADDRESS(box)));
  tell("datagram sendmsg", sendmsg(sender, &message, 0));
  long sent = 0;
  while (sendto(sender, "d", 1, MSG_DONTWAIT, ADDRESS(box)) == 1) ++sent;
  tell("datagram full", sendto(sender, "d", 1, MSG_DONTWAIT, ADDRESS(box)));
  memset(&name, 0, sizeof name);
  size = sizeof name;
  getsockname(datagram, (struct sockaddr *)&name, &size);
  printf("name %s\n", name.sun_path);
  int automatic = socket(AF_UNIX, SOCK_STREAM, 0);
  tell("autobind", bind(automatic, (struct sockaddr *)&box, sizeof(sa_family_t)));
  size = sizeof name;
  getsockname(automatic, (struct sockaddr *)&name, &size);
  printf("of %d bytes\n", (int)(size - offsetof(struct sockaddr_un, sun_path)));
  tell("autobind listen", listen(automatic, 1));
  tell("autobind connect", connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, size));
  name.sun_path[1] = '!';
  tell("abstract absent", connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, size));
}

static void *read_slowly(void *fd) {
  char text[65536];
  long total = 0;
  for (ssize_t got; (got = read(*(int *)fd, text, sizeof text)) > 0; usleep(1000)) total += got;
  return (void *)total;
}

static void streams(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(3);
  static char much[900000];
  struct iovec data = {much, sizeof much};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  pthread_t thread;
  pthread_create(&thread, NULL, read_slowly, &pair[1]);
  printf("blocking %zd\n", sendmsg(pair[0], &message, 0));
  shutdown(pair[0], SHUT_WR);
  void *total;
  pthread_join(thread, &total);
  printf("arrived %ld\n", (long)total);
  tell("after shutdown", sendmsg(pair[0], &message, MSG_NOSIGNAL));
  const ssize_t some = sendmsg(pair[1], &message, MSG_DONTWAIT);
  printf("part %d\n", some > 0 && some < (ssize_t)sizeof much);
  tell("full", sendmsg(pair[1], &message, MSG_DONTWAIT));
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  tcp();
  waiting();
  restarted();
  udp();
  unix_sockets();
  streams();
  return 0;
}
