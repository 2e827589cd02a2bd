// Signals, wait statuses and file types as strace writes them.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "trace/decoder.h"

namespace srun::trace {
namespace {

constexpr std::string_view kSignals[] = {"0",      "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",
                                         "FPE",    "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
                                         "STKFLT", "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",
                                         "XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "IO",   "PWR",  "SYS"};

void put_signal_tail(std::string& out, uint64_t number) {
  if (number < std::size(kSignals)) {
    out += kSignals[number];
  } else if (number == 32) {
    out += "RTMIN";
  } else {
    out += "RT_";
    put_unsigned(out, number - 32);
  }
}

std::string_view code_name(int signal, int code) {
  switch (code) {
    case 0:
      return "SI_USER";
    case 0x80:
      return "SI_KERNEL";
    case -1:
      return "SI_QUEUE";
    case -2:
      return "SI_TIMER";
    case -3:
      return "SI_MESGQ";
    case -4:
      return "SI_ASYNCIO";
    case -5:
      return "SI_SIGIO";
    case -6:
      return "SI_TKILL";
    case -60:
      return "SI_ASYNCNL";
    default:
      break;
  }
  if (code < 1) return {};
  const auto index = static_cast<size_t>(code);
  static constexpr std::string_view kChild[] = {
      "", "CLD_EXITED", "CLD_KILLED", "CLD_DUMPED", "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED"};
  static constexpr std::string_view kSegv[] = {"", "SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"};
  static constexpr std::string_view kBus[] = {"", "BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"};
  static constexpr std::string_view kFpe[] = {"",           "FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF",
                                              "FPE_FLTUND", "FPE_FLTRES", "FPE_FLTINV", "FPE_FLTSUB"};
  static constexpr std::string_view kIll[] = {"",           "ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP",
                                              "ILL_PRVOPC", "ILL_PRVREG", "ILL_COPROC", "ILL_BADSTK"};
  static constexpr std::string_view kTrap[] = {"", "TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"};
  static constexpr std::string_view kPoll[] = {"",         "POLL_IN",  "POLL_OUT", "POLL_MSG",
                                               "POLL_ERR", "POLL_PRI", "POLL_HUP"};
  static constexpr std::string_view kSys[] = {"", "SYS_SECCOMP"};
  const auto pick = [&](auto& names) { return index < std::size(names) ? names[index] : std::string_view(); };
  switch (signal) {
    case SIGCHLD:
      return pick(kChild);
    case SIGSEGV:
      return pick(kSegv);
    case SIGBUS:
      return pick(kBus);
    case SIGFPE:
      return pick(kFpe);
    case SIGILL:
      return pick(kIll);
    case SIGTRAP:
      return pick(kTrap);
    case SIGIO:
      return pick(kPoll);
    case SIGSYS:
      return pick(kSys);
    default:
      return {};
  }
}

// struct rows by number, made once: errno_name() builds a string each time.
const std::array<std::string, 134>& errno_names() {
  static const std::array<std::string, 134> names = [] {
    std::array<std::string, 134> table;
    for (int number = 1; number < 134; ++number) {
      std::string name = errno_name(number);
      if (!name.starts_with("errno")) table[static_cast<size_t>(number)] = std::move(name);
    }
    return table;
  }();
  return names;
}

}  // namespace

std::string_view errno_symbol(int number) {
  return number > 0 && number < 134 ? std::string_view(errno_names()[static_cast<size_t>(number)]) : std::string_view();
}

void put_signal(std::string& out, uint64_t number) {
  if (number == 0 || number > 64) {
    put_decimal(out, static_cast<int32_t>(number));
    return;
  }
  out += "SIG";
  put_signal_tail(out, number);
}

void put_signal_set(std::string& out, uint64_t set) {
  const bool complement = __builtin_popcountll(set) >= 43;  // strace inverts when two thirds are set
  if (complement) {
    out += '~';
    set = ~set;
  }
  out += '[';
  bool first = true;
  for (uint64_t number = 1; number <= 64; ++number) {
    if ((set >> (number - 1) & 1) == 0) continue;
    if (!first) out += ' ';
    first = false;
    put_signal_tail(out, number);
  }
  out += ']';
}

void put_wait_status(std::string& out, int status) {
  if (WIFSTOPPED(status)) {
    out += "{WIFSTOPPED(s) && WSTOPSIG(s) == ";
    if ((WSTOPSIG(status) & 0x80) != 0) {
      put_signal(out, static_cast<uint32_t>(WSTOPSIG(status) & 0x7f));
      out += " | 0x80";
    } else {
      put_signal(out, static_cast<uint32_t>(WSTOPSIG(status)));
    }
    out += '}';
    if ((static_cast<unsigned>(status) >> 16) != 0) {
      out += " | PTRACE_EVENT_";
      static constexpr std::string_view kEvents[] = {"",     "FORK",       "VFORK", "CLONE",
                                                     "EXEC", "VFORK_DONE", "EXIT",  "SECCOMP"};
      const size_t event = static_cast<unsigned>(status) >> 16;
      if (event < std::size(kEvents))
        out += kEvents[event];
      else
        out += "STOP";
      out += "<<16";
    }
  } else if (WIFSIGNALED(status)) {
    out += "{WIFSIGNALED(s) && WTERMSIG(s) == ";
    put_signal(out, static_cast<uint32_t>(WTERMSIG(status)));
    if (WCOREDUMP(status)) out += " && WCOREDUMP(s)";
    out += '}';
  } else if (WIFEXITED(status)) {
    out += "{WIFEXITED(s) && WEXITSTATUS(s) == ";
    put_decimal(out, WEXITSTATUS(status));
    out += '}';
  } else if (WIFCONTINUED(status)) {
    out += "{WIFCONTINUED(s)}";
  } else {
    put_hex(out, static_cast<uint32_t>(status));
  }
}

void put_siginfo(std::string& out, const void* from, bool in_call) {
  siginfo_t info;
  std::memcpy(&info, from, sizeof info);
  out += "{si_signo=";
  put_signal(out, static_cast<uint32_t>(info.si_signo));
  out += ", si_code=";
  const std::string_view code = code_name(info.si_signo, info.si_code);
  if (code.empty())
    put_hex(out, static_cast<uint32_t>(info.si_code));
  else
    out += code;
  if (info.si_errno != 0) {
    out += ", si_errno=";
    out += errno_symbol(info.si_errno);
  }
  const auto number = [&](std::string_view name, int64_t value) {
    out += name;
    put_decimal(out, value);
  };
  const bool from_user = info.si_code <= 0;
  if (info.si_signo == SIGCHLD && info.si_code > 0 && info.si_code != 0x80) {
    number(", si_pid=", info.si_pid);
    number(", si_uid=", info.si_uid);
    out += ", si_status=";
    if (info.si_code == CLD_EXITED)
      put_decimal(out, info.si_status);
    else
      put_signal(out, static_cast<uint32_t>(info.si_status));
    const auto ticks = [&](std::string_view name, clock_t value) {
      number(name, value);
      if (value == 0 || !in_call) {
        if (value == 0) return;
      }
      const auto hundredths = static_cast<uint64_t>(value);
      out += " /* ";
      put_unsigned(out, hundredths / 100);
      out += '.';
      put_padded(out, hundredths % 100, 2);
      out += " s */";
    };
    ticks(", si_utime=", info.si_utime);
    ticks(", si_stime=", info.si_stime);
  } else if (info.si_code == SI_USER || info.si_code == SI_TKILL) {
    number(", si_pid=", info.si_pid);
    number(", si_uid=", info.si_uid);
  } else if (info.si_code == SI_TIMER) {
    out += ", si_timerid=";
    put_hex(out, static_cast<uint32_t>(info.si_timerid));
    number(", si_overrun=", info.si_overrun);
    number(", si_int=", info.si_int);
    out += ", si_ptr=";
    put_address(out, reinterpret_cast<uint64_t>(info.si_ptr));
  } else if (from_user) {
    number(", si_pid=", info.si_pid);
    number(", si_uid=", info.si_uid);
    if (info.si_ptr != nullptr || info.si_code == SI_QUEUE) {
      number(", si_int=", info.si_int);
      out += ", si_ptr=";
      put_address(out, reinterpret_cast<uint64_t>(info.si_ptr));
    }
  } else if (info.si_code != 0x80 && (info.si_signo == SIGSEGV || info.si_signo == SIGBUS || info.si_signo == SIGILL ||
                                      info.si_signo == SIGFPE || info.si_signo == SIGTRAP)) {
    out += ", si_addr=";
    put_address(out, reinterpret_cast<uint64_t>(info.si_addr));
  } else if (info.si_signo == SIGSYS && info.si_code == 1) {
    out += ", si_call_addr=";
    put_address(out, reinterpret_cast<uint64_t>(info.si_call_addr));
    out += ", si_syscall=";
    const kernel::Syscall* const row =
        kernel::find_syscall(kernel::kNativeArch, static_cast<uint32_t>(info.si_syscall));
    if (row != nullptr) {
      out += "__NR_";
      out += row->name;
    } else {
      put_decimal(out, info.si_syscall);
    }
    out += ", si_arch=";
    out += info.si_arch == kernel::kAuditX86_64 ? "AUDIT_ARCH_X86_64"
           : info.si_arch == kernel::kAuditI386 ? "AUDIT_ARCH_I386"
                                                : "AUDIT_ARCH_AARCH64";
  } else if (info.si_code == 0x80 && info.si_signo == SIGSEGV) {
    out += ", si_addr=";
    put_address(out, reinterpret_cast<uint64_t>(info.si_addr));
  }
  out += '}';
}

void put_file_mode(std::string& out, uint64_t mode, XlatStyle style) {
  const std::string_view type = xlat_name(XlatId::kFileTypes, mode & S_IFMT);
  if (!type.empty() && style == XlatStyle::kAbbrev) {
    out += type;
    if ((mode & S_ISUID) != 0) out += "|S_ISUID";
    if ((mode & S_ISGID) != 0) out += "|S_ISGID";
    if ((mode & S_ISVTX) != 0) out += "|S_ISVTX";
    out += '|';
    put_mode(out, mode & 0777);
  } else {
    put_mode(out, mode);
  }
}

}  // namespace srun::trace
