// One getpriority(PRIO_PROCESS, 0): "getpriority: ENOSYS", or "getpriority: returned 20" (the raw call gives 20 -
// nice).
#include "victim.h"

int main(void) {
  const long result = syscall(SYS_getpriority, 0, 0);
  if (result >= 0) {
    printf("getpriority: returned %ld\n", result);
  } else {
    tell("getpriority", result);
  }
  return 0;
}
