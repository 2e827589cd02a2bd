// path_race DIR ROUNDS: one thread flips a path in memory, a symbolic link and a directory between DIR/open and DIR/closed as
// fast as it can, the other opens what they name and reads. Prints how often the text of DIR/closed/file came back.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64] = "open/file";
static atomic_int stop;

static void *flip(void *unused) {
  for (unsigned n = 0; !atomic_load(&stop); ++n) {
    memcpy(path, n % 2 ? "open/file\0\0" : "closed/file", 12);
    symlink(n % 2 ? "open" : "closed", "new");
    rename("new", "link");
    renameat2(AT_FDCWD, "swap", AT_FDCWD, "open", RENAME_EXCHANGE);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3 || chdir(argv[1]) != 0) return 3;
  long rounds = strtol(argv[2], NULL, 10), opened = 0, escaped = 0;
  pthread_t thread;
  if (symlink("open", "link") != 0 || pthread_create(&thread, NULL, flip, NULL) != 0) return 3;
  for (long i = 0; i < rounds; ++i) {
    const int fd = open(i % 2 ? path : "link/file", O_RDONLY);
    if (fd < 0) continue;
    char text[8] = {0};
    if (read(fd, text, 6) == 6 && memcmp(text, "secret", 6) == 0) ++escaped;
    ++opened;
    close(fd);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%s %ld\n", opened > 0 ? "opened" : "never", escaped);
  return escaped != 0;
}
