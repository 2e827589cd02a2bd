#include "sandbox-policy/process_filters.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace srun::tool {
namespace {

// glibc has PTRACE_SECCOMP_GET_FILTER as an enumerator, musl not at all.
constexpr int kGetFilter = 0x420c;  // Linux 4.4
constexpr int kPollMilliseconds = 5;
constexpr int kPatienceMilliseconds = 5000;
// More filters than MAX_INSNS_PER_PATH (32768, each counting at least 1 + 4) lets anybody install.
constexpr unsigned long kMostFilters = 32768 / 5 + 1;

long request(int what, pid_t tid, unsigned long address, void* data) {
  return ::ptrace(static_cast<__ptrace_request>(what), tid, reinterpret_cast<void*>(address), data);
}

std::string status_field(pid_t tid, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(tid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name + ":")) continue;
    const size_t value = line.find_first_not_of(" \t", name.size() + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

tl::unexpected<Error> refused(int error, const char* operation, pid_t tid) {
  std::string remedy;
  if (error == ESRCH) {
    remedy = "there is no such process";
  } else if (error == EPERM) {
    const std::string tracer = status_field(tid, "TracerPid");
    remedy = !tracer.empty() && tracer != "0"
                 ? "process " + tracer + " traces it already, and there can only be one tracer"
                 : "tracing it is not permitted; reading filters takes root (CAP_SYS_PTRACE and CAP_SYS_ADMIN)";
  } else if (error == EACCES) {
    remedy =
        "the kernel gives filters out only to CAP_SYS_ADMIN in the initial user namespace, and to nobody who is "
        "under a seccomp filter; run this as root outside of containers";
  }
  return errno_failure(error, operation, "process " + std::to_string(tid), remedy);
}

// Ends the tracing; the thread goes on with the signal that stopped it, if one did.
class Tracee {
 public:
  explicit Tracee(pid_t tid) : tid_(tid) {}
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;
  // A thread that has not stopped can't be detached: that happens when this process ends.
  ~Tracee() {
    if (stopped_) request(PTRACE_DETACH, tid_, 0, reinterpret_cast<void*>(static_cast<long>(signal_)));
  }

  Result<void> stop() {
    if (request(PTRACE_INTERRUPT, tid_, 0, nullptr) != 0) return refused(errno, "ptrace(PTRACE_INTERRUPT)", tid_);
    for (int waited = 0; waited < kPatienceMilliseconds; waited += kPollMilliseconds) {
      int status = 0;
      const pid_t got = ::waitpid(tid_, &status, __WALL | WNOHANG);
      if (got < 0 && errno != EINTR) return refused(errno, "waitpid", tid_);
      if (got == tid_) {
        if (!WIFSTOPPED(status)) return refused(ESRCH, "ptrace(PTRACE_INTERRUPT)", tid_);
        stopped_ = true;
        // Event stops carry the event in the upper bits; a stop without one is the delivery of a signal.
        if (status >> 16 == 0) signal_ = WSTOPSIG(status);
        return {};
      }
      const timespec pause{0, kPollMilliseconds * 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
    return failure(
        Error::from_text("ptrace(PTRACE_INTERRUPT)", "process " + std::to_string(tid_),
                         "it does not stop; it waits in the kernel for something that cannot be interrupted"));
  }

 private:
  pid_t tid_;
  bool stopped_ = false;
  int signal_ = 0;
};

}  // namespace

std::string process_name(pid_t tid) { return status_field(tid, "Name"); }

Result<std::vector<std::vector<bpf::Instruction>>> process_filters(pid_t tid) {
  if (request(PTRACE_SEIZE, tid, 0, nullptr) != 0) return refused(errno, "ptrace(PTRACE_SEIZE)", tid);
  Tracee tracee(tid);
  if (Result<void> stopped = tracee.stop(); !stopped) return failure(std::move(stopped.error()));

  std::vector<std::vector<bpf::Instruction>> filters;
  // 0 is the oldest filter (kernel/seccomp.c, get_nth_filter).
  for (unsigned long index = 0; index < kMostFilters; ++index) {
    const long length = request(kGetFilter, tid, index, nullptr);
    if (length < 0) {
      const int error = errno;
      if (error == ENOENT) return filters;  // index is the number of filters
      // EINVAL: no filter at all, or a kernel built without CONFIG_CHECKPOINT_RESTORE.
      const std::string mode = status_field(tid, "Seccomp");
      if (error == EINVAL && index == 0 && (mode == "0" || mode == "1")) return filters;
      if (error == EINVAL)
        return errno_failure(error, "ptrace(PTRACE_SECCOMP_GET_FILTER)", "process " + std::to_string(tid),
                             "this kernel cannot give filters out (CONFIG_CHECKPOINT_RESTORE is off)");
      return refused(error, "ptrace(PTRACE_SECCOMP_GET_FILTER)", tid);
    }
    if (static_cast<size_t>(length) > bpf::kMaxInstructions)
      return failure(Error::from_text("ptrace(PTRACE_SECCOMP_GET_FILTER)", "process " + std::to_string(tid),
                                      "a filter of more instructions than the kernel accepts"));
    std::vector<bpf::Instruction> code(static_cast<size_t>(length));
    // The kernel writes as many struct sock_filter as it said; a thread that is stopped installs no other.
    if (request(kGetFilter, tid, index, code.data()) != length)
      return refused(errno, "ptrace(PTRACE_SECCOMP_GET_FILTER)", tid);
    filters.push_back(std::move(code));
  }
  return failure(
      Error::from_text("ptrace(PTRACE_SECCOMP_GET_FILTER)", "process " + std::to_string(tid), "no end of filters"));
}

}  // namespace srun::tool
