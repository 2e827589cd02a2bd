// socket_calls DIR: calls that name addresses, with every outcome that can be had on loopback, in a fixed order. Prints
// one line each (result or error); run under rules that allow everything the output must be the native one.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int number;
static void show(const char *what, long result) {
  const int error = errno;
  if (result < 0) printf("%d %s: %s\n", ++number, what, strerrorname_np(error));
  else printf("%d %s: %ld\n", ++number, what, result);
  fflush(stdout);
}
#define CALL(expression) (errno = 0, show(#expression, (long)(expression)))

static struct sockaddr_in in4(const char *text, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}
static int port_of(int fd) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  getsockname(fd, (struct sockaddr *)&address, &size);
  return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port : ((struct sockaddr_in *)&address)->sin_port);
}
#define A(address) ((struct sockaddr *)&(address)), sizeof(address)

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) {
  (void)signal;
  ++alarms;
}
static void alarm_in(int milliseconds, int flags) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {.it_value = {.tv_usec = milliseconds * 1000}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void tcp(void) {
  int server = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in lo = in4("127.0.0.1", 0);
  CALL(bind(server, A(lo)));
  CALL(bind(server, A(lo)));
  CALL(listen(server, 16));
  struct sockaddr_in at = in4("127.0.0.1", port_of(server));
  int second = socket(AF_INET, SOCK_STREAM, 0);
  CALL(bind(second, A(at)));
  int client = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(client, A(at)));
  CALL(connect(client, A(at)));
  CALL(listen(client, 1));
  int peer = accept(server, NULL, NULL);
  CALL(send(client, "hello", 5, 0));
  CALL(sendto(client, "hello", 5, 0, A(lo)));
  char text[64];
  CALL(recv(peer, text, sizeof text, MSG_WAITALL | MSG_DONTWAIT));
  struct sockaddr nothing = {.sa_family = AF_UNSPEC};
  CALL(connect(client, A(nothing)));
  CALL(connect(client, A(at)));
  struct sockaddr_in closed = in4("127.0.0.1", 1);
  int third = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(third, A(closed)));
  struct sockaddr_in any = in4("0.0.0.0", port_of(server));
  int fourth = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(fourth, A(any)));
  int waiting = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CALL(connect(waiting, A(at)) < 0 && errno == EINPROGRESS ? 0 : 0);
  struct pollfd entry = {waiting, POLLOUT, 0};
  CALL(poll(&entry, 1, 1000));
  int short_one = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(short_one, (struct sockaddr *)&at, 3));
  CALL(connect(short_one, (struct sockaddr *)&at, 1));
  CALL(connect(waiting, (struct sockaddr *)&at, 0));
  CALL(connect(waiting, (struct sockaddr *)8, sizeof at));
  CALL(connect(waiting, (struct sockaddr *)&at, 1000));
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  int fifth = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(fifth, A(six)));
  CALL(bind(fifth, A(six)));
  CALL(connect(999, A(at)));
  CALL(connect(0, A(at)) < 0 ? errno == ENOTSOCK : 2);
  CALL(bind(999, A(at)));
  CALL(listen(999, 1));
  CALL(sendto(999, "x", 1, 0, A(at)));
  struct sockaddr_in far = in4("192.0.2.1", 0);
  int sixth = socket(AF_INET, SOCK_STREAM, 0);
  CALL(bind(sixth, A(far)));
  struct sockaddr_in low = in4("127.0.0.1", 80);
  if (geteuid() != 0) CALL(bind(sixth, A(low)));
  int unbound = socket(AF_INET, SOCK_STREAM, 0);
  CALL(listen(unbound, 1));
  int mapped = socket(AF_INET6, SOCK_STREAM, 0);
  struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = at.sin_port};
  inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr);
  CALL(connect(mapped, A(to)));
}

static void slow(void) {
  // A full queue: connections wait.
  int server = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in lo = in4("127.0.0.1", 0);
  bind(server, A(lo));
  CALL(listen(server, 0));
  struct sockaddr_in at = in4("127.0.0.1", port_of(server));
  int first = socket(AF_INET, SOCK_STREAM, 0);
  CALL(connect(first, A(at)));
  int fill = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CALL(connect(fill, A(at)));
  int late = socket(AF_INET, SOCK_STREAM, 0);
  struct timeval limit = {.tv_usec = 200000};
  setsockopt(late, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  CALL(connect(late, A(at)));
  int caught = socket(AF_INET, SOCK_STREAM, 0);
  alarm_in(100, 0);
  CALL(connect(caught, A(at)));
  CALL(alarms);
  // With SA_RESTART it goes on waiting until somebody accepts.
  int restarted = socket(AF_INET, SOCK_STREAM, 0);
  alarm_in(100, SA_RESTART);
  if (fork() == 0) {
    usleep(400000);
    for (int i = 0; i < 6; ++i) {
      struct pollfd entry = {server, POLLIN, 0};
      if (poll(&entry, 1, 1500) == 1) accept(server, NULL, NULL);
    }
    _exit(0);
  }
  CALL(connect(restarted, A(at)));
  CALL(alarms);
  while (wait(NULL) > 0) {
  }
}

static void udp(void) {
  int server = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in lo = in4("127.0.0.1", 0);
  CALL(bind(server, A(lo)));
  struct sockaddr_in at = in4("127.0.0.1", port_of(server));
  int client = socket(AF_INET, SOCK_DGRAM, 0);
  CALL(sendto(client, "one", 3, 0, A(at)));
  char text[64];
  struct sockaddr_in from;
  socklen_t size = sizeof from;
  CALL(recvfrom(server, text, sizeof text, 0, (struct sockaddr *)&from, &size));
  CALL(sendto(server, "two", 3, 0, A(from)));
  CALL(recv(client, text, sizeof text, 0));
  CALL(sendto(client, "x", 1, 0, (struct sockaddr *)&at, 2));
  CALL(sendto(client, "x", 1, 0, (struct sockaddr *)8, sizeof at));
  CALL(sendto(client, (void *)8, 5, 0, A(at)));
  CALL(send(client, "x", 1, 0));
  static char big[70000];
  CALL(sendto(client, big, sizeof big, 0, A(at)));
  struct iovec parts[3] = {{"a", 1}, {"bc", 2}, {NULL, 0}};
  struct msghdr message = {.msg_name = &at, .msg_namelen = sizeof at, .msg_iov = parts, .msg_iovlen = 3};
  CALL(sendmsg(client, &message, 0));
  CALL(recv(server, text, sizeof text, 0));
  struct mmsghdr several[3];
  for (int i = 0; i < 3; ++i) several[i] = (struct mmsghdr){.msg_hdr = message};
  CALL(sendmmsg(client, several, 3, 0));
  CALL(several[2].msg_len);
  for (int i = 0; i < 3; ++i) CALL(recv(server, text, sizeof text, 0));
  message.msg_iovlen = 5000;
  CALL(sendmsg(client, &message, 0));
  CALL(sendmsg(client, (struct msghdr *)8, 0));
  CALL(sendmmsg(client, (struct mmsghdr *)8, 1, 0));
  CALL(sendmmsg(client, several, 0, 0));
  CALL(connect(client, A(at)));
  CALL(send(client, "y", 1, 0));
  CALL(listen(client, 1));
  struct sockaddr nothing = {.sa_family = AF_UNSPEC};
  CALL(connect(client, A(nothing)));
  CALL(send(client, "y", 1, 0));
}

static void local(const char *directory) {
  if (chdir(directory) != 0) exit(3);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strcpy(name.sun_path, "stream");
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  umask(027);
  CALL(bind(server, A(name)));
  struct stat status;
  CALL(stat("stream", &status));
  CALL(status.st_mode & 07777);
  CALL(bind(server, A(name)));
  int other = socket(AF_UNIX, SOCK_STREAM, 0);
  CALL(bind(other, A(name)));
  int client = socket(AF_UNIX, SOCK_STREAM, 0);
  CALL(connect(client, A(name)));
  CALL(listen(server, 1));
  CALL(connect(client, A(name)));
  CALL(connect(client, A(name)));
  int peer = accept(server, NULL, NULL);
  struct sockaddr_un missing = {.sun_family = AF_UNIX, .sun_path = "missing"};
  CALL(connect(other, A(missing)));
  close(open("plain", O_CREAT | O_WRONLY, 0666));
  struct sockaddr_un plain = {.sun_family = AF_UNIX, .sun_path = "plain"};
  CALL(connect(other, A(plain)));
  CALL(bind(other, A(plain)));
  struct sockaddr_un deep = {.sun_family = AF_UNIX, .sun_path = "no/such/place"};
  CALL(bind(other, A(deep)));
  CALL(connect(other, (struct sockaddr *)&name, 2));
  CALL(connect(other, (struct sockaddr *)&name, 1));
  symlink("stream", "link");
  struct sockaddr_un link = {.sun_family = AF_UNIX, .sun_path = "link"};
  CALL(connect(other, A(link)));
  // Descriptors travel.
  int ends[2];
  pipe(ends);
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {"m", 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
  CALL(sendmsg(client, &message, 0));
  char text[64];
  part = (struct iovec){text, sizeof text};
  CALL(recvmsg(peer, &message, 0));
  int passed = -1;
  memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  CALL(write(passed, "through", 7));
  CALL(read(ends[0], text, sizeof text));
  int bad = 777;
  memcpy(CMSG_DATA(header), &bad, sizeof(int));
  CALL(sendmsg(client, &message, 0));
  header->cmsg_len = 1;
  CALL(sendmsg(client, &message, 0));
  // A whole megabyte through a blocking socket, read by a child.
  static char big[1 << 20];
  if (fork() == 0) {
    long all = 0;
    for (long n; all < (long)sizeof big && (n = read(peer, big, 65536)) > 0;) all += n;
    _exit(all == (long)sizeof big ? 0 : 1);
  }
  part = (struct iovec){big, sizeof big};
  struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};
  long sent = 0;
  while (sent < (long)sizeof big) {
    part = (struct iovec){big + sent, sizeof big - (size_t)sent};
    const long n = sendmsg(client, &whole, 0);
    if (n <= 0) break;
    sent += n;
  }
  CALL(sent);
  int end;
  wait(&end);
  CALL(end);
  close(peer);
  signal(SIGPIPE, SIG_IGN);
  CALL(sendmsg(client, &whole, 0));
  signal(SIGPIPE, SIG_DFL);
  if (fork() == 0) {
    sendmsg(client, &whole, 0);
    _exit(0);
  }
  wait(&end);
  CALL(WIFSIGNALED(end) ? WTERMSIG(end) : 0);
  // Abstract names, and one that the kernel chooses.
  struct sockaddr_un abstract = {.sun_family = AF_UNIX};
  const int length = snprintf(abstract.sun_path + 1, 50, "socket-calls-%d", getpid()) + 1 + (int)offsetof(struct sockaddr_un, sun_path);
  int hidden = socket(AF_UNIX, SOCK_DGRAM, 0);
  CALL(bind(hidden, (struct sockaddr *)&abstract, (socklen_t)length));
  int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
  CALL(sendto(sender, "z", 1, 0, (struct sockaddr *)&abstract, (socklen_t)length));
  CALL(recv(hidden, text, sizeof text, 0));
  CALL(bind(sender, (struct sockaddr *)&abstract, sizeof(sa_family_t)));
  socklen_t size = sizeof name;
  CALL(getsockname(sender, (struct sockaddr *)&name, &size));
  CALL(size);
  CALL(sendto(hidden, "w", 1, 0, (struct sockaddr *)&name, size));
  CALL(recv(sender, text, sizeof text, 0));
  for (const char *const *gone = (const char *const[]){"stream", "plain", "link", NULL}; *gone; ++gone) unlink(*gone);
}

static void netlink(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  struct sockaddr_nl own = {.nl_family = AF_NETLINK};
  CALL(bind(fd, A(own)));
  struct {
    struct nlmsghdr header;
    struct rtgenmsg body;
  } request = {{sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  CALL(sendto(fd, &request, sizeof request, 0, A(kernel)));
  char answer[8192];
  CALL(recv(fd, answer, sizeof answer, 0) > 0);
}

int main(int argc, char **argv) {
  if (argc != 2) return 3;
  tcp();
  slow();
  udp();
  local(argv[1]);
  netlink();
  return 0;
}
