#include "supervisor/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "kernel/sys.h"

namespace srun::supervisor {
namespace {

// Reads at most `size` bytes of a small /proc file; -1 if it is gone.
ssize_t read_proc(const char* path, char* buffer, size_t size) {
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return -1;
  return read(file.get(), buffer, size);
}

pid_t number_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return 0;
  const size_t digits = text.find_first_of("0123456789", at + key.size());
  if (digits == std::string_view::npos) return 0;
  pid_t value = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

// "Seccomp_filters:" of /proc/PID/status, since Linux 5.9; nullopt: not there, or the process is gone.
std::optional<int> seccomp_filters(pid_t pid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/status", pid);
  std::array<char, 4096> buffer;
  const ssize_t length = read_proc(path.data(), buffer.data(), buffer.size());
  if (length <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<size_t>(length));
  constexpr std::string_view kKey = "\nSeccomp_filters:\t";
  const size_t at = text.find(kKey);
  int value = 0;
  if (at == std::string_view::npos ||
      std::from_chars(text.data() + at + kKey.size(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// Children of all threads of `pid`, from /proc/PID/task/*/children (CONFIG_PROC_CHILDREN, which checkpointing needs and
// distributions set). False if this kernel does not offer the file.
bool children_of(pid_t pid, std::vector<pid_t>& out) {
  const std::string base = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, CloseDirectory> threads(opendir(base.c_str()));
  if (!threads) return true;  // it ended
  bool offered = true;
  while (const dirent* entry = readdir(threads.get())) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    const UniqueFd file(open((base + "/" + entry->d_name + "/children").c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      offered = errno != ENOENT || access((base + "/" + entry->d_name).c_str(), F_OK) != 0;
      continue;
    }
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t got; (got = read(file.get(), buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<size_t>(got));
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
      pid_t child = 0;
      const auto [next, error] = std::from_chars(at, end, child);
      if (error == std::errc{}) out.push_back(child);
      at = next + 1;
    }
  }
  return offered;
}

// The same for kernels without the file: one pass over /proc.
std::vector<pid_t> descendants_by_scan(pid_t root) {
  std::vector<std::pair<pid_t, pid_t>> parents;  // (pid, ppid)
  const std::unique_ptr<DIR, CloseDirectory> proc(opendir("/proc"));
  if (!proc) return {};
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    if (const std::optional<TaskStatus> status = task_status(pid)) parents.emplace_back(pid, status->ppid);
  }
  std::vector<pid_t> found;
  std::vector<pid_t> frontier{root};
  while (!frontier.empty()) {
    const pid_t parent = frontier.back();
    frontier.pop_back();
    for (const auto& [pid, ppid] : parents) {
      if (ppid != parent || pid == root) continue;
      found.push_back(pid);
      frontier.push_back(pid);
    }
  }
  return found;
}

}  // namespace

std::optional<TaskStatus> task_status(pid_t tid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/status", tid);
  std::array<char, 1024> buffer;
  const ssize_t length = read_proc(path.data(), buffer.data(), buffer.size());
  if (length <= 0) return std::nullopt;
  // The first line is "Name:" with hostile text, in which the kernel escapes newlines: a key after a newline is real.
  const std::string_view text(buffer.data(), static_cast<size_t>(length));
  TaskStatus status{number_after(text, "\nTgid:"), number_after(text, "\nPPid:")};
  if (status.tgid == 0) return std::nullopt;
  return status;
}

bool read_comm(pid_t tid, char (&comm)[16]) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/comm", tid);
  std::array<char, 64> buffer;
  ssize_t length = read_proc(path.data(), buffer.data(), buffer.size());
  if (length <= 0) return false;
  if (buffer[static_cast<size_t>(length) - 1] == '\n') --length;
  const size_t kept = std::min<size_t>(static_cast<size_t>(length), sizeof comm - 1);
  std::memset(comm, 0, sizeof comm);
  std::memcpy(comm, buffer.data(), kept);
  return true;
}

bool Membership::is_member(pid_t tid) const {
  if (tid <= 0) return false;
  // An orphan moves to a subreaper while we walk: the chain is then broken at the dead parent, so walk again.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::optional<TaskStatus> status = task_status(tid);
    if (!status || status->tgid == supervisor_ || status->tgid == guard_) return false;
    for (int depth = 0; depth < 4096; ++depth) {
      if (status->ppid == supervisor_) return true;
      if (status->ppid <= 1 || status->ppid == guard_) return false;
      status = task_status(status->ppid);
      if (!status) break;
    }
  }
  return false;
}

std::vector<pid_t> descendants(pid_t root) {
  std::vector<pid_t> found;
  if (!children_of(root, found)) return descendants_by_scan(root);
  for (size_t next = 0; next < found.size(); ++next) {
    if (!children_of(found[next], found)) return descendants_by_scan(root);
    if (found.size() > 4'000'000) break;  // more than the largest pid_max: the tree moved under us
  }
  return found;
}

void end_all(pid_t watched, int* watched_status) {
  const pid_t self = getpid();
  for (unsigned round = 0;; ++round) {
    // Reap first: what has ended needs no signal, and a reaped number is never signalled below.
    while (true) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
      if (pid > 0) {
        if (pid == watched && watched_status != nullptr) *watched_status = status;
        continue;
      }
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return;  // ECHILD: nothing is left
      break;
    }
    // Direct children can't be mistaken for others: their numbers stay taken until we reap them. Deeper ones are held
    // by pidfd and checked again; whatever is missed becomes a direct child as soon as its parent has died.
    const Membership membership(self, -1);
    for (const pid_t pid : descendants(self)) {
      const Result<UniqueFd> pidfd = kernel::pidfd_open(pid);
      if (!pidfd || !membership.is_member(pid)) continue;
      // ESRCH: it ended meanwhile.
      static_cast<void>(kernel::pidfd_send_signal(pidfd->borrow(), SIGKILL));
    }
    const timespec nap{0, round < 10 ? 200'000 : 2'000'000};
    nanosleep(&nap, nullptr);
  }
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> found;
  const pid_t self = getpid();
  if (!children_of(self, found)) {
    found = descendants_by_scan(self);
    std::erase_if(found, [self](pid_t pid) {
      const std::optional<TaskStatus> status = task_status(pid);
      return !status || status->ppid != self;
    });
  }
  return found;
}

void end_all_but(std::vector<pid_t> strangers) {
  if (strangers.empty()) return end_all();
  const pid_t self = getpid();
  const std::optional<int> own_filters = seccomp_filters(self);
  for (unsigned round = 0;; ++round) {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0 || (pid < 0 && errno == EINTR);)
      std::erase(strangers, pid);  // from here on the number may be somebody else's
    bool any = false;
    const Membership membership(self, -1);
    for (const pid_t child : own_children()) {
      if (std::find(strangers.begin(), strangers.end(), child) != strangers.end()) continue;
      const std::optional<int> filters = seccomp_filters(child);
      // One that can't be told (before Linux 5.9, or it has just ended) counts as a member.
      if (own_filters && filters && *filters <= *own_filters) continue;
      any = true;
      std::vector<pid_t> members = descendants(child);
      members.push_back(child);
      for (const pid_t pid : members) {
        const Result<UniqueFd> pidfd = kernel::pidfd_open(pid);
        if (!pidfd || !membership.is_member(pid)) continue;
        static_cast<void>(kernel::pidfd_send_signal(pidfd->borrow(), SIGKILL));  // ESRCH: it ended meanwhile
      }
    }
    if (!any) return;
    const timespec nap{0, round < 10 ? 200'000 : 2'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace srun::supervisor
