// file_calls DIR: every call that names a file, on every kind of path, each in a fresh tree below DIR; prints result, errno
// and what the tree looks like afterwards. Run natively and under a broker, the outputs must be equal.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

static char longest[NAME_MAX + 1], too_long[NAME_MAX + 2], deep[PATH_MAX], too_deep[PATH_MAX + 1], absolute[PATH_MAX], relative_up[PATH_MAX];
static const char *tree;

static const char *paths[] = {
    "file", "./file", "dir//../file", "dir", "dir/", "dir/.", "dir/..", ".", "..", "", "missing", "missing/", "missing/x", "file/", "file/x",
    "link", "link/", "dirlink", "dirlink/", "dirlink/inner", "dangling", "dangling/", "loop", "loop/x", "chain", "absolute-link",
    "dir/inner", "dir/inner/..", "fifo", "closed/x", "closed", "secret", "odd\xff\n\x1bname", "/", "//", "/dev/null", "/dev/null/x", "/dev/zero",
    "/proc/self", "/proc/self/", "/proc/self/exe", "/proc/self/cwd/file", "/proc/self/root", "/proc/thread-self/comm", "/proc/self/fd/0",
    "/dev/fd/0", "/dev/stdin", "/proc/self/fd/999", "/proc/mounts", "/etc/passwd", "/no/such/directory", "up-link/file",
    longest, too_long, deep, too_deep, absolute, relative_up,
};

static void must(int ok, const char *what) {
  if (ok) return;
  perror(what);
  exit(3);
}
static void put(const char *name, mode_t mode) {
  int fd = open(name, O_CREAT | O_WRONLY | O_EXCL, 0600);
  must(fd >= 0 && write(fd, "text\n", 5) == 5 && fchmod(fd, mode) == 0, name);
  close(fd);
}
static void build(void) {
  // ".." of the tree is one of the paths: it is made anew as well.
  must(mkdir("base", 0755) == 0 && mkdir(tree, 0755) == 0 && chdir(tree) == 0, "tree");
  put("file", 0644);
  put("secret", 0);
  put("odd\xff\n\x1bname", 0640);
  put(longest, 0644);
  must(mkdir("dir", 0755) == 0 && mkdir("closed", 0755) == 0, "mkdir");
  put("dir/inner", 0600);
  put("closed/x", 0644);
  must(symlink("file", "link") == 0 && symlink("dir", "dirlink") == 0 && symlink("nowhere", "dangling") == 0, "symlink");
  must(symlink("loop", "loop") == 0 && symlink("link", "chain") == 0 && symlink(absolute, "absolute-link") == 0, "symlink");
  must(symlink("../tree", "up-link") == 0 && mkfifo("fifo", 0644) == 0, "fifo");
  must(chmod("closed", 0) == 0, "chmod");
}
static void show(const char *name) {
  struct stat s;
  if (lstat(name, &s) != 0) return;
  printf(" %s:%o:%ld:%ld", strlen(name) > 40 ? "LONG" : name, s.st_mode, S_ISDIR(s.st_mode) ? 0L : (long)s.st_size, (long)s.st_nlink);
}
static void tear_down(void) {
  // What a case may have made or changed. Times are compared by the one far past that utimensat sets.
  must(chdir(tree) == 0, "chdir");
  static const char *names[] = {"file", "secret", "dir", "dir/inner", "link", "dirlink", "dangling", "nowhere", "missing", "made", "fifo", "loop", "chain", "closed", longest};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) show(names[i]);
  struct stat s;
  if (stat("file", &s) == 0 && s.st_mtime == 1234567) printf(" old");
  putchar('\n');
  must(chdir("/") == 0, "chdir");
  chmod(absolute, 0700);
  char command[PATH_MAX + 64];
  snprintf(command, sizeof command, "%s/closed", tree);
  chmod(command, 0700);
  fflush(stdout);
}
static void clear_directory(int fd) {
  DIR *dir = fdopendir(fd);
  must(dir != NULL, "fdopendir");
  for (struct dirent *e; (e = readdir(dir)) != NULL;) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (unlinkat(dirfd(dir), e->d_name, 0) == 0) continue;
    fchmodat(dirfd(dir), e->d_name, 0700, 0);  // it may be "closed" under another name
    int below = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    must(below >= 0, e->d_name);
    clear_directory(below);
    must(unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) == 0, e->d_name);
  }
  closedir(dir);
}

static const char *current;
static long opened(int fd) {
  if (fd < 0) return -errno;
  struct stat s;
  must(fstat(fd, &s) == 0, "fstat");
  // O_NOFOLLOW shows in F_GETFL natively and not after an open on behalf, which has followed nothing by then.
  printf(" fd(type=%o flags=%x cloexec=%d) ", s.st_mode & S_IFMT, fcntl(fd, F_GETFL) & ~(0100000 | O_NOFOLLOW), fcntl(fd, F_GETFD) & 1);
  char buffer[8];
  if (S_ISREG(s.st_mode) && (fcntl(fd, F_GETFL) & O_PATH) == 0 && strncmp(current, "/proc", 5) != 0) printf("read=%zd ", read(fd, buffer, sizeof buffer));
  close(fd);
  return 0;
}
static long r(long result) { return result < 0 ? -errno : result; }
static struct timespec past[2] = {{1234567, 0}, {1234567, 0}};
static struct timeval past_us[2] = {{1234567, 0}, {1234567, 0}};

#define P current
static long do_open(int flags) { return opened(open(P, flags | O_NONBLOCK, 0666)); }
static long c00(void) { return do_open(O_RDONLY); }
static long c01(void) { return do_open(O_WRONLY | O_CLOEXEC); }
static long c02(void) { return do_open(O_RDWR | O_APPEND); }
static long c03(void) { return strncmp(P, "/proc", 5) && strncmp(P, "/dev", 4) && strncmp(P, "/etc", 4) ? do_open(O_WRONLY | O_TRUNC) : 0; }
static long c04(void) { return do_open(O_RDONLY | O_DIRECTORY); }
static long c05(void) { return do_open(O_RDONLY | O_NOFOLLOW); }
static long c06(void) { return opened(open(P, O_PATH)); }
static long c07(void) { return opened(open(P, O_PATH | O_NOFOLLOW | O_CLOEXEC)); }
static long c08(void) { return do_open(O_WRONLY | O_CREAT); }
static long c09(void) { return do_open(O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC); }
static long c10(void) { return do_open(O_WRONLY | O_CREAT | O_NOFOLLOW); }
static long c11(void) { return strncmp(P, "/", 1) ? do_open(O_TMPFILE | O_RDWR) : 0; }
static long c12(void) { return do_open(O_RDONLY | O_CREAT | O_DIRECTORY); }
static long c13(void) { struct stat s; long v = r(stat(P, &s)); if (v == 0) printf(" %o ", s.st_mode); return v; }
static long c14(void) { struct stat s; long v = r(lstat(P, &s)); if (v == 0) printf(" %o ", s.st_mode); return v; }
static long c15(void) { struct statx s; long v = r(statx(AT_FDCWD, P, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &s)); if (v == 0) printf(" %o ", s.stx_mode); return v; }
static long c16(void) { return r(access(P, R_OK)); }
static long c17(void) { return r(access(P, W_OK)); }
static long c18(void) { return r(access(P, X_OK)); }
static long c19(void) { return r(syscall(SYS_faccessat2, AT_FDCWD, P, F_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW)); }
static long c20(void) {
  char b[PATH_MAX];
  long v = r(readlink(P, b, sizeof b));
  // The number of the process differs from run to run.
  if (v > 0 && strncmp(P, "/proc/self", 10) == 0 && P[10] == '\0') { b[v] = 0; return atoi(b) == getpid() ? 1 : -99; }
  // The tree itself lies elsewhere in each run.
  if (v > 0 && strncmp(P, "/", 1) != 0 && b[0] != '/') printf(" %.*s ", (int)v, b);
  return v;
}
static long c21(void) { char b[3]; long v = r(readlinkat(AT_FDCWD, P, b, 2)); return v; }
static long c22(void) { return r(mkdir(P, 0777)); }
// Only the process itself may write to its /proc/self/fd, so who acts on behalf fails earlier there, with EACCES.
static long c23(void) { return strstr(P, "fd/") ? 0 : r(rmdir(P)); }
static long c24(void) { return strncmp(P, "/", 1) ? r(unlink(P)) : 0; }
static long c25(void) { return r(mknod(P, S_IFREG | 0666, 0)); }
static long c26(void) { return r(mkfifo(P, 0600)); }
static long c27(void) { return strncmp(P, "/", 1) ? r(chmod(P, 0711)) : 0; }
static long c28(void) { return strncmp(P, "/", 1) ? r(chown(P, geteuid(), getegid())) : 0; }
static long c29(void) { return strncmp(P, "/", 1) ? r(lchown(P, geteuid(), (gid_t)-1)) : 0; }
static long c30(void) { return strncmp(P, "/", 1) ? r(truncate(P, 2)) : 0; }
static long c31(void) { return strncmp(P, "/", 1) ? r(utimensat(AT_FDCWD, P, past, 0)) : 0; }
static long c32(void) { return strncmp(P, "/", 1) ? r(utimensat(AT_FDCWD, P, past, AT_SYMLINK_NOFOLLOW)) : 0; }
static long c33(void) { return strncmp(P, "/", 1) ? r(utimes(P, past_us)) : 0; }
static long c34(void) { return strncmp(P, "/", 1) ? r(rename(P, "made")) : 0; }
static long c35(void) { return strncmp(P, "/", 1) ? r(rename("file", P)) : 0; }
static long c36(void) { return strncmp(P, "/", 1) ? r(rename("dir", P)) : 0; }
static long c37(void) { return strncmp(P, "/", 1) ? r(link(P, "made")) : 0; }
static long c38(void) { return strncmp(P, "/", 1) ? r(linkat(AT_FDCWD, P, AT_FDCWD, "made", AT_SYMLINK_FOLLOW)) : 0; }
static long c39(void) { return strncmp(P, "/", 1) ? r(link("file", P)) : 0; }
static long c40(void) { return strncmp(P, "/", 1) ? r(symlink("text", P)) : 0; }
static long c41(void) { struct statfs s; return r(statfs(P, &s)); }
static long c42(void) { char b[16]; return r(getxattr(P, "user.test", b, sizeof b)); }
static long c43(void) { char b[256]; long v = r(listxattr(P, b, sizeof b)); return v > 0 ? 1 : v; }
static long c44(void) { return strncmp(P, "/", 1) ? r(setxattr(P, "user.test", "v", 1, 0)) : 0; }
static long c45(void) { return strncmp(P, "/", 1) ? r(removexattr(P, "user.test")) : 0; }
static long c46(void) { int n = inotify_init1(IN_CLOEXEC); long v = r(inotify_add_watch(n, P, IN_ATTRIB)); close(n); return v; }
static long c47(void) { return r(chdir(P)); }
static long c48(void) { return strncmp(P, "/", 1) ? r(renameat2(AT_FDCWD, P, AT_FDCWD, "file", RENAME_EXCHANGE)) : 0; }
static long c49(void) { return strncmp(P, "/", 1) ? r(renameat2(AT_FDCWD, "file", AT_FDCWD, P, RENAME_NOREPLACE)) : 0; }
static long c50(void) { int d = open("dir", O_RDONLY | O_DIRECTORY); long v = opened(openat(d, P, O_RDONLY | O_NONBLOCK)); close(d); return v; }
static long c51(void) { int d = open("dir", O_PATH | O_DIRECTORY); struct stat s; long v = r(fstatat(d, P, &s, AT_EMPTY_PATH)); close(d); return v; }
static long c52(void) { return opened(openat(999, P, O_RDONLY | O_NONBLOCK)); }
static long c53(void) { int d = open("file", O_RDONLY); long v = opened(openat(d, P, O_RDONLY | O_NONBLOCK)); close(d); return v; }
static long c54(void) { int d = open("file", O_RDWR); long v = strncmp(P, "/", 1) ? r(fchmod(d, 0604)) | r(fchown(d, geteuid(), getegid())) | r(futimens(d, past)) : 0; close(d); return v; }
static long c55(void) { return strncmp(P, "/", 1) ? r(unlinkat(AT_FDCWD, P, AT_REMOVEDIR)) : 0; }

typedef long (*call)(void);
static call calls[] = {c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23, c24, c25, c26, c27,
                       c28, c29, c30, c31, c32, c33, c34, c35, c36, c37, c38, c39, c40, c41, c42, c43, c44, c45, c46, c47, c48, c49, c50, c51, c52, c53, c54, c55};

int main(int argc, char **argv) {
  must(argc == 2 && chdir(argv[1]) == 0, "usage: file_calls DIR");
  static char where[PATH_MAX];
  must(realpath(".", where) != NULL, "realpath");
  static char tree_path[PATH_MAX + 16];
  snprintf(tree_path, sizeof tree_path, "%s/base/tree", where);
  tree = tree_path;
  memset(longest, 'n', NAME_MAX);
  memset(too_long, 'n', NAME_MAX + 1);
  snprintf(absolute, sizeof absolute, "%.4000s/file", tree_path);
  snprintf(relative_up, sizeof relative_up, "../../../../../../../../../../../../../../../../../..%.4000s/dir/inner", tree_path);
  memset(deep, '/', PATH_MAX - 1 - 4);
  memcpy(deep, "./", 2);
  memcpy(deep + PATH_MAX - 1 - 4, "file", 4);
  memset(too_deep, '/', PATH_MAX);
  memcpy(too_deep, ".", 1);
  umask(027);
  for (size_t c = 0; c < sizeof calls / sizeof *calls; ++c)
    for (size_t p = 0; p < sizeof paths / sizeof *paths; ++p) {
      must(chdir(where) == 0, where);
      build();
      current = paths[p];
      printf("c%02zu p%02zu", c, p);
      long result = calls[c]();
      printf(" = %ld |", result);
      tear_down();
      int fd = open(where, O_RDONLY | O_DIRECTORY);
      must(fd >= 0, where);
      clear_directory(fd);
    }
  return 0;
}
