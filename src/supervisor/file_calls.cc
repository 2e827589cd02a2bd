#include "supervisor/file_calls.h"

namespace srun::supervisor {
namespace {

using enum FileOp;
using enum policy::FileAccess;

constexpr FileCall kCalls[] = {
    {"open", kOpen, kNone},
    {"openat", kOpenat, kNone},
    {"openat2", kOpenat2, kNone},
    {"creat", kCreat, kNone},
    {.name = "mkdir", .op = kMkdir, .access = kCreate, .path = 0},
    {.name = "mkdirat", .op = kMkdir, .access = kCreate, .directory = 0, .path = 1},
    {.name = "mknod", .op = kMknod, .access = kCreate, .path = 0},
    {.name = "mknodat", .op = kMknod, .access = kCreate, .directory = 0, .path = 1},
    {.name = "symlink", .op = kSymlink, .access = kCreate, .path = 1},
    {.name = "symlinkat", .op = kSymlink, .access = kCreate, .directory = 1, .path = 2},
    {.name = "unlink", .op = kUnlink, .access = kRemove, .path = 0},
    {.name = "unlinkat", .op = kUnlink, .access = kRemove, .directory = 0, .path = 1, .flags = 2},
    {.name = "rmdir", .op = kRmdir, .access = kRemove, .path = 0},
    {.name = "rename", .op = kRename, .access = kRemove, .path = 0},
    {.name = "renameat", .op = kRename, .access = kRemove, .directory = 0, .path = 1},
    {.name = "renameat2", .op = kRename, .access = kRemove, .directory = 0, .path = 1, .flags = 4},
    {.name = "link", .op = kLink, .access = kRead, .path = 0},
    {.name = "linkat", .op = kLink, .access = kRead, .directory = 0, .path = 1, .flags = 4},

    {.name = "stat", .op = kStat, .access = kMetadata, .path = 0, .data = 1},
    {.name = "lstat", .op = kStat, .access = kMetadata, .path = 0, .data = 1, .follows = false},
    {.name = "newfstatat", .op = kStat, .access = kMetadata, .directory = 0, .path = 1, .flags = 3, .data = 2},
    {.name = "statx", .op = kStatx, .access = kMetadata, .directory = 0, .path = 1, .flags = 2, .data = 4},
    {.name = "statfs", .op = kStatfs, .access = kMetadata, .path = 0, .data = 1},
    {.name = "access", .op = kAccess, .access = kMetadata, .path = 0, .data = 1},
    {.name = "faccessat", .op = kAccess, .access = kMetadata, .directory = 0, .path = 1, .data = 2},
    {.name = "faccessat2", .op = kAccess, .access = kMetadata, .directory = 0, .path = 1, .flags = 3, .data = 2},
    {.name = "readlink", .op = kReadlink, .access = kMetadata, .path = 0, .data = 1, .follows = false},
    {.name = "readlinkat",
     .op = kReadlink,
     .access = kMetadata,
     .directory = 0,
     .path = 1,
     .data = 2,
     .follows = false},
    {.name = "getxattr", .op = kGetxattr, .access = kMetadata, .path = 0, .data = 1},
    {.name = "lgetxattr", .op = kGetxattr, .access = kMetadata, .path = 0, .data = 1, .follows = false},
    {.name = "listxattr", .op = kListxattr, .access = kMetadata, .path = 0, .data = 1},
    {.name = "llistxattr", .op = kListxattr, .access = kMetadata, .path = 0, .data = 1, .follows = false},
    {.name = "inotify_add_watch", .op = kInotify, .access = kRead, .path = 1, .data = 2},
    {.name = "chdir", .op = kChdir, .access = kMetadata, .path = 0},
    {.name = "fchdir", .op = kChdir, .access = kMetadata, .directory = 0},

    {.name = "chmod", .op = kChmod, .access = kAttributes, .path = 0, .data = 1},
    {.name = "fchmod", .op = kChmod, .access = kAttributes, .directory = 0, .data = 1},
    {.name = "fchmodat", .op = kChmod, .access = kAttributes, .directory = 0, .path = 1, .data = 2},
    {.name = "fchmodat2", .op = kChmod, .access = kAttributes, .directory = 0, .path = 1, .flags = 3, .data = 2},
    {.name = "chown", .op = kChown, .access = kAttributes, .path = 0, .data = 1},
    {.name = "lchown", .op = kChown, .access = kAttributes, .path = 0, .data = 1, .follows = false},
    {.name = "fchown", .op = kChown, .access = kAttributes, .directory = 0, .data = 1},
    {.name = "fchownat", .op = kChown, .access = kAttributes, .directory = 0, .path = 1, .flags = 4, .data = 2},
    {.name = "truncate", .op = kTruncate, .access = kWrite, .path = 0, .data = 1},
    {.name = "utime", .op = kUtime, .access = kAttributes, .path = 0, .data = 1},
    {.name = "utimes", .op = kUtimes, .access = kAttributes, .path = 0, .data = 1},
    {.name = "futimesat", .op = kUtimes, .access = kAttributes, .directory = 0, .path = 1, .data = 2},
    {.name = "utimensat", .op = kUtimensat, .access = kAttributes, .directory = 0, .path = 1, .flags = 3, .data = 2},
    {.name = "setxattr", .op = kSetxattr, .access = kAttributes, .path = 0, .data = 1},
    {.name = "lsetxattr", .op = kSetxattr, .access = kAttributes, .path = 0, .data = 1, .follows = false},
    {.name = "fsetxattr", .op = kSetxattr, .access = kAttributes, .directory = 0, .data = 1},
    {.name = "removexattr", .op = kRemovexattr, .access = kAttributes, .path = 0, .data = 1},
    {.name = "lremovexattr", .op = kRemovexattr, .access = kAttributes, .path = 0, .data = 1, .follows = false},
    {.name = "fremovexattr", .op = kRemovexattr, .access = kAttributes, .directory = 0, .data = 1},

    {.name = "execve", .op = kExec, .access = kExecute, .path = 0},
    {.name = "execveat", .op = kExec, .access = kExecute, .directory = 0, .path = 1, .flags = 4},
};

}  // namespace

std::span<const FileCall> file_calls() { return kCalls; }

}  // namespace srun::supervisor
