// Prints no_new_privs and whether real, effective and saved user ids are one.
#include <sys/prctl.h>

#include "victim.h"

int main(void) {
  uid_t real, effective, saved;
  if (getresuid(&real, &effective, &saved) != 0) return 1;
  printf("no_new_privs: %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  printf("ids: %s\n", real == effective && effective == saved ? "equal" : "different");
  printf("effective: %s\n", effective == 0 ? "root" : "user");
  return 0;
}
