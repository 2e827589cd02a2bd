#pragma once
#include <unistd.h>

#include <utility>

namespace srun {

// A descriptor that somebody else owns and that outlives this value.
class BorrowedFd {
 public:
  constexpr BorrowedFd() = default;
  constexpr explicit BorrowedFd(int fd) : fd_(fd) {}
  constexpr int get() const { return fd_; }
  constexpr explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Owns a descriptor from the line that makes it. Everything made in this project is O_CLOEXEC (H24).
class UniqueFd {
 public:
  constexpr UniqueFd() = default;
  constexpr explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  BorrowedFd borrow() const { return BorrowedFd(fd_); }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    // The result is ignored: close(2) on Linux has released the number even when it reports EINTR or EIO.
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace srun
