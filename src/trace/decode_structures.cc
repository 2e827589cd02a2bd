// Structures behind pointers: files, times, limits, lists of descriptors.
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "kernel/remote_memory.h"
#include "trace/decode_times.h"
#include "trace/decoder.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

void put_limit(std::string& out, uint64_t limit) {
  if (limit == UINT64_MAX) {
    out += "RLIM64_INFINITY";
  } else if (limit > 1024 && limit % 1024 == 0) {
    put_unsigned(out, limit / 1024);
    out += "*1024";
  } else {
    put_unsigned(out, limit);
  }
}

}  // namespace

void put_time(std::string& out, const Time64& time, std::string_view part) {
  out += "{tv_sec=";
  put_decimal(out, time.seconds);
  out += ", ";
  out += part;
  out += '=';
  put_decimal(out, time.part);
  out += '}';
}

// " /* 1970-01-01T00:00:01.000000002+0000 */"
void put_date(std::string& out, const Time64& time, int digits) {
  char text[64];
  struct tm parts {};
  const auto seconds = static_cast<time_t>(time.seconds);
  if (time.seconds == 0 && time.part == 0) return;
  if (localtime_r(&seconds, &parts) == nullptr || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts) == 0) return;
  out += " /* ";
  out += text;
  if (time.part != 0) {
    out += '.';
    put_padded(out, static_cast<uint64_t>(time.part), digits);
  }
  if (strftime(text, sizeof text, "%z", &parts) != 0) out += text;
  out += " */";
}

void Decoder::iovec(At& at, uint64_t address, uint64_t count, uint64_t available) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  if (count == 0) {
    at.out += "[]";
    return;
  }
  uint64_t entry[2];
  if (!fetch(at, address, entry)) return put_hex(at.out, address);
  at.out += '[';
  for (uint64_t i = 0; i < count; ++i) {
    if (i != 0) {
      at.out += ", ";
      if (i >= options_.string_limit) {
        at.out += "...";
        break;
      }
      if (!fetch(at, address + i * sizeof entry, entry)) {
        at.out += "... /* ";
        put_hex(at.out, address + i * sizeof entry);
        at.out += " */";
        break;
      }
    }
    at.out += "{iov_base=";
    if (available == kNothing) {
      put_address(at.out, entry[0]);
    } else {
      const uint64_t length = std::min(entry[1], available);
      bytes(at, entry[0], length);
      if (available != UINT64_MAX) available -= length;
    }
    at.out += ", iov_len=";
    put_unsigned(at.out, entry[1]);
    at.out += '}';
  }
  at.out += ']';
}

void Decoder::sigset(At& at, uint64_t address, uint64_t size) {
  uint64_t set = 0;
  if (size != 8 || !fetch(at, address, set)) return put_address(at.out, address);
  put_signal_set(at.out, set);
}

void Decoder::sigaction(At& at, uint64_t address) {
  struct {
    uint64_t handler, flags, restorer, mask;
  } action{};
#if !defined(__x86_64__)
  // include/linux/signal_types.h: without SA_RESTORER the mask follows the flags.
  if (!fetch(at, address, &action, 24)) return put_address(at.out, address);
  action.mask = action.restorer;
#else
  if (!fetch(at, address, action)) return put_address(at.out, address);
#endif
  at.out += "{sa_handler=";
  if (action.handler == 0)
    at.out += "SIG_DFL";
  else if (action.handler == 1)
    at.out += "SIG_IGN";
  else if (action.handler == UINT64_MAX)
    at.out += "SIG_ERR";
  else
    put_hex(at.out, action.handler);
  at.out += ", sa_mask=";
  put_signal_set(at.out, action.mask);
  at.out += ", sa_flags=";
  flags(at, XlatId::kSigactionFlags, action.flags);
  if ((action.flags & 0x4000000) != 0) {
    at.out += ", sa_restorer=";
    put_address(at.out, action.restorer);
  }
  at.out += '}';
}

void Decoder::timespec(At& at, uint64_t address, bool) {
  Time64 time{};
  if (!fetch(at, address, time)) return put_address(at.out, address);
  put_time(at.out, time, "tv_nsec");
}

void Decoder::timeval(At& at, uint64_t address) {
  Time64 time{};
  if (!fetch(at, address, time)) return put_address(at.out, address);
  put_time(at.out, time, "tv_usec");
}

void Decoder::stat(At& at, uint64_t address) {
  struct stat st {};
  if (!fetch(at, address, st)) return put_address(at.out, address);
  at.out += '{';
  if (options_.verbose) {
    at.out += "st_dev=makedev(";
    put_hex(at.out, st.st_dev >> 8 & 0xfff);
    at.out += ", ";
    put_hex(at.out, (st.st_dev & 0xff) | (st.st_dev >> 12 & 0xfff00));
    at.out += "), st_ino=";
    put_unsigned(at.out, st.st_ino);
    at.out += ", ";
  }
  at.out += "st_mode=";
  put_file_mode(at.out, st.st_mode, options_.xlat);
  if (options_.verbose) {
    at.out += ", st_nlink=";
    put_unsigned(at.out, st.st_nlink);
    at.out += ", st_uid=";
    put_unsigned(at.out, st.st_uid);
    at.out += ", st_gid=";
    put_unsigned(at.out, st.st_gid);
    at.out += ", st_blksize=";
    put_unsigned(at.out, static_cast<uint64_t>(st.st_blksize));
    at.out += ", st_blocks=";
    put_unsigned(at.out, static_cast<uint64_t>(st.st_blocks));
  }
  if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
    at.out += ", st_rdev=makedev(";
    put_hex(at.out, st.st_rdev >> 8 & 0xfff);
    at.out += ", ";
    put_hex(at.out, (st.st_rdev & 0xff) | (st.st_rdev >> 12 & 0xfff00));
    at.out += ')';
  } else {
    at.out += ", st_size=";
    put_unsigned(at.out, static_cast<uint64_t>(st.st_size));
  }
  if (options_.verbose) {
    const struct {
      std::string_view name;
      struct timespec time;
    } times[] = {{"st_atime", st.st_atim}, {"st_mtime", st.st_mtim}, {"st_ctime", st.st_ctim}};
    for (const auto& [name, time] : times) {
      at.out += ", ";
      at.out += name;
      at.out += '=';
      put_decimal(at.out, time.tv_sec);
      put_date(at.out, {time.tv_sec, time.tv_nsec});
      at.out += ", ";
      at.out += name;
      at.out += "_nsec=";
      put_decimal(at.out, time.tv_nsec);
    }
  } else {
    at.out += ", ...";
  }
  at.out += '}';
}

void Decoder::statx(At& at, uint64_t address) {
  struct statx st {};
  if (!fetch(at, address, st)) return put_address(at.out, address);
  at.out += "{stx_mask=";
  flags(at, XlatId::kStatxMasks, st.stx_mask);
  if (options_.verbose) {
    at.out += ", stx_blksize=";
    put_unsigned(at.out, st.stx_blksize);
  }
  at.out += ", stx_attributes=";
  flags(at, XlatId::kStatxAttributes, st.stx_attributes);
  if (options_.verbose) {
    at.out += ", stx_nlink=";
    put_unsigned(at.out, st.stx_nlink);
    at.out += ", stx_uid=";
    put_unsigned(at.out, st.stx_uid);
    at.out += ", stx_gid=";
    put_unsigned(at.out, st.stx_gid);
  }
  at.out += ", stx_mode=";
  put_file_mode(at.out, st.stx_mode, options_.xlat);
  if (options_.verbose) {
    at.out += ", stx_ino=";
    put_unsigned(at.out, st.stx_ino);
  }
  at.out += ", stx_size=";
  put_unsigned(at.out, st.stx_size);
  at.out += ", ...}";
}

void Decoder::rlimit(At& at, uint64_t address) {
  uint64_t limits[2];
  if (!fetch(at, address, limits)) return put_address(at.out, address);
  at.out += "{rlim_cur=";
  put_limit(at.out, limits[0]);
  at.out += ", rlim_max=";
  put_limit(at.out, limits[1]);
  at.out += '}';
}

void Decoder::fd_set(At& at, uint64_t address, int count) {
  count = std::clamp(count, 0, 1024);
  uint64_t words[16] = {};
  const size_t size = static_cast<size_t>(count + 63) / 64 * 8;
  if (address == 0 || (size != 0 && !fetch(at, address, words, size))) return put_address(at.out, address);
  at.out += '[';
  bool first = true;
  for (int fd = 0; fd < count; ++fd) {
    if ((words[fd / 64] >> (fd % 64) & 1) == 0) continue;
    if (!first) at.out += ' ';
    first = false;
    put_fd(at.out, at.call.tid, fd);
  }
  at.out += ']';
}

void Decoder::pollfds(At& at, uint64_t address, uint64_t count) {
  struct Poll {
    int32_t fd;
    int16_t events, revents;
  } entry{};
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  if (count == 0) {
    at.out += "[]";
    return;
  }
  if (!fetch(at, address, entry)) return put_hex(at.out, address);
  at.out += '[';
  for (uint64_t i = 0; i < count; ++i) {
    if (i != 0) {
      at.out += ", ";
      if (i >= options_.string_limit) {
        at.out += "...";
        break;
      }
      if (!fetch(at, address + i * sizeof entry, entry)) {
        at.out += "... /* ";
        put_hex(at.out, address + i * sizeof entry);
        at.out += " */";
        break;
      }
    }
    at.out += "{fd=";
    put_fd(at.out, at.call.tid, entry.fd);
    if (entry.fd >= 0) {
      at.out += ", events=";
      flags(at, XlatId::kPollEvents, static_cast<uint16_t>(entry.events));
    }
    at.out += '}';
  }
  at.out += ']';
}

void Decoder::epoll_event(At& at, const void* from) {
  struct epoll_event event;
  std::memcpy(&event, from, sizeof event);
  at.out += "{events=";
  flags(at, XlatId::kEpollEvents, event.events);
  const uint64_t data = event.data.u64;
  at.out += ", data={u32=";
  put_unsigned(at.out, static_cast<uint32_t>(data));
  at.out += ", u64=";
  put_unsigned(at.out, data);
  at.out += "}}";
}

void Decoder::cpu_mask(At& at, uint64_t address, uint64_t size) {
  uint64_t words[128] = {};
  size = std::min<uint64_t>(size, sizeof words);
  if (address == 0 || size == 0 || !fetch(at, address, words, size)) return put_address(at.out, address);
  at.out += '[';
  bool first = true;
  for (size_t cpu = 0; cpu < size * 8; ++cpu) {
    if ((words[cpu / 64] >> (cpu % 64) & 1) == 0) continue;
    if (!first) at.out += ' ';
    first = false;
    put_unsigned(at.out, cpu);
  }
  at.out += ']';
}

void Decoder::rusage(At& at, uint64_t address) {
  int64_t words[18];
  if (!fetch(at, address, words)) return put_address(at.out, address);
  at.out += "{ru_utime=";
  put_time(at.out, {words[0], words[1]}, "tv_usec");
  at.out += ", ru_stime=";
  put_time(at.out, {words[2], words[3]}, "tv_usec");
  if (!options_.verbose) {
    at.out += ", ...}";
    return;
  }
  static constexpr std::string_view kNames[] = {"maxrss", "ixrss",    "idrss",   "isrss",   "minflt",
                                                "majflt", "nswap",    "inblock", "oublock", "msgsnd",
                                                "msgrcv", "nsignals", "nvcsw",   "nivcsw"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    at.out += ", ru_";
    at.out += kNames[i];
    at.out += '=';
    put_decimal(at.out, words[4 + i]);
  }
  at.out += '}';
}

void Decoder::siginfo_at(At& at, uint64_t address) {
  alignas(8) char info[128];
  if (!fetch(at, address, info, sizeof info)) return put_address(at.out, address);
  put_siginfo(at.out, info, true);
}

}  // namespace srun::trace
