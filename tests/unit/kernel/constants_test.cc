// Constants against the kernel's own headers. glibc's have their own file: the two families do not mix in one.
#include <asm/ioctls.h>
#include <doctest/doctest.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/ipc.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/net.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <linux/stat.h>
#include <linux/userfaultfd.h>
#ifdef __x86_64__
#include <asm/prctl.h>
#include <asm/ptrace-abi.h>
#endif

#include <algorithm>
#include <set>
#include <string>

#include "kernel/constants.h"
#include "kernel/syscall_table.h"

using namespace srun::kernel;

// The header's value, negative ones sign-extended.
#define SAME(name) CHECK_MESSAGE(find_constant(#name) == static_cast<uint64_t>(static_cast<int64_t>(name)), #name)

TEST_CASE("constants are sorted by name, unique, and none is empty") {
  CHECK(std::is_sorted(constants().begin(), constants().end(),
                       [](const Constant& a, const Constant& b) { return a.name < b.name; }));
  CHECK(std::adjacent_find(constants().begin(), constants().end(),
                           [](const Constant& a, const Constant& b) { return a.name == b.name; }) == constants().end());
  for (const Constant& constant : constants()) {
    CHECK(!constant.name.empty());
    CHECK(find_constant(constant.name) == constant.value);
  }
}

TEST_CASE("unknown names are not found") {
  CHECK(find_constant("") == std::nullopt);
  CHECK(find_constant("O_RDONLYY") == std::nullopt);
  CHECK(find_constant("o_rdonly") == std::nullopt);
  CHECK(find_errno("EPERMM") == std::nullopt);
  CHECK(find_errno("") == std::nullopt);
  CHECK(find_signal("SIGFOO") == std::nullopt);
}

TEST_CASE("negative constants are sign-extended to 64 bits") {
  CHECK(find_constant("AT_FDCWD") == 0xffffffffffffff9c);
  CHECK(find_constant("KEY_SPEC_SESSION_KEYRING") == static_cast<uint64_t>(-3));
}

TEST_CASE("errno names and signal names are families of their own") {
  CHECK(find_errno("EPERM") == 1);
  CHECK(find_errno("ENOSYS") == 38);
  CHECK(find_errno("EHWPOISON") == 133);
  CHECK(find_errno("EWOULDBLOCK") == 11);
  CHECK(find_errno("ENOTSUP") == 95);
  CHECK(find_errno("EPOLLIN") == std::nullopt);
  CHECK(find_errno("EFD_CLOEXEC") == std::nullopt);
  CHECK(find_errno("O_RDONLY") == std::nullopt);
  CHECK(find_errno("SIGKILL") == std::nullopt);
  CHECK(find_signal("SIGSYS") == 31);
  CHECK(find_signal("SIGKILL") == 9);
  CHECK(find_signal("SIGIOT") == 6);
  CHECK(find_signal("SIGRTMIN") == 32);
  CHECK(find_signal("SIG_BLOCK") == std::nullopt);
  CHECK(find_signal("EPERM") == std::nullopt);
  CHECK(find_constant("EPERM") == 1u);
  CHECK(find_constant("SIGSYS") == 31u);
}

TEST_CASE("every errno from 1 to 133 has a name, but the two that no kernel uses") {
  std::set<int> values;
  for (const Constant& constant : constants())
    if (const std::optional<int> value = find_errno(constant.name)) values.insert(*value);
  std::set<int> expected;
  for (int value = 1; value <= 133; ++value)
    if (value != 41 && value != 58) expected.insert(value);
  CHECK(values == expected);
}

TEST_CASE("every signal from 1 to 31 has a name") {
  std::set<int> values;
  for (const Constant& constant : constants())
    if (const std::optional<int> value = find_signal(constant.name)) values.insert(*value);
  std::set<int> expected = {32, 64};
  for (int value = 1; value <= 31; ++value) expected.insert(value);
  CHECK(values == expected);
}

TEST_CASE("open flags that differ on aarch64 are given for the architecture that asks") {
  CHECK(find_constant("O_DIRECTORY", Arch::kX86_64) == 0200000u);
  CHECK(find_constant("O_DIRECTORY", Arch::kI386) == 0200000u);
  CHECK(find_constant("O_DIRECTORY", Arch::kAArch64) == 040000u);
  CHECK(find_constant("O_NOFOLLOW", Arch::kAArch64) == 0100000u);
  CHECK(find_constant("O_DIRECT", Arch::kAArch64) == 0200000u);
  CHECK(find_constant("O_LARGEFILE", Arch::kAArch64) == 0400000u);
  CHECK(find_constant("O_TMPFILE", Arch::kAArch64) == 020040000u);
  CHECK(find_constant("O_CREAT", Arch::kAArch64) == 0100u);
  CHECK(find_constant("O_FOO", Arch::kAArch64) == std::nullopt);
}

// Many to a line: these are tables.
// clang-format off
#ifdef __x86_64__
TEST_CASE("constants equal the kernel headers: files") {
  SAME(O_RDONLY); SAME(O_WRONLY); SAME(O_RDWR); SAME(O_ACCMODE); SAME(O_CREAT); SAME(O_EXCL); SAME(O_NOCTTY);
  SAME(O_TRUNC); SAME(O_APPEND); SAME(O_NONBLOCK); SAME(O_DSYNC); SAME(O_DIRECT); SAME(O_LARGEFILE); SAME(O_DIRECTORY);
  SAME(O_NOFOLLOW); SAME(O_NOATIME); SAME(O_CLOEXEC); SAME(O_SYNC); SAME(O_PATH); SAME(O_TMPFILE);
  SAME(AT_FDCWD); SAME(AT_SYMLINK_NOFOLLOW); SAME(AT_SYMLINK_FOLLOW); SAME(AT_EACCESS); SAME(AT_REMOVEDIR);
  SAME(AT_NO_AUTOMOUNT); SAME(AT_EMPTY_PATH); SAME(AT_RECURSIVE); SAME(AT_STATX_FORCE_SYNC); SAME(AT_STATX_DONT_SYNC);
  SAME(F_DUPFD); SAME(F_GETFD); SAME(F_SETFD); SAME(F_GETFL); SAME(F_SETFL); SAME(F_GETLK); SAME(F_SETLK);
  SAME(F_SETLKW);
  SAME(F_SETOWN); SAME(F_GETOWN); SAME(F_SETSIG); SAME(F_GETSIG); SAME(F_SETOWN_EX); SAME(F_GETOWN_EX);
  SAME(F_OFD_GETLK); SAME(F_OFD_SETLK); SAME(F_OFD_SETLKW); SAME(F_SETLEASE); SAME(F_GETLEASE); SAME(F_NOTIFY);
  SAME(F_DUPFD_CLOEXEC); SAME(F_SETPIPE_SZ); SAME(F_GETPIPE_SZ); SAME(F_ADD_SEALS); SAME(F_GET_SEALS);
  SAME(FD_CLOEXEC); SAME(LOCK_SH); SAME(LOCK_EX); SAME(LOCK_UN); SAME(LOCK_NB);
  SAME(RESOLVE_NO_XDEV); SAME(RESOLVE_NO_MAGICLINKS); SAME(RESOLVE_NO_SYMLINKS); SAME(RESOLVE_BENEATH);
  SAME(RESOLVE_IN_ROOT); SAME(RESOLVE_CACHED);
  SAME(SEEK_SET); SAME(SEEK_CUR); SAME(SEEK_END); SAME(SEEK_DATA); SAME(SEEK_HOLE);
  SAME(RENAME_NOREPLACE); SAME(RENAME_EXCHANGE); SAME(RENAME_WHITEOUT);
  SAME(STATX_TYPE); SAME(STATX_BASIC_STATS); SAME(STATX_BTIME); SAME(STATX_ALL); SAME(STATX_MNT_ID);
  SAME(STATX_DIOALIGN);
  SAME(SYNC_FILE_RANGE_WAIT_BEFORE); SAME(SYNC_FILE_RANGE_WRITE); SAME(SYNC_FILE_RANGE_WAIT_AFTER);
  SAME(RWF_HIPRI); SAME(RWF_NOWAIT); SAME(RWF_APPEND);
  SAME(CLOSE_RANGE_UNSHARE); SAME(CLOSE_RANGE_CLOEXEC);
  SAME(MFD_CLOEXEC); SAME(MFD_ALLOW_SEALING); SAME(MFD_HUGETLB);
  SAME(GRND_NONBLOCK); SAME(GRND_RANDOM); SAME(GRND_INSECURE);
}

TEST_CASE("constants equal the kernel headers: ioctl requests") {
  SAME(TCGETS); SAME(TCSETS); SAME(TCSETSW); SAME(TCSETSF); SAME(TCSBRK); SAME(TCXONC); SAME(TCFLSH);
  SAME(TIOCEXCL); SAME(TIOCNXCL); SAME(TIOCSCTTY); SAME(TIOCGPGRP); SAME(TIOCSPGRP); SAME(TIOCOUTQ); SAME(TIOCSTI);
  SAME(TIOCGWINSZ); SAME(TIOCSWINSZ); SAME(TIOCLINUX); SAME(TIOCCONS); SAME(TIOCNOTTY); SAME(TIOCSETD); SAME(TIOCGETD);
  SAME(TIOCGSID); SAME(TIOCGPTN); SAME(TIOCSPTLCK); SAME(TIOCSIG); SAME(TIOCVHANGUP); SAME(TIOCGPTPEER); SAME(TIOCPKT);
  SAME(FIONREAD); SAME(FIONBIO); SAME(FIOASYNC); SAME(FIOCLEX); SAME(FIONCLEX); SAME(FIOQSIZE);
  SAME(FIOSETOWN); SAME(FIOGETOWN); SAME(SIOCSPGRP); SAME(SIOCGPGRP); SAME(SIOCATMARK); SAME(SIOCINQ); SAME(SIOCOUTQ);
  SAME(SIOCGIFCONF); SAME(SIOCGIFADDR); SAME(SIOCSIFADDR); SAME(SIOCGIFFLAGS); SAME(SIOCSIFFLAGS); SAME(SIOCETHTOOL);
  SAME(FICLONE); SAME(FICLONERANGE); SAME(FIDEDUPERANGE); SAME(FIFREEZE); SAME(FITHAW); SAME(FITRIM); SAME(FIBMAP);
  SAME(FS_IOC_GETFLAGS); SAME(FS_IOC_SETFLAGS); SAME(FS_IOC_FSGETXATTR); SAME(FS_IOC_FSSETXATTR);
  SAME(BLKROSET); SAME(BLKGETSIZE64); SAME(BLKDISCARD); SAME(BLKRRPART); SAME(BLKFLSBUF); SAME(BLKSSZGET);
  SAME(SECCOMP_IOCTL_NOTIF_RECV); SAME(SECCOMP_IOCTL_NOTIF_SEND); SAME(SECCOMP_IOCTL_NOTIF_ID_VALID);
  SAME(SECCOMP_IOCTL_NOTIF_ADDFD);
  SAME(UFFDIO_API); SAME(UFFDIO_COPY); SAME(RNDADDENTROPY);
}

TEST_CASE("constants equal the kernel headers: processes and security") {
  SAME(CLONE_VM); SAME(CLONE_FS); SAME(CLONE_FILES); SAME(CLONE_SIGHAND); SAME(CLONE_PIDFD); SAME(CLONE_PTRACE);
  SAME(CLONE_VFORK); SAME(CLONE_PARENT); SAME(CLONE_THREAD); SAME(CLONE_NEWNS); SAME(CLONE_SYSVSEM); SAME(CLONE_SETTLS);
  SAME(CLONE_PARENT_SETTID); SAME(CLONE_CHILD_CLEARTID); SAME(CLONE_DETACHED); SAME(CLONE_UNTRACED);
  SAME(CLONE_CHILD_SETTID); SAME(CLONE_NEWCGROUP); SAME(CLONE_NEWUTS); SAME(CLONE_NEWIPC); SAME(CLONE_NEWUSER);
  SAME(CLONE_NEWPID); SAME(CLONE_NEWNET); SAME(CLONE_IO); SAME(CLONE_NEWTIME);
  CHECK(find_constant("CLONE_CLEAR_SIGHAND") == 0x100000000u);
  CHECK(find_constant("CLONE_INTO_CGROUP") == 0x200000000u);
  SAME(SCHED_NORMAL); SAME(SCHED_FIFO); SAME(SCHED_RR); SAME(SCHED_BATCH); SAME(SCHED_IDLE); SAME(SCHED_DEADLINE);
  SAME(PR_SET_PDEATHSIG); SAME(PR_SET_DUMPABLE); SAME(PR_SET_NAME); SAME(PR_SET_SECCOMP); SAME(PR_SET_NO_NEW_PRIVS);
  SAME(PR_SET_CHILD_SUBREAPER); SAME(PR_CAPBSET_DROP); SAME(PR_SET_MM); SAME(PR_SET_PTRACER); SAME(PR_CAP_AMBIENT);
  SAME(PR_SET_SPECULATION_CTRL); SAME(PR_SET_SYSCALL_USER_DISPATCH); SAME(PR_SCHED_CORE); SAME(PR_SET_VMA);
  SAME(ARCH_SET_GS); SAME(ARCH_SET_FS); SAME(ARCH_GET_FS); SAME(ARCH_GET_GS); SAME(ARCH_SET_CPUID);
  SAME(PTRACE_TRACEME); SAME(PTRACE_PEEKTEXT); SAME(PTRACE_CONT); SAME(PTRACE_ATTACH); SAME(PTRACE_DETACH);
  SAME(PTRACE_SYSCALL); SAME(PTRACE_SETOPTIONS); SAME(PTRACE_SEIZE); SAME(PTRACE_INTERRUPT); SAME(PTRACE_GETREGSET);
  SAME(PTRACE_SECCOMP_GET_FILTER); SAME(PTRACE_GET_SYSCALL_INFO); SAME(PTRACE_O_TRACESECCOMP);
  SAME(SECCOMP_SET_MODE_STRICT); SAME(SECCOMP_SET_MODE_FILTER); SAME(SECCOMP_GET_ACTION_AVAIL);
  SAME(SECCOMP_GET_NOTIF_SIZES); SAME(SECCOMP_FILTER_FLAG_TSYNC); SAME(SECCOMP_FILTER_FLAG_LOG);
  SAME(SECCOMP_FILTER_FLAG_NEW_LISTENER); SAME(SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
  SAME(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV); SAME(SECCOMP_MODE_FILTER); SAME(SECCOMP_RET_USER_NOTIF);
  SAME(FUTEX_WAIT); SAME(FUTEX_WAKE); SAME(FUTEX_REQUEUE); SAME(FUTEX_CMP_REQUEUE); SAME(FUTEX_WAKE_OP);
  SAME(FUTEX_LOCK_PI); SAME(FUTEX_WAIT_BITSET); SAME(FUTEX_WAIT_PRIVATE); SAME(FUTEX_PRIVATE_FLAG);
  SAME(FUTEX_CLOCK_REALTIME); SAME(FUTEX_LOCK_PI2);
  SAME(ADDR_NO_RANDOMIZE); SAME(READ_IMPLIES_EXEC); SAME(PER_LINUX); SAME(PER_LINUX32); SAME(UNAME26);
  SAME(KEYCTL_GET_KEYRING_ID); SAME(KEYCTL_READ); SAME(KEYCTL_SEARCH); SAME(KEYCTL_WATCH_KEY);
  SAME(KEY_SPEC_THREAD_KEYRING);
  SAME(CAP_CHOWN); SAME(CAP_SYS_ADMIN); SAME(CAP_BPF); SAME(CAP_CHECKPOINT_RESTORE);
  SAME(SYS_SOCKET); SAME(SYS_CONNECT); SAME(SYS_SENDMMSG); SAME(SEMOP); SAME(MSGRCV); SAME(SHMGET);
  SAME(BPF_MAP_CREATE); SAME(BPF_PROG_LOAD); SAME(BPF_BTF_LOAD); SAME(BPF_LINK_CREATE); SAME(BPF_PROG_BIND_MAP);
  SAME(LANDLOCK_CREATE_RULESET_VERSION); SAME(LANDLOCK_ACCESS_FS_EXECUTE); SAME(LANDLOCK_ACCESS_FS_REFER);
  SAME(LANDLOCK_RULE_PATH_BENEATH);
  SAME(MEMBARRIER_CMD_QUERY); SAME(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  SAME(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

TEST_CASE("constants equal the kernel headers: memory and netlink") {
  SAME(PROT_NONE); SAME(PROT_READ); SAME(PROT_WRITE); SAME(PROT_EXEC); SAME(PROT_SEM); SAME(PROT_GROWSDOWN);
  SAME(MAP_SHARED); SAME(MAP_PRIVATE); SAME(MAP_SHARED_VALIDATE); SAME(MAP_FIXED); SAME(MAP_ANONYMOUS); SAME(MAP_32BIT);
  SAME(MAP_GROWSDOWN); SAME(MAP_DENYWRITE); SAME(MAP_LOCKED); SAME(MAP_NORESERVE); SAME(MAP_POPULATE); SAME(MAP_STACK);
  SAME(MAP_HUGETLB); SAME(MAP_SYNC); SAME(MAP_FIXED_NOREPLACE);
  SAME(MADV_DONTNEED); SAME(MADV_FREE); SAME(MADV_DONTFORK); SAME(MADV_HUGEPAGE); SAME(MADV_COLLAPSE);
  SAME(MADV_HWPOISON);
  SAME(MREMAP_MAYMOVE); SAME(MREMAP_FIXED); SAME(MREMAP_DONTUNMAP); SAME(MS_ASYNC); SAME(MS_SYNC); SAME(MS_INVALIDATE);
  SAME(MCL_CURRENT); SAME(MCL_FUTURE); SAME(MCL_ONFAULT); SAME(MLOCK_ONFAULT);
  SAME(NETLINK_ROUTE); SAME(NETLINK_SOCK_DIAG); SAME(NETLINK_AUDIT); SAME(NETLINK_NETFILTER);
  SAME(NETLINK_KOBJECT_UEVENT);
  SAME(NETLINK_GENERIC); SAME(NETLINK_CRYPTO);
}
#endif
// clang-format on

TEST_CASE("constants newer than Linux 6.1 equal the headers that know them") {
  int known = 0;
#ifdef F_SEAL_EXEC
  SAME(F_SEAL_EXEC);
  ++known;
#endif
#ifdef F_DUPFD_QUERY
  SAME(F_DUPFD_QUERY);
  ++known;
#endif
#ifdef MFD_NOEXEC_SEAL
  SAME(MFD_NOEXEC_SEAL);
  SAME(MFD_EXEC);
  ++known;
#endif
#ifdef LANDLOCK_ACCESS_FS_TRUNCATE
  SAME(LANDLOCK_ACCESS_FS_TRUNCATE);
  ++known;
#endif
#ifdef LANDLOCK_ACCESS_FS_IOCTL_DEV
  SAME(LANDLOCK_ACCESS_FS_IOCTL_DEV);
  ++known;
#endif
#ifdef LANDLOCK_SCOPE_SIGNAL
  SAME(LANDLOCK_SCOPE_SIGNAL);
  SAME(LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET);
  ++known;
#endif
#ifdef SECCOMP_IOCTL_NOTIF_SET_FLAGS
  SAME(SECCOMP_IOCTL_NOTIF_SET_FLAGS);
  SAME(SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
  ++known;
#endif
#ifdef PR_SET_MDWE
  SAME(PR_SET_MDWE);
  SAME(PR_GET_MDWE);
  ++known;
#endif
#ifdef PR_SET_SHADOW_STACK_STATUS
  SAME(PR_SET_SHADOW_STACK_STATUS);
  ++known;
#endif
#ifdef PR_FUTEX_HASH
  SAME(PR_FUTEX_HASH);
  ++known;
#endif
#ifdef RWF_DONTCACHE
  SAME(RWF_DONTCACHE);
  ++known;
#endif
#ifdef STATX_SUBVOL
  SAME(STATX_SUBVOL);
  SAME(STATX_MNT_ID_UNIQUE);
  ++known;
#endif
#ifdef AT_EXECVE_CHECK
  SAME(AT_EXECVE_CHECK);
  ++known;
#endif
#ifdef PTRACE_SET_SYSCALL_INFO
  SAME(PTRACE_SET_SYSCALL_INFO);
  ++known;
#endif
#ifdef MADV_GUARD_INSTALL
  SAME(MADV_GUARD_INSTALL);
  SAME(MADV_GUARD_REMOVE);
  ++known;
#endif
  if (known == 0) MESSAGE("skipped: these headers are not newer than Linux 6.1");
}
