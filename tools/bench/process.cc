#include "bench/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/scope_exit.h"
#include "base/unique_fd.h"

namespace srun::bench {
namespace {

using Clock = std::chrono::steady_clock;

// posix_spawn wants pointers that are not const although it changes nothing (posix_spawn(3)).
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string read_end_of(BorrowedFd file, size_t limit) {
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size <= 0) return {};
  const auto length = std::min(static_cast<size_t>(size), limit);
  std::string text(length, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), length, size - static_cast<off_t>(length));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<int> wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno_failure(errno, "waitpid");
  }
  return status;
}

std::string status_text(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  return fmt::format("killed by signal {}", WTERMSIG(status));
}

}  // namespace

std::string own_binary() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/bin:/bin";
  while (true) {
    const size_t colon = rest.find(':');
    const std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

std::string product_binary() {
  const std::string beside = (std::filesystem::path(own_binary()).parent_path() / "sandbox-run").string();
  return ::access(beside.c_str(), X_OK) == 0 ? beside : find_program("sandbox-run");
}

Result<ScratchFolder> ScratchFolder::make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "sandbox-bench-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) return errno_failure(errno, "mkdtemp", path);
  return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // a leftover in /tmp must not change the figures' exit status
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<std::string> ScratchFolder::write(std::string_view name, std::string_view text) const {
  std::string path = fmt::format("{}/{}", path_, name);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return errno_failure(errno, "open", path);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return errno_failure(errno, "write", path);
  }
  return path;
}

Result<std::string> capture(const std::vector<std::string>& argv, std::chrono::seconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_failure(errno, "pipe2");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const UniqueFd errors(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!errors) return errno_failure(errno, "open(O_TMPFILE)", "/tmp");

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors.get(), 2);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, argv[0].c_str(), &actions, nullptr, pointers(argv).data(), environ);
  if (failed != 0) return errno_failure(failed, "posix_spawn", argv[0]);
  writer.reset();

  std::string output;
  const auto end = Clock::now() + limit;
  bool late = false;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wanted{reader.get(), POLLIN, 0};
    const int ready = left > 0 ? ::poll(&wanted, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      late = true;
      ::kill(child, SIGTERM);  // so that sandbox-run ends its tree; its own end closes the pipe
      break;
    }
    char buffer[4096];
    const ssize_t got = ::read(reader.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    output.append(buffer, static_cast<size_t>(got));
  }
  const Result<int> status = wait_for(child);
  if (!status) return failure(status.error());
  if (late) return failure(Error::from_text("run", argv[0], fmt::format("not done within {} s", limit.count())));
  if (*status != 0) {
    return failure(Error::from_text("run", argv[0],
                                    fmt::format("{}: {}", status_text(*status), read_end_of(errors.borrow(), 400))));
  }
  return output;
}

Result<double> time_run(const std::vector<std::string>& argv) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const std::vector<char*> words = pointers(argv);
  const auto start = Clock::now();
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, argv[0].c_str(), &actions, nullptr, words.data(), environ);
  if (failed != 0) return errno_failure(failed, "posix_spawn", argv[0]);
  const Result<int> status = wait_for(child);
  const auto end = Clock::now();
  if (!status) return failure(status.error());
  if (*status != 0) return failure(Error::from_text("run", argv[0], status_text(*status)));
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
}

}  // namespace srun::bench
