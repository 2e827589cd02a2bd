// Closes descriptors from 10 up as process starters do: close_range(2), on ENOSYS one by one. Any other error ends it
// with status 1, as it does in those programs (containers/podman#10130).
#include <fcntl.h>

#include "victim.h"

int main(void) {
  if (dup2(1, 10) != 10) return 1;
  if (syscall(SYS_close_range, 10u, ~0u, 0u) == 0) {
    puts("way: direct");
  } else if (errno == ENOSYS) {
    puts("way: one by one");
    for (int fd = 10; fd < 64; ++fd) close(fd);
  } else {
    tell("close_range", -1);
    return 1;
  }
  printf("file 10: %s\n", fcntl(10, F_GETFD) == -1 && errno == EBADF ? "closed" : "open");
  return 0;
}
