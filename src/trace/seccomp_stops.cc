#include "trace/seccomp_stops.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <array>
#include <cerrno>

#include "kernel/syscall_table.h"

namespace srun::trace {

int install_seccomp_stops(const CallSet& calls) {
  // A bit per number in 32-bit words: load the number, jump by its word, test the bit. A foreign architecture or a
  // number beyond the table is always stopped: it must not be missed (R16).
  constexpr uint32_t kNumbers = 512;
  std::array<uint32_t, kNumbers / 32> words{};
  for (uint32_t number = 0; number < kNumbers; ++number) {
    const kernel::Syscall* const row = kernel::find_syscall(kernel::kNativeArch, number);
    // The tracer takes pins back before these, so it has to see them.
    const bool needed = row != nullptr &&
                        (row->name == "clone" || row->name == "clone3" || row->name == "fork" || row->name == "vfork" ||
                         row->name == "sched_getaffinity" || row->name == "sched_setaffinity");
    if (row == nullptr ? calls.has(nullptr) : needed || calls.has(row)) words[number / 32] |= 1u << (number % 32);
  }
  std::array<sock_filter, 160> code{};
  unsigned short length = 0;
  const auto put = [&](uint16_t op, uint32_t k, uint8_t yes = 0, uint8_t no = 0) {
    code[length++] = sock_filter{op, yes, no, k};
  };
  put(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  put(BPF_JMP | BPF_JEQ | BPF_K, kernel::audit_arch(kernel::kNativeArch), 1, 0);
  put(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  put(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (uint32_t word = 0; word < words.size(); ++word) {
    const uint32_t bits = words[word];
    if (bits == 0 || bits == 0xffffffff) {  // all alike: no bit to test
      put(BPF_JMP | BPF_JGE | BPF_K, (word + 1) * 32, 1, 0);
      put(BPF_RET | BPF_K, bits == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRACE);
      continue;
    }
    put(BPF_JMP | BPF_JGE | BPF_K, (word + 1) * 32, 7, 0);
    put(BPF_ALU | BPF_AND | BPF_K, 31);
    put(BPF_MISC | BPF_TAX, 0);
    put(BPF_LD | BPF_IMM, bits);
    put(BPF_ALU | BPF_RSH | BPF_X, 0);
    put(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1);
    put(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  put(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  const sock_fprog program{length, code.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) return 0;
  if (errno != EACCES) return errno;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : errno;
}

}  // namespace srun::trace
