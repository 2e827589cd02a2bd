// What a pointer leads to, by argument kind.
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstring>

#include "kernel/remote_memory.h"
#include "trace/decode_times.h"
#include "trace/decoder.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

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
    case kIovecIn:
      iovec(at, address, at.value(at.index + 1), UINT64_MAX);
      return true;
    case kIovecOut:
      if (failed) {
        iovec(at, address, at.value(at.index + 1), kNothing);
      } else {
        iovec(at, address, at.value(at.index + 1), result);
      }
      return true;
    case kIntOut:
      if (written()) number_at(int32_t{}, false);
      return true;
    case kUintOut:
      if (written()) number_at(uint32_t{}, true);
      return true;
    case kSizeOut:
    case kSizeInOut:
      if (written()) number_at(uint64_t{}, true);
      return true;
    case kOffsetOut:
      if (written()) number_at(int64_t{}, false);
      return true;
    case kOffsetInOut:
      number_at(int64_t{}, false);
      return true;
    case kUidOut:
    case kGidOut:
      if (written()) number_at(int32_t{}, false);
      return true;
    case kTimerIdOut:
      if (written()) number_at(int32_t{}, false);
      return true;
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
    case kStatOut:
      if (written()) stat(at, address);
      return true;
    case kStatxOut:
      if (written()) statx(at, address);
      return true;
    case kStatfsOut: {
      struct statfs fs {};
      if (failed || !fetch(at, address, fs)) {
        put_address(at.out, address);
        return true;
      }
      at.out += "{f_type=";
      value(at, XlatId::kStatfsMagic, static_cast<uint64_t>(fs.f_type));
      const struct {
        std::string_view name;
        uint64_t number;
      } fields[] = {{", f_bsize=", static_cast<uint64_t>(fs.f_bsize)},
                    {", f_blocks=", fs.f_blocks},
                    {", f_bfree=", fs.f_bfree},
                    {", f_bavail=", fs.f_bavail},
                    {", f_files=", fs.f_files},
                    {", f_ffree=", fs.f_ffree}};
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
    case kSigsetIn:
      sigset(at, address, at.args.args[static_cast<size_t>(at.index)].kind == kSigsetIn ? 8 : 0);
      return true;
    case kSigsetOut:
      if (written()) sigset(at, address, 8);
      return true;
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
    case kSigactionIn:
      sigaction(at, address);
      return true;
    case kSigactionOut:
      if (written()) sigaction(at, address);
      return true;
    case kSiginfoIn:
      siginfo_at(at, address);
      return true;
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
    case kSigaltstackIn:
    case kSigaltstackOut: {
      struct {
        uint64_t sp;
        int32_t flags, pad;
        uint64_t size;
      } stack{};
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
    case kTimespecIn:
    case kTimespecInOut:
      timespec(at, address, false);
      return true;
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
    case kTimevalIn:
    case kTimevalInOut:
      timeval(at, address);
      return true;
    case kTimevalOut:
      if (written()) timeval(at, address);
      return true;
    case kTimezoneIn:
    case kTimezoneOut: {
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
    case kTimespecPairIn:
    case kTimevalPairIn: {
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
    case kTimeOut:
    case kTimeIn: {
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
    case kItimervalIn:
    case kItimervalOut:
    case kItimerspecIn:
    case kItimerspecOut: {
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
    case kRlimitIn:
      rlimit(at, address);
      return true;
    case kRlimitOut:
      if (written()) rlimit(at, address);
      return true;
    case kRusageOut:
      if ((at.call.row->name == "wait4" || at.call.row->name == "waitid") && at.call.result == 0 &&
          at.call.row->name == "wait4") {
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
    case kFdSetInOut:
      fd_set(at, address, static_cast<int>(at.value(0)));
      return true;
    case kPollfdInOut:
      pollfds(at, address, static_cast<uint32_t>(at.value(at.index + 1)));
      return true;
    case kEpollEventIn: {
      struct epoll_event event {};
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
      struct epoll_event event {};
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
    case kCpuMaskIn:
      cpu_mask(at, address, static_cast<uint32_t>(at.value(at.index - 1)));
      return true;
    case kCpuMaskOut:
      if (written()) cpu_mask(at, address, result);
      return true;
    case kSchedParamIn:
    case kSchedParamOut: {
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
      struct utsname name {};
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
      struct sysinfo info {};
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
      const struct {
        std::string_view name;
        uint64_t number;
      } fields[] = {{"], totalram=", info.totalram},  {", freeram=", info.freeram},
                    {", sharedram=", info.sharedram}, {", bufferram=", info.bufferram},
                    {", totalswap=", info.totalswap}, {", freeswap=", info.freeswap},
                    {", procs=", info.procs},         {", totalhigh=", info.totalhigh},
                    {", freehigh=", info.freehigh},   {", mem_unit=", info.mem_unit}};
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
    case kCapDataIn:
    case kCapDataOut: {
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
    case kGidListIn:
    case kGidListOut: {
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
      struct {
        uint64_t flags, mode, resolve;
      } how{};
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
    default:
      return false;
  }
}

}  // namespace srun::trace
