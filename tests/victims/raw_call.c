// One system call as given: raw_call NAME|NUMBER [ARGUMENT]…. An argument that begins with a digit or "-" is a number
// (0x… too, up to 64 bits), any other text is passed as a pointer to it. Prints "NAME: ok" or "NAME: EPERM".
#include <ctype.h>

#include "victim.h"

static const struct {
  const char* name;
  long number;
} kCalls[] = {{"fchmodat", SYS_fchmodat}, {"fchmod", SYS_fchmod},     {"openat", SYS_openat}, {"unshare", SYS_unshare},
              {"mkdirat", SYS_mkdirat},   {"unlinkat", SYS_unlinkat}, {"getpid", SYS_getpid}};

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  long number = -1;
  for (size_t i = 0; i < sizeof kCalls / sizeof kCalls[0]; ++i) {
    if (strcmp(argv[1], kCalls[i].name) == 0) number = kCalls[i].number;
  }
  if (isdigit((unsigned char)argv[1][0])) number = strtol(argv[1], NULL, 0);
  if (number < 0) return 1;
  unsigned long arguments[6] = {0};
  for (int i = 0; i < 6 && i + 2 < argc; ++i) {
    const char* text = argv[i + 2];
    if (text[0] == '-') arguments[i] = (unsigned long)strtol(text, NULL, 0);
    else if (isdigit((unsigned char)text[0])) arguments[i] = strtoul(text, NULL, 0);
    else arguments[i] = (uintptr_t)text;
  }
  tell(argv[1], syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]));
  return 0;
}
