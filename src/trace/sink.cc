#include "trace/sink.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace srun::trace {
namespace {

constexpr auto kDelay = std::chrono::milliseconds(5);

}  // namespace

Flusher::~Flusher() {
  state_ = 2;
  state_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Flusher::add(const std::shared_ptr<Sink>& sink) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sinks_, [](const std::weak_ptr<Sink>& known) { return known.expired(); });
  sinks_.push_back(sink);
}

void Flusher::mark() {
  if (state_.load(std::memory_order_relaxed) != 0) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  int clean = 0;
  if (state_.compare_exchange_strong(clean, 1)) state_.notify_one();
}

void Flusher::loop() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    state_.wait(0);
    if (state_ == 2) return;
    std::this_thread::sleep_for(kDelay);
    int dirty = 1;
    state_.compare_exchange_strong(dirty, 0);
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<Sink>& known : sinks_)
      if (const std::shared_ptr<Sink> sink = known.lock()) sink->flush();
  }
}

void Sink::append(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    text_ += text;
    if (flusher_ == nullptr || text_.size() >= kFull) {
      write_all();
      return;
    }
  }
  flusher_->mark();
}

void Sink::flush() {
  const std::lock_guard lock(mutex_);
  write_all();
}

void Sink::close() {
  const std::lock_guard lock(mutex_);
  write_all();
  fd_.reset();
  failed_ = true;
}

void Sink::write_all() {
  size_t done = 0;
  while (done < text_.size() && !failed_) {
    const ssize_t wrote = ::write(fd_.get(), text_.data() + done, text_.size() - done);
    if (wrote > 0) {
      done += static_cast<size_t>(wrote);
    } else if (wrote < 0 && errno == EAGAIN) {
      pollfd waiting{fd_.get(), POLLOUT, 0};
      ::poll(&waiting, 1, 1000);
    } else if (wrote < 0 && errno != EINTR) {
      failed_ = true;
    }
  }
  text_.clear();
}

}  // namespace srun::trace
