#include "trace/decoder.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "kernel/remote_memory.h"
#include "trace/fd_names.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

enum class Show : uint8_t { kNone, kFlags, kValue };
struct Named {
  kernel::ArgKind kind;
  Show show;
  XlatId table;
};
// Kinds that are nothing but names.
constexpr Named kNamed[] = {
    {kDescriptorFlags, Show::kFlags, XlatId::kOpenFlags},
    {kCloseRangeFlags, Show::kFlags, XlatId::kCloseRangeFlags},
    {kFcntlCmd, Show::kValue, XlatId::kFcntlCommands},
    {kAccessMode, Show::kFlags, XlatId::kAccessModes},
    {kWhence, Show::kValue, XlatId::kWhences},
    {kStatxMask, Show::kFlags, XlatId::kStatxMasks},
    {kFlockOp, Show::kFlags, XlatId::kFlockOps},
    {kFallocateMode, Show::kFlags, XlatId::kFallocateModes},
    {kFadvice, Show::kValue, XlatId::kFadvices},
    {kRenameFlags, Show::kFlags, XlatId::kRenameFlags},
    {kSpliceFlags, Show::kFlags, XlatId::kSpliceFlags},
    {kSyncFileRangeFlags, Show::kFlags, XlatId::kSyncFileRangeFlags},
    {kRwFlags, Show::kFlags, XlatId::kRwFlags},
    {kPipeFlags, Show::kFlags, XlatId::kOpenFlags},
    {kXattrFlags, Show::kFlags, XlatId::kXattrFlags},
    {kInotifyFlags, Show::kFlags, XlatId::kInotifyFlags},
    {kInotifyMask, Show::kFlags, XlatId::kInotifyMasks},
    {kUmountFlags, Show::kFlags, XlatId::kUmountFlags},
    {kEpollFlags, Show::kFlags, XlatId::kEpollFlags},
    {kEpollOp, Show::kValue, XlatId::kEpollOps},
    {kEventFdFlags, Show::kFlags, XlatId::kEventFdFlags},
    {kMmapProt, Show::kFlags, XlatId::kMmapProt},
    {kMremapFlags, Show::kFlags, XlatId::kMremapFlags},
    {kMadvice, Show::kValue, XlatId::kMadvices},
    {kMsyncFlags, Show::kFlags, XlatId::kMsyncFlags},
    {kMlockFlags, Show::kFlags, XlatId::kMlockFlags},
    {kMlockallFlags, Show::kFlags, XlatId::kMlockallFlags},
    {kMemfdFlags, Show::kFlags, XlatId::kMemfdFlags},
    {kIdType, Show::kValue, XlatId::kIdTypes},
    {kWaitOptions, Show::kFlags, XlatId::kWaitOptions},
    {kNamespaceFlags, Show::kFlags, XlatId::kNamespaceFlags},
    {kNamespaceType, Show::kFlags, XlatId::kNamespaceFlags},
    {kPidfdFlags, Show::kFlags, XlatId::kPidfdFlags},
    {kPrctlOption, Show::kValue, XlatId::kPrctlOptions},
    {kArchPrctlOption, Show::kValue, XlatId::kArchPrctlOptions},
    {kPtraceRequest, Show::kValue, XlatId::kPtraceRequests},
    {kMembarrierCmd, Show::kValue, XlatId::kMembarrierCommands},
    {kResource, Show::kValue, XlatId::kResources},
    {kRusageWho, Show::kValue, XlatId::kRusageWho},
    {kPriorityWhich, Show::kValue, XlatId::kPriorityWhich},
    {kIoprioWhich, Show::kValue, XlatId::kIoprioWhich},
    {kSigmaskHow, Show::kValue, XlatId::kSigmaskHow},
    {kSignalFdFlags, Show::kFlags, XlatId::kSignalFdFlags},
    {kClockId, Show::kValue, XlatId::kClockIds},
    {kTimerFlags, Show::kFlags, XlatId::kTimerFlags},
    {kTimerFdFlags, Show::kFlags, XlatId::kTimerFdFlags},
    {kTimerFdSetFlags, Show::kFlags, XlatId::kTimerFdSetFlags},
    {kItimerWhich, Show::kValue, XlatId::kItimerWhich},
    {kSocketFamily, Show::kValue, XlatId::kAddressFamilies},
    {kSocketFlags, Show::kFlags, XlatId::kSocketFlags},
    {kSocketLevel, Show::kValue, XlatId::kSocketLevels},
    {kMsgFlags, Show::kFlags, XlatId::kMsgFlags},
    {kShutdownHow, Show::kValue, XlatId::kShutdownHow},
    {kMountFlags, Show::kFlags, XlatId::kMountFlags},
    {kSeccompOp, Show::kValue, XlatId::kSeccompOps},
    {kGetrandomFlags, Show::kFlags, XlatId::kGetrandomFlags},
    {kShmatFlags, Show::kFlags, XlatId::kShmatFlags},
    {kIpcCmd, Show::kValue, XlatId::kIpcCommands},
};
constexpr size_t kKindCount = static_cast<size_t>(kSysinfoOut) + 1;
constexpr auto kNamedByKind = [] {
  std::array<Named, kKindCount> table{};
  for (const Named& row : kNamed) table[static_cast<size_t>(row.kind)] = row;
  return table;
}();

// Written by the call: shown at exit (R6, R29).
constexpr kernel::ArgKind kWritten[] = {
    kIntOut,       kUintOut,     kSizeOut,       kSizeInOut,     kFdPairOut,    kBufferOut,      kIovecOut,     kOffsetOut,
    kStatOut,     kStatxOut,      kStatfsOut,     kDentsOut,     kFileAttrOut,    kEpollEventsOut, kWaitStatusOut,
    kUidOut,       kGidOut,      kUid16Out,      kGid16Out,      kGidListOut,   kGid16ListOut,   kCapDataOut,   kRlimitOut,
    kRusageOut,    kSchedParamOut, kSchedAttrOut, kCpuMaskOut,   kSigsetOut,    kSigactionOut,   kSigaltstackOut, kSiginfoOut,
    kTimerIdOut,   kItimervalOut, kItimerspecOut, kTimespecOut,  kTimevalOut,   kTimezoneOut,    kTimeOut,      kTimexInOut,
    kTmsOut,       kSockoptOut,  kSockaddrOut,   kSockLenInOut,  kMsghdrOut,    kMmsghdrOut,     kSysvMsgOut,   kMqAttrOut,
    kUtsnameOut,   kSysinfoOut,  kMempolicyModeOut, kNodeMaskOut, kFileHandleInOut,
};
constexpr auto kWrittenByKind = [] {
  std::array<bool, kKindCount> table{};
  for (const kernel::ArgKind kind : kWritten) table[static_cast<size_t>(kind)] = true;
  return table;
}();

}  // namespace

bool Decoder::fetch(const At& at, uint64_t address, void* to, size_t size) const {
  if (address == 0) return false;
  return kernel::read_memory(at.call.tid, address, {static_cast<std::byte*>(to), size}) == static_cast<ssize_t>(size);
}

void Decoder::entry(const Call& call, Line& line) { run(call, line, false); }

void Decoder::exit(const Call& call, Line& line) { run(call, line, true); }

void Decoder::run(const Call& call, Line& line, bool exiting) {
  if (call.row == nullptr) {
    if (exiting) return;
    for (int i = 0; i < 6; ++i) {
      line.begin(i);
      put_hex(line.text, call.args[static_cast<size_t>(i)]);
      line.end();
    }
    return;
  }
  At at{call, line, line.text, kernel::arguments(*call.row, kernel::kNativeArch), exiting, 0};
  // Which argument comes next is what `registers` of the last one says, as some are left out or merged.
  at.index = line.count == 0 ? 0 : line.registers[static_cast<size_t>(line.count) - 1] + 1;
  line.more_follows = false;
  if (call.row->name == "clone") {
    clone_flags(at);
    return;
  }
  if (call.row->name == "clone3" && exiting && line.count == 1) {
    // What the kernel wrote is shown behind the structure that it was given.
    at.index = 0;
    clone_args(at, call.args[0], call.args[1]);
    line.ends[0] = static_cast<uint32_t>(line.text.size());
    line.begin(1);
    put_unsigned(line.text, call.args[1]);
    line.end();
    return;
  }
  if (call.row->name == "sendfile" && exiting && line.count == 3) {
    int64_t offset = 0;
    if (!call.failed && call.result != 0 && fetch(at, call.args[2], offset)) {
      line.text += " => [";
      put_decimal(line.text, offset);
      line.text += ']';
      line.ends[2] = static_cast<uint32_t>(line.text.size());
    }
    at.index = 3;
  }
  if (call.row->name == "restart_syscall" && !exiting) {
    line.begin(-1);
    line.text += "<... resuming interrupted ";
    line.text += call.previous == nullptr ? std::string_view("system call") : call.previous->name;
    line.text += " ...>";
    line.end();
    line.registers[0] = 0;
    return;
  }
  if (call.row->name == "rt_sigreturn" && !exiting) {
    // struct rt_sigframe (arch/x86/include/asm/sigframe.h): the return address has been popped, the mask is at 296.
#if defined(__x86_64__)
    constexpr uint64_t kMaskOffset = 296;
#else
    constexpr uint64_t kMaskOffset = 128 + 40;  // siginfo, then uc_flags, uc_link and uc_stack
#endif
    line.begin(-1);
    uint64_t mask = 0;
    if (fetch(at, call.stack_pointer + kMaskOffset, mask)) {
      line.text += "{mask=";
      put_signal_set(line.text, mask);
      line.text += '}';
    } else {
      put_hex(line.text, call.stack_pointer);
    }
    line.end();
    line.registers[0] = 0;
    return;
  }
  if (exiting || line.count == 0) {
    for (; at.index < at.args.count; ++at.index) {
      if (omitted(at)) continue;
      if (!exiting && waits_for_exit(at)) {
        line.more_follows = true;
        return;
      }
      if (!exiting && at.index == 1 && call.row->name == "clone3") return;
      if (!exiting && at.index == 3 && call.row->name == "sendfile" && line.text.ends_with(']')) return;
      line.begin(at.index);
      put_argument(at);
      line.end();
    }
  }
  if (exiting) finish_special(at);
}

bool Decoder::waits_for_exit(const At& at) {
  const kernel::ArgKind kind = at.kind(at.index);
  const std::string_view name = at.call.row->name;
  if (kind == kTimespecInOut) return name == "nanosleep" || name == "clock_nanosleep";
  if (kind == kPrctlArg) {
    if (name == "arch_prctl") return at.value(0) == 0x1003 || at.value(0) == 0x1004;
    switch (at.value(0)) {
      case 2: case 5: case 9: case 11: case 16: case 19: case 25: case 37: case 40: return at.index == 1;
      default: return false;
    }
  }
  if (kind == kFcntlArg) return at.value(1) == F_GETLK || at.value(1) == 36 || at.value(1) == 16;
  if (kind == kIoctlArg) {
    switch (static_cast<uint32_t>(at.value(1))) {
      case 0x5401: case 0x5405: case 0x540f: case 0x5413: case 0x5411: case 0x541b: case 0x5415: case 0x5429: case 0x80045430:
      case 0x80045439: case 0x80081272: case 0x80086601: return true;
      default: return false;
    }
  }
  if (kind == kSockLenInOut || kind == kSockaddrOut) return true;
  if (kind == kTidOut) return false;
  return kWrittenByKind[static_cast<size_t>(kind)];
}

bool Decoder::omitted(const At& at) const {
  const std::string_view name = at.call.row->name;
  switch (at.kind(at.index)) {
    case kMode:
      if (name == "open") return (at.value(1) & O_CREAT) == 0 && (at.value(1) & 020000000) == 0;
      if (name == "openat") return (at.value(2) & O_CREAT) == 0 && (at.value(2) & 020000000) == 0;
      return false;
    case kDevice:
      if (name == "mknod" || name == "mknodat") {
        const uint64_t mode = at.value(at.index - 1) & S_IFMT;
        return mode != S_IFCHR && mode != S_IFBLK;
      }
      return false;
    case kFcntlArg:
      switch (at.value(1)) {
        case F_GETFD: case F_GETFL: case F_GETOWN: case 11: case 1025: case 1032: case 1034: return true;
        default: return false;
      }
    case kIoctlArg:
      switch (static_cast<uint32_t>(at.value(1))) {
        case 0x5450: case 0x5451: case 0x540c: case 0x540d: case 0x5422: return true;  // FIOCLEX and others without one
        default: return false;
      }
    case kInt: return name == "membarrier" && at.index == 2;
    case kPrctlArg: {
      if (name == "arch_prctl") return false;
      int count = 4;
      switch (at.value(0)) {
        case 3: case 7: case 13: case 21: case 27: case 30: case 31: case 32: case 46: case 51: case 66: count = 0; break;
        case 1: case 2: case 4: case 5: case 6: case 8: case 9: case 10: case 11: case 12: case 14: case 15: case 16: case 19:
        case 20: case 23: case 24: case 25: case 26: case 28: case 29: case 36: case 37: case 40: case 0x59616d61: case 45: case 50:
          count = 1; break;
        case 22: count = at.value(1) == 1 ? 1 : 2; break;
        default: count = 4;
      }
      return at.index > count;
    }
    case kFutexValue: case kFutexTimeout: case kFutexWord:
      if (name == "futex" && at.index >= 2) {
        int count = 6;
        switch (at.value(1) & 0x7f) {
          case 0: count = 4; break;
          case 1: case 2: count = 3; break;
          case 9: count = 6; break;
          case 10: count = 6; break;
          case 3: count = 5; break;
          case 4: case 5: case 12: count = 6; break;
          case 6: case 13: count = 4; break;
          case 7: case 8: count = 2; break;
          case 11: count = 5; break;
          default: count = 6;
        }
        if ((at.value(1) & 0x7f) == 9 && at.index == 4) return true;
        if ((at.value(1) & 0x7f) == 10 && (at.index == 3 || at.index == 4)) return true;
        return at.index >= count;
      }
      return false;
    case kAddress:
      if (name == "mremap") return at.index == 4 && (at.value(3) & 6) == 0;
      return false;
    default: return false;
  }
}

void Decoder::put_argument(At& at) {
  if (put_special(at)) return;
  const Named& named = kNamedByKind[static_cast<size_t>(at.kind(at.index))];
  if (named.show != Show::kNone) {
    uint64_t number = at.value();
    const kernel::Width width = at.args.args[static_cast<size_t>(at.index)].width;
    if (width == kernel::Width::kU32 || width == kernel::Width::kS32) number = static_cast<uint32_t>(number);
    return named.show == Show::kFlags ? flags(at, named.table, number) : value(at, named.table, number);
  }
  if (put_scalar(at) || put_socket(at) || put_memory(at)) return;
  put_address(at.out, at.value());
}

// What an open file looks like in the target (R28). `fd` may be anything.
void Decoder::put_fd(std::string& out, pid_t tid, int fd) {
  put_decimal(out, fd);
  if (options_.fds != FdNames::kNone && fd >= 0) put_fd_name(out, tid, fd, options_.fds == FdNames::kAll);
}

bool Decoder::put_scalar(At& at) {
  const uint64_t number = at.value();
  switch (at.kind(at.index)) {
    case kInt: case kId: case kExitStatus: case kMilliseconds: case kPid: case kTimerId: case kTargetFd: case kKeySerial: case kIpcId:
      put_decimal(at.out, static_cast<int32_t>(number));
      return true;
    case kUint: case kSeconds: case kFutexValue:
      put_unsigned(at.out, static_cast<uint32_t>(number));
      return true;
    case kLong: case kOffset: put_decimal(at.out, static_cast<int64_t>(number)); return true;
    case kUlong: case kSize: case kSigsetSize:
      // int-typed lengths are read at their own width.
      if (at.args.args[static_cast<size_t>(at.index)].width == kernel::Width::kS32)
        put_decimal(at.out, static_cast<int32_t>(number));
      else if (at.args.args[static_cast<size_t>(at.index)].width == kernel::Width::kU32)
        put_unsigned(at.out, static_cast<uint32_t>(number));
      else
        put_unsigned(at.out, number);
      return true;
    case kFlags:
      put_hex(at.out, static_cast<uint32_t>(number));
      return true;
    case kFd: case kPidFd:
      put_fd(at.out, at.call.tid, static_cast<int>(number));
      return true;
    case kDirFd:
      if (static_cast<int>(number) == AT_FDCWD) {
        at.out += options_.xlat == XlatStyle::kRaw ? "-100" : options_.xlat == XlatStyle::kVerbose ? "-100 /* AT_FDCWD */" : "AT_FDCWD";
        if (options_.fds != FdNames::kNone) put_directory_name(at.out, at.call.tid);
      } else {
        put_fd(at.out, at.call.tid, static_cast<int>(number));
      }
      return true;
    case kSockLen: put_decimal(at.out, static_cast<int32_t>(number)); return true;
    case kUid: case kGid: put_decimal(at.out, static_cast<int32_t>(number)); return true;
    case kSignal: put_signal(at.out, static_cast<uint32_t>(number)); return true;
    case kOpenFlags: {
      const auto bits = static_cast<uint32_t>(number);
      if (options_.xlat == XlatStyle::kRaw) {
        put_hex(at.out, bits);
        return true;
      }
      value(at, XlatId::kOpenModes, bits & 3);
      if ((bits & ~3u) != 0) {
        at.out += '|';
        const size_t start = at.out.size();
        flags(at, XlatId::kOpenFlags, bits & ~3u);
        const size_t comment = at.out.find(" /* O_???", start);
        if (comment != std::string::npos) at.out.resize(comment);
      }
      return true;
    }
    case kMode:
      if (at.call.row->name.starts_with("mknod"))
        put_file_mode(at.out, static_cast<uint16_t>(number), options_.xlat);
      else
        put_mode(at.out, static_cast<uint16_t>(number));
      return true;
    case kAtFlags:
      if (at.call.row->name == "statx" && options_.xlat == XlatStyle::kAbbrev) {
        const auto bits = static_cast<uint32_t>(number);
        value(at, XlatId::kStatxSync, bits & 0x6000);
        if ((bits & ~0x6000u) != 0) {
          at.out += '|';
          flags(at, XlatId::kAtFlags, bits & ~0x6000u);
        }
        return true;
      }
      flags(at, at.call.row->name.starts_with("faccessat") ? XlatId::kAccessAtFlags : XlatId::kAtFlags, static_cast<uint32_t>(number));
      return true;
    case kMmapFlags: {
      if (options_.xlat == XlatStyle::kRaw) {
        put_hex(at.out, number);
        return true;
      }
      value(at, XlatId::kMmapTypes, number & 0xf);
      uint64_t rest = number & ~uint64_t{0xf};
      const bool huge = (rest & 0x40000) != 0;
      const uint64_t size_bits = huge ? rest >> 26 & 0x3f : 0;
      if (huge) rest &= ~(uint64_t{0x3f} << 26);
      if (rest != 0) {
        at.out += '|';
        const size_t start = at.out.size();
        flags(at, XlatId::kMmapFlags, rest);
        const size_t comment = at.out.find(" /* MAP_???", start);
        if (comment != std::string::npos) at.out.resize(comment);
      }
      if (size_bits != 0) {
        at.out += '|';
        put_unsigned(at.out, size_bits);
        at.out += "<<MAP_HUGE_SHIFT";
      }
      return true;
    }
    case kPageOffset: put_hex(at.out, number); return true;
    case kDevice:
      if (number == 0) {
        at.out += '0';
      } else {
        at.out += "makedev(";
        put_hex(at.out, (number >> 8 & 0xfff));
        at.out += ", ";
        put_hex(at.out, (number & 0xff) | (number >> 12 & 0xfff00));
        at.out += ')';
      }
      return true;
    case kSchedPolicy: value(at, XlatId::kSchedPolicies, static_cast<uint32_t>(number)); return true;
    case kPath: path(at, number); return true;
    case kLinkTarget: path(at, number); return true;
    case kString: case kXattrName: case kMqName: case kMountSource: string(at, number); return true;
    case kMountData: string(at, number); return true;
    case kArgv: string_array(at, number); return true;
    case kEnvp: environment(at, number); return true;
    case kSocketType: {
      const auto bits = static_cast<uint32_t>(number);
      if (options_.xlat == XlatStyle::kRaw) {
        put_hex(at.out, bits);
        return true;
      }
      value(at, XlatId::kSocketTypes, bits & 0xf);
      if ((bits & ~0xfu) != 0) {
        at.out += '|';
        flags(at, XlatId::kSocketFlags, bits & ~0xfu);
      }
      return true;
    }
    case kSocketProtocol: {
      const auto family = static_cast<uint32_t>(at.value(0));
      if (family == 2 || family == 10)
        value(at, XlatId::kInetProtocols, static_cast<uint32_t>(number));
      else if (family == 16)
        value(at, XlatId::kNetlinkProtocols, static_cast<uint32_t>(number));
      else
        put_unsigned(at.out, static_cast<uint32_t>(number));
      return true;
    }
    default: return false;
  }
}

void Decoder::path(At& at, uint64_t address) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  char buffer[PATH_MAX + 1];
  std::string_view text;
  const int failed = kernel::read_string(at.call.tid, address, std::span(buffer, PATH_MAX), text);
  if (failed == 0) return put_quoted(at.out, text, false, options_.hex);
  if (failed == -ENAMETOOLONG) {
    const ssize_t got = kernel::read_memory(at.call.tid, address, std::as_writable_bytes(std::span(buffer, PATH_MAX)));
    if (got == PATH_MAX) return put_quoted(at.out, std::string_view(buffer, PATH_MAX - 1), true, options_.hex);
  }
  put_hex(at.out, address);
}

void Decoder::string(At& at, uint64_t address) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  const size_t wanted = options_.string_limit + 1;
  scratch_.resize(wanted);
  const ssize_t got = kernel::read_memory(at.call.tid, address, std::as_writable_bytes(std::span(scratch_.data(), wanted)));
  if (got <= 0) return put_hex(at.out, address);
  const void* const nul = std::memchr(scratch_.data(), 0, static_cast<size_t>(got));
  if (nul == nullptr && static_cast<size_t>(got) < wanted) return put_hex(at.out, address);
  const size_t length = nul == nullptr ? options_.string_limit : static_cast<size_t>(static_cast<const char*>(nul) - scratch_.data());
  put_quoted(at.out, std::string_view(scratch_).substr(0, std::min(length, options_.string_limit)), length > options_.string_limit || nul == nullptr,
             options_.hex);
}

// R19: a buffer of known length.
void Decoder::bytes(At& at, uint64_t address, uint64_t length) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  const size_t wanted = std::min<uint64_t>(length, options_.string_limit);
  scratch_.resize(wanted);
  if (wanted != 0) {
    const ssize_t got = kernel::read_memory(at.call.tid, address, std::as_writable_bytes(std::span(scratch_.data(), wanted)));
    if (got != static_cast<ssize_t>(wanted)) return put_hex(at.out, address);
  }
  put_quoted(at.out, scratch_, length > wanted, options_.hex);
}

void Decoder::hex_bytes(At& at, uint64_t address, uint64_t length) {
  const HexStrings before = options_.hex;
  options_.hex = HexStrings::kAlways;
  bytes(at, address, length);
  options_.hex = before;
}

void Decoder::string_array(At& at, uint64_t address) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  uint64_t pointer = 0;
  if (!fetch(at, address, pointer)) return put_hex(at.out, address);
  at.out += '[';
  for (size_t i = 0; pointer != 0; ++i) {
    if (i != 0) at.out += ", ";
    if (i >= options_.string_limit) {
      at.out += "...";
      break;
    }
    string(at, pointer);
    const uint64_t next = address + (i + 1) * sizeof pointer;
    if (!fetch(at, next, pointer)) {
      at.out += ", ... /* ";
      put_hex(at.out, next);
      at.out += " */";
      break;
    }
  }
  at.out += ']';
}

void Decoder::environment(At& at, uint64_t address) {
  if (address == 0) {
    at.out += "NULL";
    return;
  }
  if (options_.verbose) return string_array(at, address);
  put_hex(at.out, address);
  // Read in blocks; a list without an end is cut at what execve() itself would take (2 MiB of pointers).
  constexpr size_t kBlock = 64;
  constexpr size_t kMost = 256 * 1024;
  uint64_t pointers[kBlock];
  size_t count = 0;
  bool ended = false;
  bool unreadable = false;
  while (!ended && !unreadable && count < kMost) {
    const ssize_t got = kernel::read_memory(at.call.tid, address + count * 8, std::as_writable_bytes(std::span(pointers)));
    if (got < 8) {
      unreadable = true;
      break;
    }
    for (size_t i = 0; i < static_cast<size_t>(got) / 8; ++i) {
      if (pointers[i] == 0) {
        ended = true;
        break;
      }
      ++count;
    }
  }
  if (unreadable && count == 0) return;
  at.out += " /* ";
  put_unsigned(at.out, count);
  at.out += count == 1 ? " var" : " vars";
  if (unreadable) at.out += ", unterminated";
  at.out += " */";
}

}  // namespace srun::trace
