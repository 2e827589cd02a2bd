#pragma once
// Turns the arguments of a system call into text, driven by the argument kinds of the syscall table. What a pointer
// leads to is read once, bounded by the options, and belongs to somebody hostile: it is shown and never decides
// anything.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "trace/call.h"
#include "trace/put.h"
#include "trace/xlat.h"

namespace srun::trace {

enum class FdNames : uint8_t { kNone, kPaths, kAll };  // -y, -yy

struct DecodeOptions {
  size_t string_limit = 32;  // -s, bytes; also caps arrays (R21)
  bool verbose = false;      // -v
  HexStrings hex = HexStrings::kNever;
  XlatStyle xlat = XlatStyle::kAbbrev;
  FdNames fds = FdNames::kNone;
};

// Not thread-safe; one per tracer. Nothing here fails: what can't be read is shown as its address.
class Decoder {
 public:
  explicit Decoder(const DecodeOptions& options) : options_(options) {}

  // Appends to an empty `line` every argument up to the first that the call writes.
  void entry(const Call& call, Line& line);
  // The rest, and what is special about the result. `line` is the one that entry() filled.
  void exit(const Call& call, Line& line);
  // The call never came back: what is missing is shown as at entry.
  const DecodeOptions& options() const { return options_; }

  // Shared with the printer of signals and results.
  void put_fd(std::string& out, pid_t tid, int fd);

 private:
  struct At {
    const Call& call;
    Line& line;
    std::string& out;
    kernel::ArgList args;
    bool exiting;
    int index;  // of the argument at hand

    uint64_t value() const { return call.args[static_cast<size_t>(index)]; }
    uint64_t value(int of) const { return call.args[static_cast<size_t>(of)]; }
    kernel::ArgKind kind(int of) const { return args.args[static_cast<size_t>(of)].kind; }
  };

  void run(const Call& call, Line& line, bool exiting);
  static bool waits_for_exit(const At& at);
  bool omitted(const At& at) const;
  void put_argument(At& at);
  bool put_scalar(At& at);
  bool put_special(At& at);     // by call, decode_calls.cc
  void finish_special(At& at);  // remarks about the result, decode_calls.cc
  bool put_memory(At& at);      // structures, decode_structures.cc
  bool put_socket(At& at);      // decode_sockets.cc

  bool fetch(const At& at, uint64_t address, void* to, size_t size) const;
  template <typename T>
  bool fetch(const At& at, uint64_t address, T& to) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return fetch(at, address, &to, sizeof to);
  }
  void path(At& at, uint64_t address);
  void string(At& at, uint64_t address);
  void bytes(At& at, uint64_t address, uint64_t length);
  void hex_bytes(At& at, uint64_t address, uint64_t length);
  void string_array(At& at, uint64_t address);
  void environment(At& at, uint64_t address);
  void iovec(At& at, uint64_t address, uint64_t count, uint64_t available);
  void sockaddr(At& at, uint64_t address, uint64_t length);
  void msghdr(At& at, uint64_t address, uint64_t available);
  void control(At& at, uint64_t address, uint64_t length);
  void sigset(At& at, uint64_t address, uint64_t size);
  void siginfo_at(At& at, uint64_t address);
  void sigaction(At& at, uint64_t address);
  void timespec(At& at, uint64_t address, bool dated);
  void timeval(At& at, uint64_t address);
  void stat(At& at, uint64_t address);
  void statx(At& at, uint64_t address);
  void rlimit(At& at, uint64_t address);
  void fd_set(At& at, uint64_t address, int count);
  void pollfds(At& at, uint64_t address, uint64_t count);
  void epoll_event(At& at, const void* event);
  void cpu_mask(At& at, uint64_t address, uint64_t size);
  void rusage(At& at, uint64_t address);
  void futex(At& at);
  void fcntl_argument(At& at);
  void ioctl_argument(At& at);
  void prctl_argument(At& at);
  void clone_flags(At& at);
  void clone_args(At& at, uint64_t address, uint64_t size);
  void sockopt(At& at);

  void flags(At& at, XlatId table, uint64_t value) { put_flags(at.out, table, value, options_.xlat); }
  void value(At& at, XlatId table, uint64_t value) { put_value(at.out, table, value, options_.xlat); }

  DecodeOptions options_;
  std::string scratch_;
};

// "SIGUSR1", "SIGRT_1", "1000" (R24 drops the SIG).
void put_signal(std::string& out, uint64_t number);
// [INT CHLD] or ~[...].
void put_signal_set(std::string& out, uint64_t set);
// {WIFEXITED(s) && WEXITSTATUS(s) == 3} (R25).
void put_wait_status(std::string& out, int status);
// {si_signo=…} (R31).
void put_siginfo(std::string& out, const void* siginfo, bool in_call);
// "ENOENT"; empty if unknown.
std::string_view errno_symbol(int number);
// Octal with the file type's name.
void put_file_mode(std::string& out, uint64_t mode, XlatStyle style);

}  // namespace srun::trace
