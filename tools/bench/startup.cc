// sandbox-bench startup: wall time from posix_spawn to the end of `true`.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/cases.h"
#include "bench/process.h"
#include "bench/result.h"

namespace srun::bench {
namespace {

constexpr int kLaunchesPerRound = 15;

struct Subject {
  std::string name;
  std::vector<std::string> argv;
  Row row;
};

// A bundle for an OCI runtime that runs the host's own `true`: an empty root with /usr (and where the host has links,
// the links) bound into it. Root only: a rootless bundle needs id maps that the host may not give.
Result<std::string> make_bundle(const ScratchFolder& folder) {
  const std::string root = folder.path() + "/rootfs";
  if (::mkdir(root.c_str(), 0755) != 0) return errno_failure(errno, "mkdir", root);
  const std::string proc = root + "/proc";  // runc closes descriptors by reading /proc/self/fd
  if (::mkdir(proc.c_str(), 0755) != 0) return errno_failure(errno, "mkdir", proc);
  std::string mounts = R"({"destination": "/proc", "type": "proc", "source": "proc"})";
  for (const char* top : {"/usr", "/bin", "/lib", "/lib64"}) {
    struct stat info {};
    if (::lstat(top, &info) != 0) continue;
    const std::string copy = root + top;
    if (S_ISLNK(info.st_mode)) {
      char target[256] = {};
      if (::readlink(top, target, sizeof target - 1) < 0 || ::symlink(target, copy.c_str()) != 0) {
        return errno_failure(errno, "symlink", copy);
      }
      continue;
    }
    if (::mkdir(copy.c_str(), 0755) != 0) return errno_failure(errno, "mkdir", copy);
    mounts += fmt::format(R"(, {{"destination": "{}", "type": "bind", "source": "{}", "options": ["rbind", "ro"]}})",
                          top, top);
  }
  const std::string config = fmt::format(
      R"({{"ociVersion": "1.0.2", "root": {{"path": "rootfs", "readonly": true}}, "mounts": [{}],
 "process": {{"terminal": false, "user": {{"uid": 0, "gid": 0}}, "args": ["/usr/bin/true"], "cwd": "/", "env": ["PATH=/usr/bin"]}},
 "linux": {{"namespaces": [{{"type": "pid"}}, {{"type": "mount"}}, {{"type": "ipc"}}, {{"type": "uts"}}, {{"type": "network"}}]}}}})",
      mounts);
  if (const Result<std::string> path = folder.write("config.json", config); !path) return failure(path.error());
  return folder.path();
}

void add(std::vector<Subject>& subjects, std::string name, std::vector<std::string> argv,
         std::string_view needed = {}) {
  Subject subject;
  subject.name = name;
  subject.row.name = std::move(name);
  if (argv[0].empty()) subject.row.missing = fmt::format("{} is not installed", needed);
  subject.argv = std::move(argv);
  subjects.push_back(std::move(subject));
}

}  // namespace

int run_startup(const Options& options) {
  if (!options.rest.empty()) {
    fmt::print(stderr, "sandbox-bench: startup does not know '{}'\n", options.rest[0]);
    return 1;
  }
  const Result<ScratchFolder> folder = ScratchFolder::make();
  if (!folder) {
    fmt::print(stderr, "sandbox-bench: {}\n", folder.error().message());
    return 1;
  }
  Results results;
  results.case_name = "startup";
  results.load = current_load();
  const std::string program = find_program("true");
  const std::string product = product_binary();
  std::vector<Subject> subjects;
  add(subjects, "true", {program}, "true");
  add(subjects, "sandbox-run -p none", {product, "-p", "none", "--", program}, "sandbox-run");
  add(subjects, "sandbox-run -p baseline", {product, "-p", "baseline", "--", program}, "sandbox-run");
  add(subjects, "sandbox-run -p offline", {product, "-p", "offline", "--", program}, "sandbox-run");
  add(subjects, "bwrap --unshare-all",
      {find_program("bwrap"), "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", program},
      "bwrap");
  add(subjects, "firejail", {find_program("firejail"), "--quiet", "--noprofile", program}, "firejail");
  for (const char* runtime : {"runc", "crun"}) {
    add(subjects, fmt::format("{} run", runtime), {find_program(runtime)}, runtime);
  }
  if (::geteuid() == 0) {
    if (const Result<std::string> bundle = make_bundle(*folder); bundle) {
      for (Subject& subject : subjects) {
        if (subject.argv.size() == 1 && subject.argv[0] != program && !subject.argv[0].empty()) {
          subject.argv.insert(subject.argv.end(),
                              {"run", "--bundle", *bundle, fmt::format("sandbox-bench-{}", ::getpid())});
        }
      }
    }
  }
  for (Subject& subject : subjects) {
    if (subject.argv.size() == 1 && subject.argv[0] != program && subject.row.missing.empty()) {
      subject.row.missing = "only as root";
    }
  }

  const int rounds = options.rounds > 0 ? options.rounds : 5;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<double>> samples(subjects.size());
    for (int launch = 0; launch < kLaunchesPerRound; ++launch) {
      for (size_t i = 0; i < subjects.size(); ++i) {
        Subject& subject = subjects[i];
        if (!subject.row.missing.empty()) continue;
        const Result<double> time = time_run(subject.argv);
        if (time) {
          samples[i].push_back(*time);
        } else {
          // Once more with its messages kept, to say why.
          const Result<std::string> again = capture(subject.argv, std::chrono::seconds(20));
          subject.row.missing = again ? time.error().message() : again.error().message();
        }
      }
    }
    for (size_t i = 0; i < subjects.size(); ++i) {
      if (!subjects[i].row.missing.empty()) continue;
      subjects[i].row.round_medians_ns.push_back(median(samples[i]));
      subjects[i].row.round_p99s_ns.push_back(percentile(samples[i], 99));
    }
  }

  const auto row_named = [&](std::string_view name) -> const Row* {
    for (const Row& row : results.rows) {
      if (row.name == name && row.missing.empty()) return &row;
    }
    return nullptr;
  };
  for (Subject& subject : subjects) results.rows.push_back(std::move(subject.row));
  const Row* ours = row_named("sandbox-run -p baseline");
  const Row* bubblewrap = row_named("bwrap --unshare-all");
  if (ours && bubblewrap) {
    results.bars.push_back(
        {"sandbox-run -p baseline / bwrap --unshare-all", ours->median_ns() / bubblewrap->median_ns(), 1.0, true});
  }
  results.notes.push_back(
      fmt::format("{} launches a round; the 99th percentile of so few is their slowest", kLaunchesPerRound));
  print(results, options.json);
  return 0;
}

}  // namespace srun::bench
