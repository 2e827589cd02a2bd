#include "bench/kernel_filters.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/unique_fd.h"
#include "bpf/compiler.h"
#include "kernel/arch.h"

#if defined(SANDBOX_BENCH_LIBSECCOMP)
#include <seccomp.h>
#endif

namespace srun::bench {
namespace {

constexpr uint32_t kNumbers = 330;
constexpr uint32_t kEvery = 11;
constexpr uint64_t kRefusedArgument = 7;
constexpr uint32_t kGetpid = SYS_getpid;
constexpr uint32_t kDenied = bpf::kRetErrno | EPERM;

// getpid is decided by its argument on either processor, so it must not be one of the refused.
static_assert(kGetpid % kEvery != 0 && kGetpid < kNumbers);

Result<std::vector<bpf::Instruction>> ours(const RuleShape& shape) {
  constexpr bpf::VerdictId kDeny = 0;
  constexpr bpf::VerdictId kAllow = 1;
  constexpr bpf::VerdictId kKill = 2;
  const std::vector<bpf::VerdictReturn> verdicts{
      {kDenied, kDenied}, {bpf::kRetAllow, bpf::kRetAllow}, {bpf::kRetKillProcess, bpf::kRetKillProcess}};
  bpf::ArchRules arch{kernel::audit_arch(kernel::kNativeArch), {}};
  for (uint32_t nr = 0; nr < kNumbers; ++nr) {
    bpf::Decision decision{{}, nr % kEvery == 0 ? kDeny : kAllow};
    if (nr == kGetpid && !shape.constant) {
      bpf::ArgTest test;
      test.op = bpf::CompareOp::kNotEqual;
      test.values = {kRefusedArgument};
      decision = {{{{test}, kAllow}}, kDeny};
    }
    arch.ranges.push_back({nr, nr, std::move(decision)});
  }
  // What libseccomp does with x32 numbers and with -1, so that both decide alike.
  arch.ranges.push_back({kNumbers, 0x3fffffff, {{}, kDeny}});
  arch.ranges.push_back({0x40000000, 0xfffffffe, {{}, kernel::kNativeArch == kernel::Arch::kX86_64 ? kKill : kDeny}});
  arch.ranges.push_back({0xffffffff, 0xffffffff, {{}, kDeny}});
  const std::vector<bpf::Layer> layers{{{std::move(arch)}, kKill}};
  const Result<bpf::CompiledStack> compiled = bpf::compile(layers, verdicts);
  if (!compiled) return failure(compiled.error());
  const auto code = compiled->kernel.code();
  return std::vector<bpf::Instruction>(code.begin(), code.end());
}

#if defined(SANDBOX_BENCH_LIBSECCOMP)
Result<std::vector<bpf::Instruction>> libseccomp(const RuleShape& shape, uint32_t optimize) {
  const std::unique_ptr<void, void (*)(void*)> context(::seccomp_init(SCMP_ACT_ERRNO(EPERM)), ::seccomp_release);
  if (!context) return failure(Error::from_text("seccomp_init", "", "libseccomp refuses"));
  int status = ::seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, optimize);
  if (status == 0) status = ::seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  for (uint32_t nr = 0; nr < kNumbers && status == 0; ++nr) {
    if (nr % kEvery == 0) continue;
    const scmp_arg_cmp unless{0, SCMP_CMP_NE, kRefusedArgument, 0};
    const unsigned tests = nr == kGetpid && !shape.constant ? 1 : 0;
    status = ::seccomp_rule_add_array(context.get(), SCMP_ACT_ALLOW, static_cast<int>(nr), tests, &unless);
  }
  if (status != 0) return errno_failure(-status, "libseccomp");
  const UniqueFd file(::memfd_create("filter", MFD_CLOEXEC));
  if (file.get() < 0) return errno_failure(errno, "memfd_create");
  status = ::seccomp_export_bpf(context.get(), file.get());
  if (status != 0) return errno_failure(-status, "seccomp_export_bpf");
  const off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  if (bytes < 0) return errno_failure(errno, "lseek");
  std::vector<bpf::Instruction> code(static_cast<size_t>(bytes) / sizeof(bpf::Instruction));
  if (::pread(file.get(), code.data(), static_cast<size_t>(bytes), 0) != bytes) return errno_failure(errno, "pread");
  return code;
}
#else
Result<std::vector<bpf::Instruction>> libseccomp(const RuleShape&, uint32_t) {
  return failure(Error::from_text("libseccomp", "", "built without it"));
}
#endif

}  // namespace

Result<std::vector<bpf::Instruction>> rule_filter(const RuleShape& shape, Layout layout) {
  switch (layout) {
    case Layout::kLinear:
      return libseccomp(shape, 1);
    case Layout::kTree:
      return libseccomp(shape, 2);
    default:
      return ours(shape);
  }
}

}  // namespace srun::bench
