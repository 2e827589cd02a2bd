#pragma once
// What the victims share: raw calls (so that nothing but the named call is made) and one way to print a result.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kSkipped = 77 };

// "openat: ok" for any result >= 0, else "openat: EPERM". Values are not printed: they differ from run to run.
static inline long tell(const char* what, long result) {
  const int error = errno;
  if (result >= 0) {
    printf("%s: ok\n", what);
  } else {
    const char* name = strerrorname_np(error);
    printf("%s: %s\n", what, name ? name : "unnamed errno");
  }
  fflush(stdout);
  return result;
}

static inline long count_argument(int argc, char** argv, int index, long otherwise) {
  return argc > index ? strtol(argv[index], NULL, 10) : otherwise;
}
