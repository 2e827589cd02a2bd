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
#include "trace/decoder.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

// Of an iovec: its data does not exist, only the addresses are shown.
constexpr uint64_t kNothing = UINT64_MAX - 1;

struct Time64 {
  int64_t seconds, part;
};

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
void put_date(std::string& out, const Time64& time, int digits = 9) {
  char text[64];
  struct tm parts{};
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

void put_capabilities(std::string& out, uint64_t set) {
  if (set == 0) {
    out += '0';
    return;
  }
  bool first = true;
  for (const XlatEntry& entry : xlat(XlatId::kCapabilities)) {
    if ((set >> entry.value & 1) == 0) continue;
    if (!first) out += '|';
    first = false;
    out += "1<<";
    out += entry.name;
    set &= ~(uint64_t{1} << entry.value);
  }
  if (set != 0) {
    if (!first) out += '|';
    put_hex(out, set);
  }
}

}  // namespace

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
  struct stat st{};
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
    const struct { std::string_view name; struct timespec time; } times[] = {
        {"st_atime", st.st_atim}, {"st_mtime", st.st_mtim}, {"st_ctime", st.st_ctim}};
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
  struct statx st{};
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
  static constexpr std::string_view kNames[] = {"maxrss", "ixrss", "idrss", "isrss", "minflt", "majflt", "nswap",
                                                "inblock", "oublock", "msgsnd", "msgrcv", "nsignals", "nvcsw", "nivcsw"};
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

bool Decoder::put_memory(At& at) {
  const uint64_t address = at.value();
  const bool failed = at.exiting && at.call.failed;
  const auto result = static_cast<uint64_t>(at.call.result);
  // R22: what a failed call would have written is not there.
  const auto written = [&] {
    if (!failed) return true;
    put_address(at.out, address);
    return false;
  };
  const auto number_at = [&](auto sample, bool is_unsigned) {
    if (!fetch(at, address, sample)) return put_address(at.out, address);
    at.out += '[';
    if (is_unsigned)
      put_unsigned(at.out, static_cast<uint64_t>(sample));
    else
      put_decimal(at.out, static_cast<int64_t>(sample));
    at.out += ']';
  };
  switch (at.kind(at.index)) {
    case kBufferIn: {
      uint64_t length = at.index + 1 < at.args.count ? at.value(at.index + 1) : 0;
      bytes(at, address, length);
      return true;
    }
    case kBufferOut:
      if (!written()) return true;
      if (at.call.row->name == "getrandom")
        hex_bytes(at, address, result);
      else if (at.call.row->name == "getcwd")
        path(at, address);
      else if (at.value(at.index + 1) == 0 && at.call.row->name.find("xattr") != std::string_view::npos)
        put_address(at.out, address);
      else
        bytes(at, address, result);
      return true;
    case kIovecIn: iovec(at, address, at.value(at.index + 1), UINT64_MAX); return true;
    case kIovecOut:
      if (failed) {
        iovec(at, address, at.value(at.index + 1), kNothing);
      } else {
        iovec(at, address, at.value(at.index + 1), result);
      }
      return true;
    case kIntOut: if (written()) number_at(int32_t{}, false); return true;
    case kUintOut: if (written()) number_at(uint32_t{}, true); return true;
    case kSizeOut: case kSizeInOut: if (written()) number_at(uint64_t{}, true); return true;
    case kOffsetOut: if (written()) number_at(int64_t{}, false); return true;
    case kOffsetInOut: number_at(int64_t{}, false); return true;
    case kUidOut: case kGidOut: if (written()) number_at(int32_t{}, false); return true;
    case kTimerIdOut: if (written()) number_at(int32_t{}, false); return true;
    case kFdPairOut: {
      int32_t fds[2];
      if (failed || !fetch(at, address, fds)) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      put_fd(at.out, at.call.tid, fds[0]);
      at.out += ", ";
      put_fd(at.out, at.call.tid, fds[1]);
      at.out += ']';
      return true;
    }
    case kStatOut: if (written()) stat(at, address); return true;
    case kStatxOut: if (written()) statx(at, address); return true;
    case kStatfsOut: {
      struct statfs fs{};
      if (failed || !fetch(at, address, fs)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{f_type=";
      value(at, XlatId::kStatfsMagic, static_cast<uint64_t>(fs.f_type));
      const struct { std::string_view name; uint64_t number; } fields[] = {
          {", f_bsize=", static_cast<uint64_t>(fs.f_bsize)}, {", f_blocks=", fs.f_blocks}, {", f_bfree=", fs.f_bfree},
          {", f_bavail=", fs.f_bavail}, {", f_files=", fs.f_files}, {", f_ffree=", fs.f_ffree}};
      for (const auto& field : fields) {
        at.out += field.name;
        put_unsigned(at.out, field.number);
      }
      uint32_t id[2];
      std::memcpy(id, &fs.f_fsid, sizeof id);
      at.out += ", f_fsid={val=[";
      put_hex(at.out, id[0]);
      at.out += ", ";
      put_hex(at.out, id[1]);
      at.out += "]}, f_namelen=";
      put_unsigned(at.out, static_cast<uint64_t>(fs.f_namelen));
      at.out += ", f_frsize=";
      put_unsigned(at.out, static_cast<uint64_t>(fs.f_frsize));
      at.out += ", f_flags=";
      flags(at, XlatId::kStatfsFlags, static_cast<uint64_t>(fs.f_flags));
      at.out += '}';
      return true;
    }
    case kDentsOut: {
      put_address(at.out, address);
      if (failed) return true;
      // Only counted: record lengths are followed, a length of 0 ends it.
      scratch_.resize(std::min<uint64_t>(result, 1 << 20));
      size_t count = 0;
      if (!scratch_.empty() && fetch(at, address, scratch_.data(), scratch_.size())) {
        for (size_t offset = 0; offset + 19 <= scratch_.size(); ++count) {
          uint16_t length = 0;
          std::memcpy(&length, scratch_.data() + offset + 16, sizeof length);
          if (length < 19) break;
          offset += length;
        }
      }
      at.out += " /* ";
      put_unsigned(at.out, count);
      at.out += count == 1 ? " entry */" : " entries */";
      return true;
    }
    case kSigsetIn: sigset(at, address, at.args.args[static_cast<size_t>(at.index)].kind == kSigsetIn ? 8 : 0); return true;
    case kSigsetOut: if (written()) sigset(at, address, 8); return true;
    case kSigsetWithSizeIn: {
      uint64_t pair[2];
      if (!fetch(at, address, pair)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{sigmask=";
      sigset(at, pair[0], 8);
      at.out += ", sigsetsize=";
      put_unsigned(at.out, pair[1]);
      at.out += '}';
      return true;
    }
    case kSigactionIn: sigaction(at, address); return true;
    case kSigactionOut: if (written()) sigaction(at, address); return true;
    case kSiginfoIn: siginfo_at(at, address); return true;
    case kSiginfoOut: {
      if (!written()) return true;
      if (at.call.row->name == "waitid") {
        int32_t signal = 0;
        if (fetch(at, address, signal) && signal == 0) {
          at.out += "{}";
          return true;
        }
      }
      siginfo_at(at, address);
      return true;
    }
    case kSigaltstackIn: case kSigaltstackOut: {
      struct { uint64_t sp; int32_t flags, pad; uint64_t size; } stack{};
      if ((at.kind(at.index) == kSigaltstackOut && failed) || !fetch(at, address, stack)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{ss_sp=";
      put_address(at.out, stack.sp);
      at.out += ", ss_flags=";
      flags(at, XlatId::kSigaltstackFlags, static_cast<uint32_t>(stack.flags));
      at.out += ", ss_size=";
      put_unsigned(at.out, stack.size);
      at.out += '}';
      return true;
    }
    case kTimespecIn: case kTimespecInOut: timespec(at, address, false); return true;
    case kTimespecOut: {
      const std::string_view name = at.call.row->name;
      if (name == "nanosleep" || name == "clock_nanosleep") {
        // The rest is written only when a signal ended the sleep.
        if (at.call.failed && (at.call.result == -4 || at.call.result == -516) &&
            !(name == "clock_nanosleep" && (at.value(1) & 1) != 0))
          timespec(at, address, false);
        else
          put_address(at.out, address);
        return true;
      }
      if (written()) timespec(at, address, false);
      return true;
    }
    case kTimevalIn: case kTimevalInOut: timeval(at, address); return true;
    case kTimevalOut: if (written()) timeval(at, address); return true;
    case kTimezoneIn: case kTimezoneOut: {
      int32_t zone[2];
      if ((at.kind(at.index) == kTimezoneOut && failed) || !fetch(at, address, zone)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{tz_minuteswest=";
      put_decimal(at.out, zone[0]);
      at.out += ", tz_dsttime=";
      put_decimal(at.out, zone[1]);
      at.out += '}';
      return true;
    }
    case kTimespecPairIn: case kTimevalPairIn: {
      Time64 times[2];
      if (!fetch(at, address, times)) {
        put_address(at.out, address);
        return true;
      }
      const bool nano = at.kind(at.index) == kTimespecPairIn;
      at.out += '[';
      for (int i = 0; i < 2; ++i) {
        if (i != 0) at.out += ", ";
        if (nano && times[i].part == 0x3fffffff) {
          at.out += "UTIME_NOW";
        } else if (nano && times[i].part == 0x3ffffffe) {
          at.out += "UTIME_OMIT";
        } else {
          put_time(at.out, times[i], nano ? "tv_nsec" : "tv_usec");
          put_date(at.out, times[i], nano ? 9 : 6);
        }
      }
      at.out += ']';
      return true;
    }
    case kUtimbufIn: {
      int64_t times[2];
      if (!fetch(at, address, times)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{actime=";
      put_decimal(at.out, times[0]);
      put_date(at.out, {times[0], 0});
      at.out += ", modtime=";
      put_decimal(at.out, times[1]);
      put_date(at.out, {times[1], 0});
      at.out += '}';
      return true;
    }
    case kTimeOut: case kTimeIn: {
      int64_t time = 0;
      if (failed || !fetch(at, address, time)) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      put_decimal(at.out, time);
      put_date(at.out, {time, 0});
      at.out += ']';
      return true;
    }
    case kItimervalIn: case kItimervalOut: case kItimerspecIn: case kItimerspecOut: {
      const kernel::ArgKind kind = at.kind(at.index);
      Time64 times[2];
      if (((kind == kItimervalOut || kind == kItimerspecOut) && failed) || !fetch(at, address, times)) {
        put_address(at.out, address);
        return true;
      }
      const std::string_view part = kind == kItimervalIn || kind == kItimervalOut ? "tv_usec" : "tv_nsec";
      at.out += "{it_interval=";
      put_time(at.out, times[0], part);
      at.out += ", it_value=";
      put_time(at.out, times[1], part);
      at.out += '}';
      return true;
    }
    case kRlimitIn: rlimit(at, address); return true;
    case kRlimitOut: if (written()) rlimit(at, address); return true;
    case kRusageOut:
      if ((at.call.row->name == "wait4" || at.call.row->name == "waitid") && at.call.result == 0 && at.call.row->name == "wait4") {
        put_address(at.out, address);
        return true;
      }
      if (written()) rusage(at, address);
      return true;
    case kWaitStatusOut: {
      int32_t status = 0;
      if (failed || at.call.result == 0 || !fetch(at, address, status)) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      put_wait_status(at.out, status);
      at.out += ']';
      return true;
    }
    case kFdSetInOut: fd_set(at, address, static_cast<int>(at.value(0))); return true;
    case kPollfdInOut: pollfds(at, address, static_cast<uint32_t>(at.value(at.index + 1))); return true;
    case kEpollEventIn: {
      struct epoll_event event{};
      // EPOLL_CTL_DEL ignores it.
      if (at.value(1) == 2 || !fetch(at, address, event))
        put_address(at.out, address);
      else
        epoll_event(at, &event);
      return true;
    }
    case kEpollEventsOut: {
      if (!written()) return true;
      if (result == 0) {
        at.out += "[]";
        return true;
      }
      struct epoll_event event{};
      if (!fetch(at, address, event)) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      for (uint64_t i = 0; i < result; ++i) {
        if (i != 0) at.out += ", ";
        if (i >= options_.string_limit || (i != 0 && !fetch(at, address + i * sizeof event, event))) {
          at.out += "...";
          break;
        }
        epoll_event(at, &event);
      }
      at.out += ']';
      return true;
    }
    case kCpuMaskIn: cpu_mask(at, address, static_cast<uint32_t>(at.value(at.index - 1))); return true;
    case kCpuMaskOut: if (written()) cpu_mask(at, address, result); return true;
    case kSchedParamIn: case kSchedParamOut: {
      int32_t priority = 0;
      if ((at.kind(at.index) == kSchedParamOut && failed) || !fetch(at, address, priority)) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      put_decimal(at.out, priority);
      at.out += ']';
      return true;
    }
    case kUtsnameOut: {
      struct utsname name{};
      if (failed || !fetch(at, address, name)) {
        put_address(at.out, address);
        return true;
      }
      const auto field = [&](std::string_view label, const char* text) {
        at.out += label;
        put_quoted(at.out, std::string_view(text, strnlen(text, 65)), false, options_.hex);
      };
      field("{sysname=", name.sysname);
      field(", nodename=", name.nodename);
      if (options_.verbose) {
        field(", release=", name.release);
        field(", version=", name.version);
        field(", machine=", name.machine);
        field(", domainname=", name.domainname);
      } else {
        at.out += ", ...";
      }
      at.out += '}';
      return true;
    }
    case kSysinfoOut: {
      struct sysinfo info{};
      if (failed || !fetch(at, address, info)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{uptime=";
      put_decimal(at.out, info.uptime);
      at.out += ", loads=[";
      put_unsigned(at.out, info.loads[0]);
      at.out += ", ";
      put_unsigned(at.out, info.loads[1]);
      at.out += ", ";
      put_unsigned(at.out, info.loads[2]);
      const struct { std::string_view name; uint64_t number; } fields[] = {
          {"], totalram=", info.totalram}, {", freeram=", info.freeram}, {", sharedram=", info.sharedram},
          {", bufferram=", info.bufferram}, {", totalswap=", info.totalswap}, {", freeswap=", info.freeswap},
          {", procs=", info.procs}, {", totalhigh=", info.totalhigh}, {", freehigh=", info.freehigh}, {", mem_unit=", info.mem_unit}};
      for (const auto& entry : fields) {
        at.out += entry.name;
        put_unsigned(at.out, entry.number);
      }
      at.out += '}';
      return true;
    }
    case kTmsOut: {
      int64_t times[4];
      if (failed || !fetch(at, address, times)) {
        put_address(at.out, address);
        return true;
      }
      static constexpr std::string_view kNames[] = {"{tms_utime=", ", tms_stime=", ", tms_cutime=", ", tms_cstime="};
      for (size_t i = 0; i < 4; ++i) {
        at.out += kNames[i];
        put_decimal(at.out, times[i]);
      }
      at.out += '}';
      return true;
    }
    case kCapHeader: {
      uint32_t header[2];
      if (!fetch(at, address, header)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{version=";
      value(at, XlatId::kCapVersions, header[0]);
      at.out += ", pid=";
      put_decimal(at.out, static_cast<int32_t>(header[1]));
      at.out += '}';
      return true;
    }
    case kCapDataIn: case kCapDataOut: {
      uint32_t data[6] = {};
      uint32_t version = 0;
      const bool wide = fetch(at, at.value(0), version) && version != 0x19980330;
      if ((at.kind(at.index) == kCapDataOut && failed) || !fetch(at, address, data, wide ? 24 : 12)) {
        put_address(at.out, address);
        return true;
      }
      static constexpr std::string_view kNames[] = {"{effective=", ", permitted=", ", inheritable="};
      for (size_t i = 0; i < 3; ++i) {
        at.out += kNames[i];
        put_capabilities(at.out, data[i] | uint64_t{data[i + 3]} << 32);
      }
      at.out += '}';
      return true;
    }
    case kGidListIn: case kGidListOut: {
      const bool out = at.kind(at.index) == kGidListOut;
      const uint64_t count = out ? result : static_cast<uint32_t>(at.value(0));
      if ((out && failed) || address == 0 || count > 65536) {
        put_address(at.out, address);
        return true;
      }
      at.out += '[';
      for (uint64_t i = 0; i < count; ++i) {
        if (i != 0) at.out += ", ";
        uint32_t id = 0;
        if (i >= options_.string_limit || !fetch(at, address + i * 4, id)) {
          at.out += "...";
          break;
        }
        put_unsigned(at.out, id);
      }
      at.out += ']';
      return true;
    }
    case kOpenHow: {
      struct { uint64_t flags, mode, resolve; } how{};
      if (at.value(at.index + 1) < sizeof how || !fetch(at, address, how)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{flags=";
      value(at, XlatId::kOpenModes, how.flags & 3);
      if ((how.flags & ~uint64_t{3}) != 0) {
        at.out += '|';
        flags(at, XlatId::kOpenFlags, how.flags & ~uint64_t{3});
      }
      if ((how.flags & (0100 | 020000000)) != 0 || how.mode != 0) {
        at.out += ", mode=";
        put_mode(at.out, how.mode);
      }
      at.out += ", resolve=";
      flags(at, XlatId::kResolveFlags, how.resolve);
      at.out += '}';
      return true;
    }
    case kTidOut:
      put_address(at.out, address);
      return true;
    default: return false;
  }
}

}  // namespace srun::trace
