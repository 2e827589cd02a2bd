#include "supervisor/slow_calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"

namespace srun::supervisor {
namespace {

constexpr std::chrono::milliseconds kWatchPeriod{10};

int wake_signal() { return SIGRTMAX - 1; }

// The handler is empty and without SA_RESTART: EINTR is the message.
void wake(int) {}

bool install_handler() {
  struct sigaction action {};
  action.sa_handler = wake;
  return sigaction(wake_signal(), &action, nullptr) == 0;
}

// Fields of /proc/TID/status in hexadecimal or decimal, after "Name:\t".
std::optional<uint64_t> field(std::string_view status, std::string_view name, int base) {
  const size_t at = status.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  return std::strtoull(status.data() + at + name.size(), nullptr, base);
}

}  // namespace

bool has_deliverable_signal(pid_t tid) {
  std::array<char, 48> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/status", tid);
  const UniqueFd file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  std::array<char, 4096> text;
  const ssize_t size = read(file.get(), text.data(), text.size() - 1);
  if (size <= 0) return false;
  text[static_cast<size_t>(size)] = '\0';
  const std::string_view status(text.data(), static_cast<size_t>(size));
  const auto own = field(status, "\nSigPnd:\t", 16);
  const auto shared = field(status, "\nShdPnd:\t", 16);
  const auto blocked = field(status, "\nSigBlk:\t", 16);
  const auto ignored = field(status, "\nSigIgn:\t", 16);
  const auto tgid = field(status, "\nTgid:\t", 10);
  const auto threads = field(status, "\nThreads:\t", 10);
  if (!own || !shared || !blocked || !ignored || !tgid || !threads) return false;
  uint64_t pending = *own;
  if (*threads == 1 || static_cast<pid_t>(*tgid) == tid) pending |= *shared;
  return (pending & ~*blocked & ~*ignored) != 0;
}

void SlowCalls::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Running& running : running_) running.interruption.store(Interruption::kGone);
  }
  changed_.notify_all();
  // The watcher goes on waking the workers until none is left.
  if (watcher_.joinable()) watcher_.join();
}

bool SlowCalls::take(const Notification& notification, std::unique_ptr<SlowCall> call) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  reap_finished();
  if (running_.size() >= kMaxSlowCalls) return false;
  if (!watcher_.joinable()) {
    if (!install_handler()) return false;
    try {
      watcher_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  Running& entry = running_.emplace_back();
  entry.notification = notification;
  entry.call = std::move(call);
  try {
    entry.thread = std::thread([this, &entry] {
      pthread_setname_np(pthread_self(), "srun-slow");
      sigset_t only_wake;
      sigemptyset(&only_wake);
      sigaddset(&only_wake, wake_signal());
      pthread_sigmask(SIG_UNBLOCK, &only_wake, nullptr);
      const Answer answer = entry.call->run(entry.notification, entry.interruption);
      // A slow call never lets the kernel go on by itself.
      entry.notification.send(answer.kind == Answer::Kind::kContinue ? Answer::fail(EPERM) : answer);
      // Under the lock, and the last thing that this thread does with either object: who sees it under the lock may
      // join.
      const std::lock_guard finished_lock(mutex_);
      entry.finished = true;
      changed_.notify_all();
    });
  } catch (const std::system_error&) {
    running_.pop_back();
    return false;
  }
  changed_.notify_all();
  return true;
}

void SlowCalls::reap_finished() {
  for (auto entry = running_.begin(); entry != running_.end();) {
    if (!entry->finished) {
      ++entry;
      continue;
    }
    entry->thread.join();
    entry = running_.erase(entry);
  }
}

void SlowCalls::watch() {
  pthread_setname_np(pthread_self(), "srun-watch");
  std::unique_lock lock(mutex_);
  while (true) {
    reap_finished();
    if (running_.empty()) {
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    for (Running& running : running_) {
      if (running.finished) continue;
      if (running.interruption.load() == Interruption::kNone) {
        if (!running.notification.valid())
          running.interruption.store(Interruption::kGone);
        else if (has_deliverable_signal(running.notification.tid))
          running.interruption.store(Interruption::kSignal);
      }
      // Again and again: the worker may have looked at `interruption` just before it blocked.
      if (running.interruption.load() != Interruption::kNone)
        pthread_kill(running.thread.native_handle(), wake_signal());
    }
    changed_.wait_for(lock, kWatchPeriod);
  }
}

}  // namespace srun::supervisor
