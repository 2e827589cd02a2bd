#pragma once
// The calls that the file broker serves, and where each has what. Static storage.
#include <cstdint>
#include <span>
#include <string_view>

#include "policy/files.h"

namespace srun::supervisor {

enum class FileOp : uint8_t {
  kOpen, kOpenat, kOpenat2, kCreat,
  kMkdir, kMknod, kSymlink, kUnlink, kRmdir,
  kRename, kLink,
  kStat, kStatx, kStatfs, kAccess, kReadlink, kGetxattr, kListxattr, kInotify, kChdir,
  kChmod, kChown, kTruncate, kUtimensat, kUtimes, kUtime, kSetxattr, kRemovexattr,
  kExec,
};

// Positions of arguments; -1: the call has none.
struct FileCall {
  std::string_view name;
  FileOp op;
  policy::FileAccess access;   // of calls on one existing object
  int8_t directory = -1;       // the descriptor that a relative path starts at, or the only argument of f… forms
  int8_t path = -1;            // -1: the descriptor itself is meant
  int8_t flags = -1;           // AT_* flags
  int8_t data = -1;            // the first argument after the path: mode, buffer, times, name
  bool follows = true;         // a last symbolic link
  bool flags_nofollow = true;  // AT_SYMLINK_NOFOLLOW in the flags counts
};

std::span<const FileCall> file_calls();

}  // namespace srun::supervisor
