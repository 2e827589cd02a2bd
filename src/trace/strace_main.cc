// sandbox-strace: strace's command line and contract (R39) over the tracer of this room. No policy is involved.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "trace/options.h"
#include "trace/seccomp_stops.h"
#include "trace/tracer.h"

namespace {

using namespace srun;
using namespace srun::trace;

constexpr int kSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM};
volatile sig_atomic_t stop_signal = 0;

void on_signal(int number) {
  stop_signal = number;
  Tracer::request_stop();
  // The signal may come just before waitpid() blocks: a second one a moment later gets it out.
  ::ualarm(20000, 20000);
}
void on_alarm(int) {}

int complain(const std::string& text) {
  ::dprintf(2, "%s: %s\n", program_invocation_short_name, text.c_str());
  return 1;
}

// As strace looks it up: what has a slash as it is, else along PATH.
std::string find_program(const std::string& name, int& failed) {
  struct stat st {};
  failed = ENOENT;
  if (name.find('/') != std::string::npos) {
    if (::stat(name.c_str(), &st) == 0) return name;
    failed = errno;
    return {};
  }
  const char* rest = ::getenv("PATH");
  while (rest != nullptr && *rest != 0) {
    const char* const colon = ::strchrnul(rest, ':');
    std::string path(rest, static_cast<size_t>(colon - rest));
    rest = *colon == 0 ? nullptr : colon + 1;
    if (!path.empty()) path += '/';
    path += name;
    if (::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0) return path;
  }
  return {};
}

struct Output {
  UniqueFd fd;
  pid_t command = 0;
};

Result<Output> open_output(const Options& options) {
  Output out;
  if (options.output.empty()) {
    out.fd.reset(::fcntl(2, F_DUPFD_CLOEXEC, 100));
    if (!out.fd) return errno_failure(errno, "dup");
    return out;
  }
  if (options.output[0] == '|' || options.output[0] == '!') {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_failure(errno, "pipe2");
    const pid_t child = ::fork();
    if (child < 0) return errno_failure(errno, "fork");
    if (child == 0) {
      ::dup2(ends[0], 0);
      ::execl("/bin/sh", "sh", "-c", options.output.c_str() + 1, nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    out.fd.reset(ends[1]);
    out.command = child;
    return out;
  }
  out.fd.reset(::open(options.output.c_str(),
                      O_WRONLY | O_CREAT | O_CLOEXEC | O_LARGEFILE | (options.append ? O_APPEND : O_TRUNC), 0666));
  if (!out.fd) return failure(Error{errno, "Can't fopen '" + options.output + "'", {}, {}});
  return out;
}

int run(int argc, char** argv) {
  if (::getauxval(AT_SECURE) != 0)
    return complain("refuses to run set-user-id, set-group-id or with file capabilities");
  Result<Options> parsed = parse_strace_options(argc, argv);
  if (!parsed) {
    complain(parsed.error().message());
    ::dprintf(2, "Try '%s -h' for more information.\n", program_invocation_short_name);
    return 1;
  }
  Options& options = *parsed;
  if (options.version) {
    std::printf("%s (sandbox-run %s), text format of strace 6.1\n", program_invocation_short_name, SANDBOX_RUN_VERSION);
    return 0;
  }
  if (options.help) {
    std::printf(
        "Usage: %s [-ACcfFinqrtTvVwxyzZ] [-a COLUMN] [-e EXPR]... [-E VAR[=VALUE]]... [-o FILE] [-P PATH]... [-s "
        "STRSIZE]\n"
        "       [-S SORTBY] [-u USER] [-X FORMAT] [--seccomp-bpf] [--json] [--trace-path-prefix=DIR] [--errno=NAME]\n"
        "       { -p PID | PROG [ARGS] }\n",
        program_invocation_short_name);
    return 0;
  }

  std::string path;
  uid_t uid = ::getuid();
  gid_t gid = ::getgid();
  if (!options.user.empty()) {
    if (::getuid() != 0) return complain("You must be root to use the -u option");
    const passwd* const entry = ::getpwnam(options.user.c_str());
    if (entry == nullptr) return complain("Cannot find user '" + options.user + "'");
    uid = entry->pw_uid;
    gid = entry->pw_gid;
  }
  if (!options.program.empty()) {
    int failed = 0;
    path = find_program(options.program[0], failed);
    if (path.empty()) return complain("Can't stat '" + options.program[0] + "': " + ::strerror(failed));
  }
  const bool own_files = options.separate && !options.output.empty();
  Output output;
  if (!own_files) {
    Result<Output> opened = open_output(options);
    if (!opened) return complain(opened.error().message());
    output = std::move(*opened);
  }
  Flusher flusher;
  // On standard error the program's own output stands between our lines, so they may not come late.
  Flusher* const late = options.output.empty() ? nullptr : &flusher;
  std::shared_ptr<Stream> shared;
  if (!own_files) {
    auto sink = std::make_unique<Sink>(std::move(output.fd), late);
    shared = std::make_shared<Stream>(std::move(sink));
    if (late != nullptr) flusher.add(std::shared_ptr<Sink>(shared, shared->sink.get()));
  }
  const auto open_own = [&](pid_t tid) {
    const std::string name = options.output + "." + std::to_string(tid);
    UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (options.append ? O_APPEND : O_TRUNC), 0666));
    if (!fd) {
      complain("Can't fopen '" + name + "': " + ::strerror(errno));
      fd.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    }
    auto stream = std::make_shared<Stream>(std::make_unique<Sink>(std::move(fd), late));
    flusher.add(std::shared_ptr<Sink>(stream, stream->sink.get()));
    return stream;
  };

  struct sigaction before[std::size(kSignals)];
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  // With -o and a program of our own a ^C is the program's affair; else it ends the tracing (strace's -I).
  const bool ignore = !options.program.empty() && !options.output.empty();
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = ignore ? SIG_IGN : on_signal;
    ::sigaction(kSignals[i], &action, &before[i]);
  }
  struct sigaction alarm_before {};
  struct sigaction alarm_action {};
  alarm_action.sa_handler = on_alarm;
  ::sigaction(SIGALRM, &alarm_action, &alarm_before);

  Tracer tracer(options, shared, open_own);
  if (!options.program.empty()) {
    for (const std::string& entry : options.environment) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos)
        ::unsetenv(entry.c_str());
      else
        ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
    std::vector<char*> arguments;
    for (std::string& argument : options.program) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const auto prepare = [&] {
      for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
      ::sigaction(SIGALRM, &alarm_before, nullptr);
      ::sigprocmask(SIG_SETMASK, &mask, nullptr);
      if (!options.user.empty() &&
          (::initgroups(options.user.c_str(), gid) != 0 || ::setregid(gid, gid) != 0 || ::setreuid(uid, uid) != 0))
        return complain(std::string("setreuid: ") + ::strerror(errno));
      if (options.seccomp) {
        const int failed = install_seccomp_stops(options.calls);
        if (failed != 0) return complain(std::string("seccomp: ") + ::strerror(failed));
      }
      return 0;
    };
    const Result<void> started = tracer.start(path, arguments.data(), environ, prepare);
    if (!started) return complain(started.error().message());
  }
  for (const pid_t pid : options.attach) {
    const Result<void> attached = tracer.attach(pid);
    if (!attached) {
      complain(attached.error().message());
      if (options.attach.size() == 1 && options.program.empty()) return 1;
    }
  }
  const int status = tracer.run();
  ::ualarm(0, 0);

  if (options.summary) {
    const std::string text = options.json ? tracer.summary().json() : tracer.summary().text(options.sort);
    if (shared != nullptr) shared->sink->append(text);
  }
  if (shared != nullptr) shared->sink->close();
  if (output.command != 0) ::waitpid(output.command, nullptr, 0);
  int number = stop_signal;
  if (number == 0 && WIFSIGNALED(status)) number = WTERMSIG(status);
  if (number != 0) {
    // R39: whoever waits for us sees how the program ended; without a core of our own.
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
    return -number;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  int status = 1;
  try {
    status = run(argc, argv);
  } catch (const std::exception& error) {
    status = complain(error.what());
  }
  // Killed here, when every line is out.
  if (status < 0) ::raise(-status);
  return status < 0 ? 128 - status : status;
}
