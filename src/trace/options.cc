#include "trace/options.h"

#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kernel/constants.h"

namespace srun::trace {
namespace {

tl::unexpected<Error> usage(std::string text) { return failure(Error{0, std::move(text), {}, {}}); }

template <typename T>
bool number(std::string_view text, T& value) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Microseconds; "2s", "5ms", "10us", "300ns".
bool duration(std::string_view text, uint64_t& microseconds) {
  uint64_t factor = 1000;
  uint64_t value = 0;
  if (text.ends_with("ms")) {
    factor = 1000 * 1000;
    text.remove_suffix(2);
  } else if (text.ends_with("us")) {
    text.remove_suffix(2);
  } else if (text.ends_with("ns")) {
    factor = 1;
    text.remove_suffix(2);
  } else if (text.ends_with("s")) {
    factor = 1000 * 1000 * 1000;
    text.remove_suffix(1);
  }
  if (!number(text, value) || value > UINT64_MAX / factor) return false;
  microseconds = value * factor / 1000;
  return true;
}

Result<void> parse_injection(Options& options, std::string_view text, bool fault) {
  Injection injection;
  size_t colon = text.find(':');
  Result<CallSet> calls = CallSet::parse(text.substr(0, colon));
  if (!calls) return failure(calls.error());
  injection.calls = *calls;
  while (colon != std::string_view::npos) {
    text.remove_prefix(colon + 1);
    colon = text.find(':');
    const std::string_view item = text.substr(0, colon);
    const size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    const auto wrong = [&] {
      return usage("invalid " + std::string(fault ? "fault" : "inject") + " argument '" + std::string(item) + "'");
    };
    if (key == "error") {
      int code = 0;
      if (const auto known = kernel::find_errno(value))
        code = *known;
      else if (!number(value, code) || code < 1 || code > 4095)
        return wrong();
      injection.error = code;
    } else if (key == "retval" && !fault) {
      uint64_t result = 0;
      if (!number(value, result)) return wrong();
      injection.retval = result;
    } else if (key == "signal" && !fault) {
      const Result<int> signal = parse_signal(value);
      if (!signal) return wrong();
      injection.signal = *signal;
    } else if (key == "delay_enter" && !fault) {
      if (!duration(value, injection.delay_enter_us)) return wrong();
    } else if (key == "delay_exit" && !fault) {
      if (!duration(value, injection.delay_exit_us)) return wrong();
    } else if (key == "when") {
      // first[..last][+[step]]
      std::string_view rest = value;
      const size_t plus = rest.find('+');
      if (plus != std::string_view::npos) {
        const std::string_view step = rest.substr(plus + 1);
        if (!step.empty() && (!number(step, injection.step) || injection.step == 0)) return wrong();
        rest = rest.substr(0, plus);
      }
      const size_t dots = rest.find("..");
      if (!number(rest.substr(0, dots), injection.first) || injection.first == 0) return wrong();
      if (dots != std::string_view::npos) {
        if (!number(rest.substr(dots + 2), injection.last) || injection.last < injection.first) return wrong();
      } else if (plus == std::string_view::npos) {
        injection.last = injection.first;
      }
    } else {
      return wrong();
    }
  }
  if (fault && !injection.error) injection.error = 38;  // ENOSYS, strace's default
  if (injection.error && injection.retval) return usage("error= and retval= exclude each other");
  if (!injection.error && !injection.retval && !injection.signal && injection.delay_enter_us == 0 &&
      injection.delay_exit_us == 0)
    return usage("invalid inject argument: nothing to inject");
  options.injections.push_back(std::move(injection));
  return {};
}

Result<void> parse_qualifier(Options& options, std::string_view text) {
  const size_t equals = text.find('=');
  std::string_view key = equals == std::string_view::npos ? "trace" : text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if (key == "trace" || key == "t") {
    Result<CallSet> set = CallSet::parse(value);
    if (!set) return failure(set.error());
    options.calls = *set;
  } else if (key == "signal" || key == "signals" || key == "s") {
    const Result<uint64_t> set = parse_signal_set(value);
    if (!set) return failure(set.error());
    options.signals = *set;
  } else if (key == "status") {
    const Result<uint8_t> set = parse_status_set(value);
    if (!set) return failure(set.error());
    options.statuses = *set;
  } else if (key == "inject") {
    return parse_injection(options, value, false);
  } else if (key == "fault") {
    return parse_injection(options, value, true);
  } else if (key == "verbose" || key == "v") {
    if (value == "all")
      options.decode.verbose = true;
    else if (value != "none")
      return usage("-e verbose= takes all or none here");
  } else if (key == "decode-fds" || key == "decode-fd") {
    options.decode.fds = value == "none" ? FdNames::kNone : value == "path" ? FdNames::kPaths : FdNames::kAll;
  } else {
    return usage("-e " + std::string(key) + "= is not supported");
  }
  return {};
}

enum Long : int {
  kSeccomp = 1000,
  kJson,
  kNoShare,
  kPrefix,
  kErrno,
  kInject,
  kFault,
  kStatus,
  kSignal,
  kTracePath,
  kAlwaysPid,
  kAbsolute,
  kStringsHex,
  kQuiet
};

constexpr option kLong[] = {
    {"follow-forks", no_argument, nullptr, 'f'},
    {"output-separately", no_argument, nullptr, 'F'},
    {"output", required_argument, nullptr, 'o'},
    {"output-append-mode", no_argument, nullptr, 'A'},
    {"attach", required_argument, nullptr, 'p'},
    {"user", required_argument, nullptr, 'u'},
    {"env", required_argument, nullptr, 'E'},
    {"trace", required_argument, nullptr, 't' + 2000},
    {"signal", required_argument, nullptr, kSignal},
    {"status", required_argument, nullptr, kStatus},
    {"inject", required_argument, nullptr, kInject},
    {"fault", required_argument, nullptr, kFault},
    {"trace-path", required_argument, nullptr, 'P'},
    {"trace-path-prefix", required_argument, nullptr, kPrefix},
    {"errno", required_argument, nullptr, kErrno},
    {"string-limit", required_argument, nullptr, 's'},
    {"no-abbrev", no_argument, nullptr, 'v'},
    {"columns", required_argument, nullptr, 'a'},
    {"syscall-times", no_argument, nullptr, 'T'},
    {"relative-timestamps", no_argument, nullptr, 'r'},
    {"absolute-timestamps", optional_argument, nullptr, kAbsolute},
    {"timestamps", optional_argument, nullptr, kAbsolute},
    {"syscall-number", no_argument, nullptr, 'n'},
    {"instruction-pointer", no_argument, nullptr, 'i'},
    {"decode-fds", optional_argument, nullptr, 'y' + 2000},
    {"successful-only", no_argument, nullptr, 'z'},
    {"failed-only", no_argument, nullptr, 'Z'},
    {"summary-only", no_argument, nullptr, 'c'},
    {"summary", no_argument, nullptr, 'C'},
    {"summary-wall-clock", no_argument, nullptr, 'w'},
    {"summary-sort-by", required_argument, nullptr, 'S'},
    {"seccomp-bpf", no_argument, nullptr, kSeccomp},
    {"const-print-style", required_argument, nullptr, 'X'},
    {"strings-in-hex", optional_argument, nullptr, kStringsHex},
    {"quiet", optional_argument, nullptr, kQuiet},
    {"always-show-pid", no_argument, nullptr, kAlwaysPid},
    {"json", no_argument, nullptr, kJson},
    {"no-share-cpu", no_argument, nullptr, kNoShare},
    {"help", no_argument, nullptr, 'h'},
    {"version", no_argument, nullptr, 'V'},
    {nullptr, 0, nullptr, 0},
};

}  // namespace

Result<Options> parse_strace_options(int argc, char** argv) {
  Options options;
  int follows = 0, walls = 0, hexes = 0, names = 0;
  opterr = 0;
  optind = 0;
  int c = 0;
  while ((c = getopt_long(argc, argv, "+:a:AcCe:E:fFhino:p:P:qrs:S:tTu:vVwxX:yzZ", kLong, nullptr)) != -1) {
    const std::string_view value = optarg != nullptr ? optarg : "";
    Result<void> done;
    switch (c) {
      case 'a':
        if (!number(value, options.column)) return usage("invalid -a argument: '" + std::string(value) + "'");
        break;
      case 'A':
        options.append = true;
        break;
      case 'c':
        options.summary = options.summary_only = true;
        break;
      case 'C':
        options.summary = true;
        break;
      case 'e':
        done = parse_qualifier(options, value);
        break;
      case 't' + 2000:
        done = parse_qualifier(options, "trace=" + std::string(value));
        break;
      case kSignal:
        done = parse_qualifier(options, "signal=" + std::string(value));
        break;
      case kStatus:
        done = parse_qualifier(options, "status=" + std::string(value));
        break;
      case kInject:
        done = parse_qualifier(options, "inject=" + std::string(value));
        break;
      case kFault:
        done = parse_qualifier(options, "fault=" + std::string(value));
        break;
      case 'E':
        options.environment.emplace_back(value);
        break;
      case 'f':
        ++follows;
        break;
      case 'F':
        options.separate = true;
        break;
      case 'h':
        options.help = true;
        return options;
      case 'i':
        options.instruction_pointer = true;
        break;
      case 'n':
        options.numbers = true;
        break;
      case 'o':
        options.output = value;
        break;
      case 'p': {
        std::string_view rest = value;
        while (!rest.empty()) {
          const size_t end = rest.find_first_of(", \n\t");
          pid_t pid = 0;
          if (!number(rest.substr(0, end), pid) || pid <= 0)
            return usage("Invalid process id: '" + std::string(value) + "'");
          options.attach.push_back(pid);
          rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        }
        break;
      }
      case 'P':
        options.paths.emplace_back(value);
        break;
      case kPrefix:
        options.prefixes.emplace_back(value);
        break;
      case kErrno: {
        int code = 0;
        if (const auto known = kernel::find_errno(value))
          code = *known;
        else if (!number(value, code))
          return usage("invalid errno '" + std::string(value) + "'");
        options.errnos.push_back(code);
        break;
      }
      case 'q':
        ++options.quiet;
        break;
      case kQuiet:
        ++options.quiet;
        break;
      case 'r':
        options.relative = true;
        break;
      case 's':
        if (!number(value, options.decode.string_limit) || options.decode.string_limit > (1u << 24))
          return usage("invalid -s argument: '" + std::string(value) + "'");
        break;
      case 'S':
        options.sort = value;
        break;
      case 't':
        ++walls;
        break;
      case kAbsolute:
        walls = value.empty() || value == "s" || value == "time" ? 1 : value == "us" ? 2 : value == "unix" ? 3 : 9;
        break;
      case 'T':
        options.durations = true;
        break;
      case 'u':
        options.user = value;
        break;
      case 'v':
        options.decode.verbose = true;
        break;
      case 'V':
        options.version = true;
        return options;
      case 'w':
        options.wall_summary = true;
        break;
      case 'x':
        ++hexes;
        break;
      case kStringsHex:
        hexes = value.empty() || value == "all" ? 2 : 1;
        break;
      case 'X':
        if (value == "raw")
          options.decode.xlat = XlatStyle::kRaw;
        else if (value == "abbrev")
          options.decode.xlat = XlatStyle::kAbbrev;
        else if (value == "verbose")
          options.decode.xlat = XlatStyle::kVerbose;
        else
          return usage("invalid -X argument: '" + std::string(value) + "'");
        break;
      case 'y':
        ++names;
        break;
      case 'y' + 2000:
        names = value == "none" ? 0 : value == "path" || value.empty() ? 1 : 2;
        break;
      case 'z':
        options.statuses = kSuccessful;
        break;
      case 'Z':
        options.statuses = kFailed;
        break;
      case kSeccomp:
        options.seccomp = true;
        break;
      case kJson:
        options.json = true;
        break;
      case kNoShare:
        options.share_cpu = false;
        break;
      case kAlwaysPid:
        options.always_pid = true;
        break;
      case ':':
        return usage("option requires an argument -- '" + std::string(argv[optind - 1]) + "'");
      default:
        return usage("invalid option -- '" + std::string(argv[optind - 1]) + "'");
    }
    if (!done) return failure(done.error());
  }
  options.follow = follows > 0;
  options.separate = options.separate || follows > 1;
  if (walls > 3) return usage("invalid timestamp format");
  options.wall = static_cast<WallTime>(walls);
  options.decode.hex = hexes == 0 ? HexStrings::kNever : hexes == 1 ? HexStrings::kNonAscii : HexStrings::kAlways;
  options.decode.fds = names == 0 ? options.decode.fds : names == 1 ? FdNames::kPaths : FdNames::kAll;
  for (int i = optind; i < argc; ++i) options.program.emplace_back(argv[i]);
  if (options.program.empty() && options.attach.empty()) return usage("must have PROG [ARGS] or -p PID");
  if (options.separate && options.output.empty()) options.separate = false;
  if (options.seccomp && !options.follow) return usage("--seccomp-bpf needs -f");
  if (options.seccomp && !options.attach.empty()) return usage("--seccomp-bpf does not work with -p");
  if (options.wall_summary && !options.summary) return usage("-w must be given with -c or -C");
  static constexpr std::string_view kSorts[] = {"time",   "time-total", "total-time", "calls",   "count",
                                                "errors", "error",      "name",       "syscall", "syscall-name",
                                                "none",   "nothing",    "time-avg",   "avg-time"};
  if (std::find(std::begin(kSorts), std::end(kSorts), options.sort) == std::end(kSorts))
    return usage("invalid sortby: '" + options.sort + "'");
  return options;
}

}  // namespace srun::trace
