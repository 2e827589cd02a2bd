// Installs filters from inside: one with a listener (which would steal or hide calls from ours), one plain through
// seccomp(2) and one through prctl(2).
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "victim.h"

int main(void) {
  struct sock_filter allow_all = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
  struct sock_fprog program = {.len = 1, .filter = &allow_all};
  tell("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  tell("listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  tell("listener high bits",
       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER | 0x100000000ul, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  tell("listener and log", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_LOG, &program));
  tell("plain filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  tell("prctl filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
  puts("end");
  return 0;
}
