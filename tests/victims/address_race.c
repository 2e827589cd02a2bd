// address_race PORT ROUNDS: one thread flips a port in memory between a server of its own and PORT, and a descriptor number
// between two sockets, as fast as it can; the other connects and sends to what they name. The listener at PORT counts.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sockaddr_in target = {.sin_family = AF_INET};
static struct msghdr message;
static struct sockaddr_in other;
static in_port_t own_port, outside_port;
static int slot, datagram, stream;
static atomic_int stop;

static void *flip(void *unused) {
  (void)unused;
  for (unsigned n = 0; !atomic_load(&stop); ++n) {
    *(volatile in_port_t *)&target.sin_port = n % 2 ? own_port : outside_port;
    *(struct sockaddr_in *volatile *)&message.msg_name = n % 3 ? &target : &other;
    if (n % 64 == 0) dup2(n % 128 ? datagram : stream, slot);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 3;
  outside_port = htons((uint16_t)atoi(argv[1]));
  const long rounds = strtol(argv[2], NULL, 10);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  other = target;
  other.sin_port = outside_port;
  datagram = socket(AF_INET, SOCK_DGRAM, 0);
  stream = socket(AF_INET, SOCK_STREAM, 0);
  slot = dup(datagram);
  const int server = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in own = target;
  own.sin_port = 0;
  if (bind(server, (struct sockaddr *)&own, sizeof own) != 0) return 3;
  socklen_t size = sizeof own;
  getsockname(server, (struct sockaddr *)&own, &size);
  own_port = own.sin_port;
  target.sin_port = own_port;
  struct iovec part = {"x", 1};
  message = (struct msghdr){.msg_name = &target, .msg_namelen = sizeof target, .msg_iov = &part, .msg_iovlen = 1};
  pthread_t thread;
  if (pthread_create(&thread, NULL, flip, NULL) != 0) return 3;
  long passed = 0;
  for (long i = 0; i < rounds; ++i) {
    struct mmsghdr several = {.msg_hdr = message};
    switch (i % 4) {
      case 0: passed += sendto(slot, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&target, sizeof target) == 1; break;
      case 1: passed += sendmsg(slot, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1; break;
      case 2: passed += sendmmsg(slot, &several, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1; break;
      default:
        if (connect(datagram, (struct sockaddr *)&target, sizeof target) == 0) passed += send(datagram, "x", 1, MSG_DONTWAIT) == 1;
        connect(datagram, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
    }
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%s\n", passed > 0 ? "some passed" : "none passed");
  return 0;
}
