// One call for each thing that the guard layer closes (H6), with arguments that the kernel itself refuses with another
// errno or that do no harm: guarded [PART]. Prints one line per call.
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "victim.h"

// Numbers since Linux 5.0 are the same on every architecture; Debian's headers lack the newest.
enum { kOpenTree = 428, kMoveMount, kFsopen, kFsconfig, kFsmount, kFspick, kClone3 = 435, kMountSetattr = 442, kOpenTreeAttr = 467 };

static const char* wanted;
static int part(const char* name) { return !wanted || strcmp(wanted, name) == 0; }

static void tell_clone(const char* what, unsigned long flags) {
  const long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  tell(what, child);
  if (child > 0) waitpid((pid_t)child, NULL, 0);
}

// In a child, since an unshare that succeeds changes its caller.
static void tell_unshare(const char* what, unsigned long flags) {
  const pid_t child = fork();
  if (child == 0) {
    tell(what, syscall(SYS_unshare, flags));
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void namespaces(void) {
  static const struct {
    const char* name;
    unsigned long flag;
  } kinds[] = {{"NEWNS", CLONE_NEWNS},     {"NEWCGROUP", CLONE_NEWCGROUP}, {"NEWUTS", CLONE_NEWUTS}, {"NEWIPC", CLONE_NEWIPC},
               {"NEWUSER", CLONE_NEWUSER}, {"NEWPID", CLONE_NEWPID},       {"NEWNET", CLONE_NEWNET}};
  char what[64];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    snprintf(what, sizeof what, "clone %s", kinds[i].name);
    tell_clone(what, kinds[i].flag);
    snprintf(what, sizeof what, "unshare %s", kinds[i].name);
    tell_unshare(what, kinds[i].flag);
  }
  tell_unshare("unshare NEWTIME", 0x80);
  // Bits that are not flags must not hide one that is.
  tell_unshare("unshare NEWUSER high bits", CLONE_NEWUSER | 0xffffffff00000000);
  tell("setns", syscall(SYS_setns, -1, 0));
  struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  const long child = syscall(kClone3, &arguments, sizeof arguments);
  if (child == 0) _exit(0);
  tell("clone3", child);
}

static void mounts(void) {
  // A type that does not exist, and bad flags, descriptors and commands: nothing is mounted even where it would be allowed.
  tell("mount", syscall(SYS_mount, "none", "/", "no-such-type", 0, NULL));
  tell("umount2", syscall(SYS_umount2, "/nonexistent", 0x10000));
  tell("pivot_root", syscall(SYS_pivot_root, "/nonexistent", "/nonexistent"));
  tell("open_tree", syscall(kOpenTree, -1, "/", 0xffff0000));
  tell("move_mount", syscall(kMoveMount, -1, "", -1, "", 0xffff0000));
  tell("fsopen", syscall(kFsopen, "no-such-type", 0));
  tell("fsconfig", syscall(kFsconfig, -1, 99, NULL, NULL, 0));
  tell("fsmount", syscall(kFsmount, -1, 0, 0));
  tell("fspick", syscall(kFspick, -1, "/", 0xffff0000));
  tell("mount_setattr", syscall(kMountSetattr, -1, "/", 0xffff0000, NULL, 0));
  tell("open_tree_attr", syscall(kOpenTreeAttr, -1, "/", 0xffff0000, NULL, 0));
}

static void ioctls(void) {
  const char byte = '#';
  tell("TIOCSTI", syscall(SYS_ioctl, 0, 0x5412, &byte));
  tell("TIOCSTI high bits", syscall(SYS_ioctl, 0, 0x100005412, &byte));
  tell("TIOCLINUX", syscall(SYS_ioctl, 0, 0x541c, &byte));
  tell("TIOCLINUX high bits", syscall(SYS_ioctl, 0, 0xdeadbeef0000541c, &byte));
  tell("TIOCCONS", syscall(SYS_ioctl, 0, 0x541d, NULL));
}

int main(int argc, char** argv) {
  wanted = argc > 1 ? argv[1] : NULL;
  if (part("io_uring")) {
    tell("io_uring_setup", syscall(425, 0, NULL));
    tell("io_uring_enter", syscall(426, -1, 0, 0, 0, NULL, 0));
    tell("io_uring_register", syscall(427, -1, 0, NULL, 0));
  }
  if (part("namespaces")) namespaces();
  if (part("mount")) mounts();
  if (part("open-by-handle")) tell("open_by_handle_at", syscall(SYS_open_by_handle_at, -1, NULL, 0));
  if (part("bpf")) tell("bpf", syscall(SYS_bpf, -1, NULL, 0));
  if (part("perf")) tell("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
  if (part("userfaultfd")) tell("userfaultfd", syscall(SYS_userfaultfd, 0xffff0000));
  if (part("kernel-modules")) {
    tell("init_module", syscall(SYS_init_module, NULL, 0, NULL));
    tell("finit_module", syscall(SYS_finit_module, -1, NULL, 0));
    tell("delete_module", syscall(SYS_delete_module, NULL, O_NONBLOCK));
    tell("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0xffff0000));
#ifdef SYS_kexec_file_load
    tell("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0xffff0000));
#endif
  }
  if (part("keyctl")) {
    tell("keyctl", syscall(SYS_keyctl, -1));
    tell("add_key", syscall(SYS_add_key, NULL, NULL, NULL, 0, 0));
    tell("request_key", syscall(SYS_request_key, NULL, NULL, NULL, 0));
  }
  if (part("terminal-injection")) ioctls();
  return 0;
}
