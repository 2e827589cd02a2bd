// sandbox-bench broker: what opening and looking at files costs where the kernel enforces the policy, where it is asked
// about for the report's sake, and where the supervisor does it, beside a bare loop that reads the path, opens and
// injects.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>

#include "base/unique_fd.h"
#include "bench/cases.h"
#include "bench/process.h"
#include "bench/result.h"

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)  // Linux 5.14
#endif

namespace srun::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kCalls = 3000;

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// One act on one of `files` files beside each other.
bool act(std::string_view kind, const std::string& file) {
  struct stat status {};
  if (kind == "stat") return ::stat(file.c_str(), &status) == 0;
  if (kind == "access") return ::access(file.c_str(), R_OK) == 0;
  const long fd = ::syscall(SYS_openat, AT_FDCWD, file.c_str(), kind == "write" ? O_WRONLY : O_RDONLY);
  if (fd >= 0) ::close(static_cast<int>(fd));
  return fd >= 0;
}

// `tasks` processes at once: ns for an act, as the time that all took through the number of all acts.
double loop_files(std::string_view kind, const std::string& folder, int files, int tasks) {
  std::vector<std::string> names;
  for (int i = 0; i < files; ++i) names.push_back(fmt::format("{}/f{}", folder, i));
  for (const std::string& name : names)
    if (!act(kind, name)) return 0;
  const int64_t begin = now();
  for (int task = 0; task < tasks; ++task) {
    if (tasks > 1 && ::fork() != 0) continue;
    for (int i = 0; i < kCalls; ++i) act(kind, names[static_cast<size_t>(i) % names.size()]);
    if (tasks > 1) ::_exit(0);
  }
  if (tasks > 1)
    while (::wait(nullptr) > 0) continue;
  return static_cast<double>(now() - begin) / (static_cast<double>(kCalls) * tasks);
}

// The floor: opens only, on one CPU.
double bare_loop(const std::string& folder) {
  cpu_set_t before;
  cpu_set_t one;
  ::sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  int pair[2];
  if (::pipe(pair) != 0) return 0;
  ::sched_setaffinity(0, sizeof one, &one);
  // The listener's number is the same in both: the descriptor table is shared until the child has told it.
  const pid_t child =
      static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog program{4, code};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int listener =
        static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
    if (::write(ends[1], &listener, sizeof listener) != sizeof listener) ::_exit(1);
    const double figure = loop_files("open", folder, 1, 1);
    if (::write(pair[1], &figure, sizeof figure) != sizeof figure) ::_exit(1);
    ::_exit(0);
  }
  int listener = -1;
  double figure = 0;
  if (child > 0 && ::read(ends[0], &listener, sizeof listener) == sizeof listener && listener >= 0) {
    for (int i = 0; i < kCalls + 1; ++i) {
      seccomp_notif request;
      std::memset(&request, 0, sizeof request);
      if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) break;
      char path[PATH_MAX] = {};
      iovec local{path, sizeof path - 1};
      iovec remote{reinterpret_cast<void*>(request.data.args[1]), 256};
      if (::process_vm_readv(request.pid, &local, 1, &remote, 1, 0) <= 0) break;
      const int opened = ::open(path, static_cast<int>(request.data.args[2]) | O_CLOEXEC);
      seccomp_notif_addfd add{};
      add.id = request.id;
      add.flags = SECCOMP_ADDFD_FLAG_SEND;
      add.srcfd = static_cast<uint32_t>(opened);
      if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0) break;
      ::close(opened);
    }
    if (::read(pair[0], &figure, sizeof figure) != sizeof figure) figure = 0;
  }
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  if (listener >= 0) ::close(listener);
  for (const int fd : {ends[0], ends[1], pair[0], pair[1]}) ::close(fd);
  ::sched_setaffinity(0, sizeof before, &before);
  return figure;
}

struct Subject {
  Row row;
  std::function<double()> measure;
};

}  // namespace

// KIND FOLDER FILES TASKS
int run_file_looper(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) return 1;
  fmt::print("{}\n",
             loop_files(arguments[0], arguments[1], std::atoi(arguments[2].c_str()), std::atoi(arguments[3].c_str())));
  return 0;
}

int run_broker(const Options& options) {
  if (!options.rest.empty()) {
    fmt::print(stderr, "sandbox-bench: broker does not know '{}'\n", options.rest[0]);
    return 1;
  }
  const Result<ScratchFolder> folder = ScratchFolder::make();
  if (!folder) {
    fmt::print(stderr, "sandbox-bench: {}\n", folder.error().message());
    return 1;
  }
  for (int i = 0; i < 64; ++i) static_cast<void>(folder->write(fmt::format("f{}", i), "x\n"));
  // Reads are the kernel's; a covered path makes it the shape of `default`.
  const auto kernel = folder->write(
      "kernel.json",
      fmt::format(R"({{"version": 1, "files": {{"read": ["/"], "write": ["{0}"], "deny": ["{0}/f63"]}}}})",
                  folder->path()));
  const auto served = folder->write("served.json", R"({"version": 1, "files": {"log": ["/"]}})");
  if (!kernel || !served) return 1;
  Results results;
  results.case_name = "broker";
  results.load = current_load();
  const std::string product = product_binary();
  std::vector<Subject> subjects;
  const auto under = [&](const std::vector<std::string>& words, std::string_view kind, int files, int tasks) {
    return [&, words, kind = std::string(kind), files, tasks]() -> double {
      std::vector<std::string> argv = words;
      argv.insert(argv.end(),
                  {own_binary(), "--file-looper", kind, folder->path(), std::to_string(files), std::to_string(tasks)});
      const Result<std::string> line = capture(argv, 120s);
      return line ? std::strtod(line->c_str(), nullptr) : 0;
    };
  };
  const auto add = [&](std::string name, std::function<double()> measure) {
    subjects.push_back({Row{std::move(name), {}, {}, {}}, std::move(measure)});
  };
  for (const auto& [what, kind, files, tasks] :
       {std::tuple("open+close", "open", 1, 1), std::tuple("open+close, 60 files", "open", 60, 1),
        std::tuple("open+close, 8 processes", "open", 1, 8), std::tuple("open+close for writing", "write", 1, 1),
        std::tuple("stat", "stat", 1, 1), std::tuple("access", "access", 1, 1)}) {
    const std::string act = what;
    add(act + ": native", under({}, kind, files, tasks));
    if (act == "open+close") add(act + ": bare loop on one CPU", [&] { return bare_loop(folder->path()); });
    add(act + ": kernel enforces", under({product, "--quiet", "-p", *kernel, "--"}, kind, files, tasks));
    if (std::string_view(kind) == "open")
      add(act + ": kernel enforces, --denials all",
          under({product, "--quiet", "--denials", "all", "-p", *kernel, "--"}, kind, files, tasks));
    add(act + ": served", under({product, "--quiet", "-p", *served, "--"}, kind, files, tasks));
  }
  const int rounds = options.rounds > 0 ? options.rounds : 5;
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < subjects.size(); ++i) {
      Subject& subject = subjects[(i + static_cast<size_t>(round)) % subjects.size()];
      if (!subject.row.missing.empty()) continue;
      const double figure = subject.measure();
      if (figure > 0)
        subject.row.round_medians_ns.push_back(figure);
      else
        subject.row.missing = "could not be measured here";
    }
  const auto figure_of = [&](std::string_view name) {
    for (const Subject& subject : subjects)
      if (subject.row.name == name && subject.row.missing.empty()) return subject.row.median_ns();
    return 0.0;
  };
  const double native = figure_of("open+close: native");
  const double floor = figure_of("open+close: bare loop on one CPU");
  if (native > 0)
    results.bars.push_back(
        {"open+close: kernel enforces / native", figure_of("open+close: kernel enforces") / native, 1.3, true});
  if (floor > 0)
    results.bars.push_back({"open+close: served / bare loop", figure_of("open+close: served") / floor, 1.3, true});
  for (Subject& subject : subjects) results.rows.push_back(std::move(subject.row));
  results.notes.push_back(fmt::format("each figure: {} acts, of all processes together, without start-up", kCalls));
  print(results, options.json);
  return 0;
}

}  // namespace srun::bench
