// The calls whose arguments mean something only together: fcntl, ioctl, futex, prctl, clone, clone3, and what is said
// about results.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "kernel/remote_memory.h"
#include "trace/decoder.h"

namespace srun::trace {
namespace {

using enum kernel::ArgKind;

struct KernelTermios {  // struct termios of <asm/termbits.h>
  uint32_t iflag, oflag, cflag, lflag;
  uint8_t line;
  uint8_t cc[19];
};
static_assert(sizeof(KernelTermios) == 36);

constexpr std::string_view kBaudRates[] = {"B0",    "B50",   "B75",   "B110",  "B134",  "B150",  "B200",   "B300",
                                           "B600",  "B1200", "B1800", "B2400", "B4800", "B9600", "B19200", "B38400"};

bool returns_descriptor(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "accept", "accept4", "bpf", "creat", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "eventfd", "eventfd2",
      "fanotify_init", "fsmount", "fsopen", "fspick", "inotify_init", "inotify_init1", "io_uring_setup",
      "landlock_create_ruleset", "memfd_create", "memfd_secret", "mq_open", "open", "open_by_handle_at", "open_tree", "openat",
      "openat2", "perf_event_open", "pidfd_getfd", "pidfd_open", "signalfd", "signalfd4", "socket", "timerfd_create",
      "userfaultfd"};
  return std::binary_search(std::begin(kNames), std::end(kNames), name);
}

}  // namespace

void Decoder::clone_flags(At& at) {
  // Two registers in the other order, and the rest only where a flag asks for it.
  Line& line = at.line;
  const uint64_t bits = at.value(0);
  if (!at.exiting) {
    line.begin(1);
    at.out += "child_stack=";
    put_address(at.out, at.value(1));
    line.end();
    line.begin(0);
    at.out += "flags=";
    const uint64_t named = static_cast<uint32_t>(bits) & ~uint32_t{0xff};
    if (named != 0 || (bits & 0xff) == 0) flags(at, XlatId::kCloneFlags1, named);
    if ((bits & 0xff) != 0) {
      if (named != 0) at.out += '|';
      put_signal(at.out, bits & 0xff);
    }
    line.end();
    line.more_follows = false;
    return;
  }
#if defined(__x86_64__)
  constexpr int kChildTid = 3, kTls = 4;
#else
  constexpr int kChildTid = 4, kTls = 3;
#endif
  if ((bits & (CLONE_PARENT_SETTID | CLONE_PIDFD)) != 0) {
    line.begin(2);
    at.out += "parent_tid=";
    int32_t tid = 0;
    if (!at.call.failed && fetch(at, at.value(2), tid)) {
      at.out += '[';
      if ((bits & CLONE_PARENT_SETTID) != 0)
        put_unsigned(at.out, static_cast<uint32_t>(tid));
      else
        put_fd(at.out, at.call.tid, tid);
      at.out += ']';
    } else {
      put_address(at.out, at.value(2));
    }
    line.end();
  }
  if ((bits & CLONE_SETTLS) != 0) {
    line.begin(kTls);
    at.out += "tls=";
    put_hex(at.out, at.value(kTls));
    line.end();
  }
  if ((bits & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) != 0) {
    line.begin(kChildTid);
    at.out += "child_tidptr=";
    put_address(at.out, at.value(kChildTid));
    line.end();
  }
}

void Decoder::clone_args(At& at, uint64_t address, uint64_t size) {
  struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
  } args{};
  const size_t length = std::min<uint64_t>(size, sizeof args);
  if (length < 64 || !fetch(at, address, &args, length)) return put_address(at.out, address);
  if (!at.exiting) {
    at.out += "{flags=";
    flags(at, XlatId::kCloneFlags, args.flags);
    if ((args.flags & CLONE_PIDFD) != 0) {
      at.out += ", pidfd=";
      put_address(at.out, args.pidfd);
    }
    if ((args.flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) != 0) {
      at.out += ", child_tid=";
      put_address(at.out, args.child_tid);
    }
    if ((args.flags & CLONE_PARENT_SETTID) != 0) {
      at.out += ", parent_tid=";
      put_address(at.out, args.parent_tid);
    }
    at.out += ", exit_signal=";
    put_signal(at.out, args.exit_signal);
    at.out += ", stack=";
    put_address(at.out, args.stack);
    at.out += ", stack_size=";
    put_hex(at.out, args.stack_size);
    if ((args.flags & CLONE_SETTLS) != 0) {
      at.out += ", tls=";
      put_address(at.out, args.tls);
    }
    if (args.set_tid != 0 || args.set_tid_size != 0) {
      at.out += ", set_tid=";
      put_address(at.out, args.set_tid);
      at.out += ", set_tid_size=";
      put_unsigned(at.out, args.set_tid_size);
    }
    if ((args.flags & 0x200000000ULL) != 0) {
      at.out += ", cgroup=";
      put_unsigned(at.out, args.cgroup);
    }
    at.out += '}';
    return;
  }
  if (at.call.failed) return;
  int32_t number = 0;
  const bool pidfd = (args.flags & CLONE_PIDFD) != 0 && fetch(at, args.pidfd, number);
  const int32_t fd = number;
  const bool parent = (args.flags & CLONE_PARENT_SETTID) != 0 && fetch(at, args.parent_tid, number);
  if (!pidfd && !parent) return;
  at.out += " => {";
  if (pidfd) {
    at.out += "pidfd=[";
    put_fd(at.out, at.call.tid, fd);
    at.out += ']';
  }
  if (parent) {
    if (pidfd) at.out += ", ";
    at.out += "parent_tid=[";
    put_decimal(at.out, number);
    at.out += ']';
  }
  at.out += '}';
}

void Decoder::futex(At& at) {
  const auto op = static_cast<uint32_t>(at.value(1));
  const uint32_t command = op & 0x7f;
  switch (at.index) {
    case 0: case 4: return put_address(at.out, at.value());
    case 1: {
      if (options_.xlat == XlatStyle::kRaw) return put_hex(at.out, op);
      const std::string_view name = xlat_name(XlatId::kFutexOps, command);
      if (name.empty()) {
        put_hex(at.out, op);
        at.out += " /* FUTEX_??? */";
        return;
      }
      at.out += name;
      if ((op & 128) != 0) at.out += "_PRIVATE";
      if ((op & 256) != 0) at.out += "|FUTEX_CLOCK_REALTIME";
      if ((op & ~(127u | 128u | 256u)) != 0) {
        at.out += '|';
        put_hex(at.out, op & ~(127u | 128u | 256u));
      }
      return;
    }
    case 2: return put_unsigned(at.out, static_cast<uint32_t>(at.value()));
    case 3:
      if (command > 13) return put_hex(at.out, at.value());
      if (command == 3 || command == 4 || command == 5 || command == 12) return put_unsigned(at.out, static_cast<uint32_t>(at.value()));
      return timespec(at, at.value(), false);
    default:
      if (command == 9 || command == 10) {
        const auto mask = static_cast<uint32_t>(at.value());
        if (mask == 0xffffffff && options_.xlat == XlatStyle::kAbbrev)
          at.out += "FUTEX_BITSET_MATCH_ANY";
        else
          put_hex(at.out, mask);
        return;
      }
      if (command == 5) {
        static constexpr std::string_view kOps[] = {"FUTEX_OP_SET", "FUTEX_OP_ADD", "FUTEX_OP_OR", "FUTEX_OP_ANDN", "FUTEX_OP_XOR"};
        static constexpr std::string_view kComparisons[] = {"FUTEX_OP_CMP_EQ", "FUTEX_OP_CMP_NE", "FUTEX_OP_CMP_LT",
                                                            "FUTEX_OP_CMP_LE", "FUTEX_OP_CMP_GT", "FUTEX_OP_CMP_GE"};
        const auto word = static_cast<uint32_t>(at.value());
        if ((word >> 31) != 0) at.out += "FUTEX_OP_OPARG_SHIFT<<28|";
        const uint32_t operation = word >> 28 & 7;
        if (operation < std::size(kOps)) at.out += kOps[operation]; else put_hex(at.out, operation);
        at.out += "<<28|";
        put_hex(at.out, word >> 12 & 0xfff);
        at.out += "<<12|";
        const uint32_t comparison = word >> 24 & 15;
        if (comparison < std::size(kComparisons)) at.out += kComparisons[comparison]; else put_hex(at.out, comparison);
        at.out += "<<24|";
        put_hex(at.out, word & 0xfff);
        return;
      }
      if (command > 13) return put_hex(at.out, static_cast<uint32_t>(at.value()));
      return put_unsigned(at.out, static_cast<uint32_t>(at.value()));
  }
}

void Decoder::fcntl_argument(At& at) {
  const uint64_t argument = at.value();
  switch (static_cast<uint32_t>(at.value(1))) {
    case F_SETFD: return flags(at, XlatId::kDescriptorFlags, static_cast<uint32_t>(argument));
    case F_SETFL: {
      const auto bits = static_cast<uint32_t>(argument);
      value(at, XlatId::kOpenModes, bits & 3);
      if ((bits & ~3u) != 0) {
        at.out += '|';
        flags(at, XlatId::kOpenFlags, bits & ~3u);
      }
      return;
    }
    case F_GETLK: case F_SETLK: case F_SETLKW: case 36: case 37: case 38: {
      struct flock lock{};
      if ((at.exiting && at.call.failed) || !fetch(at, argument, lock)) return put_address(at.out, argument);
      at.out += "{l_type=";
      value(at, XlatId::kLockTypes, static_cast<uint16_t>(lock.l_type));
      at.out += ", l_whence=";
      value(at, XlatId::kWhences, static_cast<uint16_t>(lock.l_whence));
      at.out += ", l_start=";
      put_decimal(at.out, lock.l_start);
      at.out += ", l_len=";
      put_decimal(at.out, lock.l_len);
      if (at.value(1) == F_GETLK || at.value(1) == 36) {
        at.out += ", l_pid=";
        put_decimal(at.out, lock.l_pid);
      }
      at.out += '}';
      return;
    }
    case 15: case 16: {
      int32_t owner[2];
      static constexpr std::string_view kTypes[] = {"F_OWNER_TID", "F_OWNER_PID", "F_OWNER_PGRP"};
      if ((at.exiting && at.call.failed) || !fetch(at, argument, owner)) return put_address(at.out, argument);
      at.out += "{type=";
      if (owner[0] >= 0 && owner[0] < 3)
        at.out += kTypes[owner[0]];
      else
        put_hex(at.out, static_cast<uint32_t>(owner[0]));
      at.out += ", pid=";
      put_decimal(at.out, owner[1]);
      at.out += '}';
      return;
    }
    case F_SETOWN: return put_decimal(at.out, static_cast<int32_t>(argument));
    case 10: return put_signal(at.out, static_cast<uint32_t>(argument));
    case 1024: return value(at, XlatId::kLockTypes, static_cast<uint32_t>(argument));
    case 1033: return flags(at, XlatId::kSeals, static_cast<uint32_t>(argument));
    case 0: case 1030: case 1031: return put_decimal(at.out, static_cast<int32_t>(argument));
    default: return put_hex(at.out, argument);
  }
}

void Decoder::ioctl_argument(At& at) {
  const auto request = static_cast<uint32_t>(at.value(1));
  if (at.index == 1) {
    const std::string_view name = xlat_name(XlatId::kPtyRequests, request);
    if (options_.xlat == XlatStyle::kRaw) return put_hex(at.out, request);
    if (!name.empty()) {
      at.out += name;
      return;
    }
    static constexpr std::string_view kDirections[] = {"_IOC_NONE", "_IOC_WRITE", "_IOC_READ", "_IOC_READ|_IOC_WRITE"};
    at.out += "_IOC(";
    at.out += kDirections[request >> 30];
    at.out += ", ";
    put_hex(at.out, request >> 8 & 0xff);
    at.out += ", ";
    put_hex(at.out, request & 0xff);
    at.out += ", ";
    put_hex(at.out, request >> 16 & 0x3fff);
    at.out += ')';
    return;
  }
  const uint64_t argument = at.value();
  const bool usable = !at.exiting || !at.call.failed;
  switch (request) {
    case TCGETS: case TCSETS: case TCSETSW: case TCSETSF: {
      KernelTermios t{};
      if (!usable || !fetch(at, argument, t)) break;
      at.out += '{';
      const uint32_t baud = t.cflag & 0x100f;
      if (baud < std::size(kBaudRates))
        at.out += kBaudRates[baud];
      else
        put_hex(at.out, baud);
      at.out += (t.oflag & 1) != 0 ? " opost " : " -opost ";
      at.out += (t.lflag & 1) != 0 ? "isig " : "-isig ";
      at.out += (t.lflag & 2) != 0 ? "icanon " : "-icanon ";
      at.out += (t.lflag & 8) != 0 ? "echo ...}" : "-echo ...}";
      return;
    }
    case TIOCGWINSZ: case TIOCSWINSZ: {
      struct winsize size{};
      if (!usable || !fetch(at, argument, size)) break;
      at.out += "{ws_row=";
      put_unsigned(at.out, size.ws_row);
      at.out += ", ws_col=";
      put_unsigned(at.out, size.ws_col);
      at.out += ", ws_xpixel=";
      put_unsigned(at.out, size.ws_xpixel);
      at.out += ", ws_ypixel=";
      put_unsigned(at.out, size.ws_ypixel);
      at.out += '}';
      return;
    }
    case TIOCGPGRP: case TIOCSPGRP: case TIOCGSID: case FIONREAD: case FIONBIO: case FIOASYNC: case TIOCOUTQ: case 0x80045430:
    case 0x40045431: case 0x80045439: {
      int32_t number = 0;
      if (!usable || !fetch(at, argument, number)) break;
      at.out += '[';
      put_decimal(at.out, number);
      at.out += ']';
      return;
    }
    case 0x40049409: return put_fd(at.out, at.call.tid, static_cast<int>(argument));  // FICLONE
    case FIOCLEX: case FIONCLEX: case TIOCNOTTY: case TIOCEXCL: case TIOCNXCL: return put_hex(at.out, argument);
    case TCFLSH: case TCXONC: case TIOCSCTTY: case TCSBRK: return put_decimal(at.out, static_cast<int32_t>(argument));
    default: return put_hex(at.out, argument);
  }
  put_address(at.out, argument);
}

void Decoder::prctl_argument(At& at) {
  const uint64_t argument = at.value();
  const auto option = static_cast<uint32_t>(at.value(0));
  if (at.call.row->name == "arch_prctl") {
    if (option == 0x1003 || option == 0x1004) {
      uint64_t address = 0;
      if (at.call.failed || !fetch(at, argument, address)) return put_address(at.out, argument);
      at.out += '[';
      put_hex(at.out, address);
      at.out += ']';
      return;
    }
    return put_hex(at.out, argument);
  }
  if (at.index == 1) {
    switch (option) {
      case 1: return put_signal(at.out, argument);
      case 2: case 37: case 9: case 5: case 11: case 25: {
        int32_t number = 0;
        if (at.call.failed || !fetch(at, argument, number)) return put_address(at.out, argument);
        at.out += '[';
        if (option == 2)
          number == 0 ? put_decimal(at.out, 0) : put_signal(at.out, static_cast<uint32_t>(number));
        else
          put_decimal(at.out, number);
        at.out += ']';
        return;
      }
      case 4: return value(at, XlatId::kDumpable, argument);
      case 15: {
        // The kernel takes 15 bytes of it.
        const size_t limit = options_.string_limit;
        options_.string_limit = std::min<size_t>(limit, 15);
        string(at, argument);
        options_.string_limit = limit;
        return;
      }
      case 16: return at.call.failed ? put_address(at.out, argument) : string(at, argument);
      case 22: return value(at, XlatId::kSeccompModes, argument);
      case 23: case 24: return value(at, XlatId::kCapabilities, argument);
      case 8: case 36: case 38: case 41: case 29: return put_unsigned(at.out, argument);
      default: return put_hex(at.out, argument);
    }
  }
  put_hex(at.out, argument);
}

bool Decoder::put_special(At& at) {
  const std::string_view name = at.call.row->name;
  switch (at.kind(at.index)) {
    case kFutexWord: case kFutexOp: case kFutexTimeout:
      if (name != "futex") return false;
      futex(at);
      return true;
    case kFutexValue:
      if (name != "futex") return false;
      futex(at);
      return true;
    case kFcntlArg: fcntl_argument(at); return true;
    case kIoctlRequest: case kIoctlArg: ioctl_argument(at); return true;
    case kPrctlArg: prctl_argument(at); return true;
    case kCloneArgs: clone_args(at, at.value(), at.value(1)); return true;
    case kFlags:
      return false;
    case kSeccompFlags:
      if (at.value(0) == 1)
        flags(at, XlatId::kSeccompFlags, static_cast<uint32_t>(at.value()));
      else if (at.value(0) < 4)
        put_unsigned(at.out, static_cast<uint32_t>(at.value()));
      else
        put_hex(at.out, static_cast<uint32_t>(at.value()));
      return true;
    case kSeccompArg: {
      uint32_t action = 0;
      if (at.value(0) == 2 && fetch(at, at.value(), action)) {
        at.out += '[';
        value(at, XlatId::kSeccompActions, action);
        at.out += ']';
        return true;
      }
      struct { uint16_t length; uint64_t filter; } program{};
      if (at.value(0) == 1 && fetch(at, at.value(), program)) {
        at.out += "{len=";
        put_unsigned(at.out, program.length);
        at.out += ", filter=";
        put_address(at.out, program.filter);
        at.out += '}';
        return true;
      }
      put_address(at.out, at.value());
      return true;
    }
    case kRseqArea: put_hex(at.out, at.value()); return true;
    case kSize: case kUint:
      if (name == "rseq") {
        put_hex(at.out, static_cast<uint32_t>(at.value()));
        return true;
      }
      return false;
    case kAddress: case kPointer: put_address(at.out, at.value()); return true;
    default: return false;
  }
}

void Decoder::finish_special(At& at) {
  const std::string_view name = at.call.row->name;
  Line& line = at.line;
  if (name == "clone") return;
  if (at.call.failed) return;
  const auto result = static_cast<uint64_t>(at.call.result);
  switch (name.size()) {
    case 3:
      if (name == "brk") line.hex_result = true;
      break;
    case 4:
      if (name == "mmap") line.hex_result = true;
      if (name == "time" && at.call.result > 0) {
        char text[40];
        struct tm parts{};
        const auto when = static_cast<time_t>(at.call.result);
        if (gmtime_r(&when, &parts) != nullptr && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S+0000", &parts) != 0) line.remark = text;
      }
      break;
    case 5:
      if (name == "shmat") line.hex_result = true;
      if (name == "umask") line.octal_result = true;
      if (name == "fcntl") {
        switch (static_cast<uint32_t>(at.value(1))) {
          case 0: case 1030: line.fd_result = true; break;
          case F_GETFD:
            if (result == 0) break;
            put_hex(line.result_text, result);
            line.remark = "flags ";
            put_flags(line.remark, XlatId::kDescriptorFlags, result, options_.xlat);
            break;
          case F_GETFL:
            put_hex(line.result_text, result);
            line.remark = "flags ";
            put_value(line.remark, XlatId::kOpenModes, result & 3, options_.xlat);
            if ((result & ~uint64_t{3}) != 0) {
              line.remark += '|';
              put_flags(line.remark, XlatId::kOpenFlags, result & ~uint64_t{3}, options_.xlat);
            }
            break;
          case 1034:
            if (result == 0) break;
            put_hex(line.result_text, result);
            line.remark = "seals ";
            put_flags(line.remark, XlatId::kSeals, result, options_.xlat);
            break;
          case 1025:
            put_hex(line.result_text, result);
            put_value(line.remark, XlatId::kLockTypes, result, options_.xlat);
            break;
          case 11:
            if (result != 0) put_signal(line.remark, result);
            break;
          default: break;
        }
      }
      if (name == "prctl") {
        switch (at.value(0)) {
          case 3: put_value(line.remark, XlatId::kDumpable, result, options_.xlat); break;
          case 21:
          if (result != 0) put_value(line.remark, XlatId::kSeccompModes, result, options_.xlat);
          break;
          default: break;
        }
      }
      break;
    case 6:
      if (name == "mremap") line.hex_result = true;
      break;
    case 10:
      if (name == "membarrier" && at.value(0) == 0) {
        put_hex(line.result_text, result);
        put_flags(line.remark, XlatId::kMembarrierCommands, result, options_.xlat);
      }
      break;
    case 11:
      if (name == "personality") {
        put_hex(line.result_text, result);
        put_value(line.remark, XlatId::kPersonalityTypes, result & 0xff, options_.xlat);
        if ((result & ~uint64_t{0xff}) != 0) {
          line.remark += '|';
          put_flags(line.remark, XlatId::kPersonalityFlags, result & ~uint64_t{0xff}, options_.xlat);
        }
      }
      break;
    case 18:
      if (name == "sched_getscheduler") put_value(line.remark, XlatId::kSchedPolicies, result, options_.xlat);
      break;
    default: break;
  }
  if (options_.fds != FdNames::kNone && returns_descriptor(name)) line.fd_result = true;
  if (name == "rt_sigtimedwait") put_signal(line.remark, result);

  if (name == "poll" || name == "ppoll") {
    if (result == 0) {
      line.remark = "Timeout";
    } else {
      struct Poll { int32_t fd; int16_t events, revents; };
      const auto count = static_cast<uint32_t>(at.value(1));
      line.remark += '[';
      size_t shown = 0;
      for (uint32_t i = 0; i < std::min<uint32_t>(count, 1024) && shown < result; ++i) {
        Poll entry{};
        if (!fetch(at, at.value(0) + i * sizeof entry, entry)) break;
        if (entry.revents == 0) continue;
        if (shown != 0) line.remark += ", ";
        if (shown >= options_.string_limit) {
          line.remark += "...";
          break;
        }
        ++shown;
        line.remark += "{fd=";
        put_fd(line.remark, at.call.tid, entry.fd);
        line.remark += ", revents=";
        put_flags(line.remark, XlatId::kPollEvents, static_cast<uint16_t>(entry.revents), options_.xlat);
        line.remark += '}';
      }
      line.remark += ']';
      struct { int64_t sec, nsec; } left{};
      if (name == "ppoll" && fetch(at, at.value(2), left)) {
        line.remark += ", left ";
        std::string& before = at.out;
        (void)before;
        line.remark += "{tv_sec=";
        put_decimal(line.remark, left.sec);
        line.remark += ", tv_nsec=";
        put_decimal(line.remark, left.nsec);
        line.remark += '}';
      }
    }
  } else if (name == "select" || name == "pselect6") {
    if (result == 0) {
      line.remark = "Timeout";
    } else {
      static constexpr std::string_view kNames[] = {"in ", "out ", "except "};
      const int count = std::clamp(static_cast<int>(at.value(0)), 0, 1024);
      for (int set = 0; set < 3; ++set) {
        uint64_t words[16] = {};
        const uint64_t address = at.value(set + 1);
        const size_t bytes_used = static_cast<size_t>(count + 63) / 64 * 8;
        if (address == 0 || bytes_used == 0 || !fetch(at, address, words, bytes_used)) continue;
        bool any = false;
        for (int fd = 0; fd < count; ++fd) {
          if ((words[fd / 64] >> (fd % 64) & 1) == 0) continue;
          if (!any) {
            if (!line.remark.empty()) line.remark += ", ";
            line.remark += kNames[set];
            line.remark += '[';
          } else {
            line.remark += ' ';
          }
          any = true;
          put_fd(line.remark, at.call.tid, fd);
        }
        if (any) line.remark += ']';
      }
      struct { int64_t sec, part; } left{};
      if (fetch(at, at.value(4), left)) {
        if (!line.remark.empty()) line.remark += ", ";
        line.remark += "left {tv_sec=";
        put_decimal(line.remark, left.sec);
        line.remark += name == "select" ? ", tv_usec=" : ", tv_nsec=";
        put_decimal(line.remark, left.part);
        line.remark += '}';
      }
    }
  }
}

}  // namespace srun::trace
