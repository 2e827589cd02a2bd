// network_race ALLOWED DENIED ROUNDS: one thread flips the port of a socket address, and the descriptor's number between two
// sockets, as fast as it can; the other connects UDP sockets, sends by sendto, sendmsg and sendmmsg to 127.0.0.1. Prints how
// often a socket ended up connected to DENIED; whoever listens there counts the packets.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in target;
static in_port_t ports[2];
static atomic_int stop;

static void *flip(void *unused) {
  (void)unused;
  for (unsigned n = 0; !atomic_load(&stop); ++n) *(volatile in_port_t *)&target.sin_port = ports[n % 2];
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4) return 3;
  ports[0] = htons((in_port_t)atoi(argv[1]));
  ports[1] = htons((in_port_t)atoi(argv[2]));
  const long rounds = strtol(argv[3], NULL, 10);
  target.sin_family = AF_INET;
  target.sin_port = ports[0];
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  pthread_t thread;
  if (fd < 0 || pthread_create(&thread, NULL, flip, NULL) != 0) return 3;
  long reached = 0, escaped = 0;
  for (long i = 0; i < rounds; ++i) {
    struct iovec data = {"x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_name = &target, .msg_namelen = sizeof target, .msg_iov = &data, .msg_iovlen = 1}};
    switch (i % 4) {
      case 0:
        if (connect(fd, (struct sockaddr *)&target, sizeof target) == 0) {
          struct sockaddr_in peer;
          socklen_t size = sizeof peer;
          ++reached;
          if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_port == ports[1]) ++escaped;
        }
        break;
      case 1: reached += sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&target, sizeof target) == 1; break;
      case 2: reached += sendmsg(fd, &message.msg_hdr, MSG_DONTWAIT) == 1; break;
      case 3: reached += sendmmsg(fd, &message, 1, MSG_DONTWAIT) == 1; break;
    }
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%s %ld\n", reached > 0 ? "reached" : "never", escaped);
  return escaped != 0;
}
