// sandbox-bench kernel: what filters cost each system call, by the getpid loop of the kernel's own selftest
// (tools/testing/selftests/seccomp/seccomp_benchmark.c).
//
// Each figure comes from a process of its own: it pins itself to one CPU, installs its filters, and times blocks of
// getpid by syscall(2). Nothing can be optimised away: the call is an instruction that the compiler cannot look into,
// and its result is consumed by an empty assembler statement. The subjects take turns in every round.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/unique_fd.h"
#include "bench/cases.h"
#include "bench/kernel_filters.h"
#include "bench/result.h"
#include "bpf/call_trace.h"
#include "bpf/kernel_bitmap.h"
#include "kernel/arch.h"

namespace srun::bench {
namespace {

using Code = std::vector<bpf::Instruction>;

constexpr int kDefaultRounds = 15;
constexpr size_t kBlocks = 12;
constexpr int kCallsPerBlock = 5000;

constexpr uint16_t kLoadWord = BPF_LD | BPF_W | BPF_ABS;
constexpr uint16_t kReturn = BPF_RET | BPF_K;
constexpr uint32_t kArgument0 = 16;

double now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

struct Figures {
  int error = 0;
  double install_ns = 0;  // all filters of the subject
  std::array<double, kBlocks> call_ns{};
};

Figures measure(const std::vector<Code>& filters) {
  Figures figures;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(std::max(::sched_getcpu(), 0), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    figures.error = errno;
    return figures;
  }
  const double before = now_ns();
  for (const Code& code : filters) {
    static_assert(sizeof(sock_filter) == sizeof(bpf::Instruction));
    std::vector<sock_filter> copy(code.size());
    std::memcpy(copy.data(), code.data(), code.size() * sizeof(sock_filter));
    const sock_fprog program{static_cast<unsigned short>(copy.size()), copy.data()};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
      figures.error = errno;
      return figures;
    }
  }
  figures.install_ns = now_ns() - before;
  for (double& block : figures.call_ns) {
    const double start = now_ns();
    for (int i = 0; i < kCallsPerBlock; ++i) {
      const long pid = ::syscall(SYS_getpid, 0L);
      asm volatile("" : : "r"(pid) : "memory");
    }
    block = (now_ns() - start) / kCallsPerBlock;
  }
  return figures;
}

Result<Figures> measure_in_child(const std::vector<Code>& filters) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_failure(errno, "pipe2");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno_failure(errno, "fork");
  if (child == 0) {
    const Figures figures = measure(filters);
    const bool written = ::write(writer.get(), &figures, sizeof figures) == ssize_t{sizeof figures};
    ::_exit(written ? 0 : 1);
  }
  writer.reset();
  Figures figures;
  const ssize_t got = ::read(reader.get(), &figures, sizeof figures);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  if (got != ssize_t{sizeof figures}) return failure(Error::from_text("measure getpid", "", "the child ended early"));
  if (figures.error != 0) return errno_failure(figures.error, "seccomp(SECCOMP_SET_MODE_FILTER)");
  return figures;
}

struct Subject {
  std::string name;
  std::vector<Code> filters;
  std::string missing;
  std::vector<double> calls;   // median block of each round
  std::vector<double> leasts;  // fastest block of each round: what other guests of the host disturbed least
  std::vector<double> p99s;
  std::vector<double> installs;  // of each round
};

class Bench {
 public:
  void add(std::string name, std::vector<Code> filters) {
    subjects_.push_back({std::move(name), std::move(filters), {}, {}, {}, {}, {}});
  }

  // One rule set in one layout, its row naming how much of it getpid runs.
  void add_rules(const std::string& name, const RuleShape& shape, Layout layout) {
    const Result<Code> code = rule_filter(shape, layout);
    if (!code) {
      subjects_.push_back({name, {}, code.error().message(), {}, {}, {}, {}});
      return;
    }
    notes_.push_back(fmt::format("{}: {}", name, executed_text(*code)));
    add(name, {*code});
  }

  Result<void> run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (Subject& subject : subjects_) {
        if (!subject.missing.empty()) continue;
        const Result<Figures> figures = measure_in_child(subject.filters);
        if (!figures) return failure(figures.error());
        const std::vector<double> blocks(figures->call_ns.begin(), figures->call_ns.end());
        subject.calls.push_back(median(blocks));
        subject.leasts.push_back(*std::min_element(blocks.begin(), blocks.end()));
        subject.p99s.push_back(percentile(blocks, 99));
        subject.installs.push_back(figures->install_ns);
      }
    }
    return {};
  }

  void total_rows(Results& results) const {
    for (const Subject& subject : subjects_)
      results.rows.push_back({"getpid, " + subject.name, subject.calls, subject.p99s, subject.missing});
  }
  void install_rows(Results& results) const {
    for (const Subject& subject : subjects_) {
      if (subject.filters.empty() && subject.missing.empty()) continue;
      results.rows.push_back({"install, " + subject.name, subject.installs, {}, subject.missing});
    }
  }
  // The difference of two subjects' fastest blocks, round by round.
  void difference(Results& results, const std::string& name, const std::string& more, const std::string& less) const {
    const Subject* first = find(more);
    const Subject* second = find(less);
    if (first == nullptr || second == nullptr) return;
    Row row{name, {}, {}, {}};
    for (size_t round = 0; round < first->leasts.size(); ++round) {
      row.round_medians_ns.push_back(first->leasts[round] - second->leasts[round]);
    }
    results.rows.push_back(std::move(row));
  }
  // Ours against theirs, by the best round of each.
  void at_most(Results& results, const std::string& ours, const std::string& theirs) const {
    const Subject* first = find(ours);
    const Subject* second = find(theirs);
    if (first == nullptr || second == nullptr) return;
    const auto least = [](const std::vector<double>& values) {
      return *std::min_element(values.begin(), values.end());
    };
    results.bars.push_back(
        {"getpid, " + ours + " / " + theirs, least(first->leasts) / least(second->leasts), 1.05, true});
    results.bars.push_back(
        {"install, " + ours + " / " + theirs, least(first->installs) / least(second->installs), 1, true});
  }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static std::string executed_text(const Code& code) {
    const Result<bpf::Program, bpf::VerifyError> program = bpf::verify(code, bpf::Flavour::kSeccomp);
    if (!program) return program.error().message();
    bpf::CallData call;
    call.nr = SYS_getpid;
    call.arch = kernel::audit_arch(kernel::kNativeArch);
    bpf::KernelBitmapRules rules;
    rules.native_arch = call.arch;
    if (bpf::kernel_sees_allow(code, rules, call.arch, SYS_getpid))
      return fmt::format("{}, none executed: the call is in the bitmap", count_of(code.size(), "instruction"));
    return fmt::format("{}, {} executed", count_of(code.size(), "instruction"),
                       bpf::trace_call(*program, call).instructions.size());
  }

  const Subject* find(const std::string& name) const {
    const auto found = std::find_if(subjects_.begin(), subjects_.end(), [&](const Subject& subject) {
      return subject.name == name && !subject.calls.empty();
    });
    return found == subjects_.end() ? nullptr : &*found;
  }

  std::vector<Subject> subjects_;
  std::vector<std::string> notes_;
};

}  // namespace

int run_kernel(const Options& options) {
  if (!options.rest.empty()) {
    fmt::print(stderr, "sandbox-bench: kernel does not know '{}'\n", options.rest[0]);
    return 1;
  }
  // The kernel's bitmap holds what the first filter allows; the second one looks at an argument, so it always runs.
  const Code constant{{kReturn, 0, 0, bpf::kRetAllow}};
  const Code by_argument{{kLoadWord, 0, 0, kArgument0}, {kReturn, 0, 0, bpf::kRetAllow}};
  Bench bench;
  bench.add("no filter", {});
  bench.add("1 constant filter", {constant});
  bench.add("2 constant filters", {constant, constant});
  bench.add("1 filter that loads an argument", {by_argument});
  bench.add("2 filters that load an argument", {by_argument, by_argument});
  bench.add_rules("300 rules, ours, constant", {true}, Layout::kOurs);
  bench.add_rules("300 rules, ours", {false}, Layout::kOurs);
  bench.add_rules("300 rules, libseccomp's tree", {false}, Layout::kTree);
  bench.add_rules("300 rules, libseccomp linear", {false}, Layout::kLinear);

  Results results;
  results.case_name = "kernel";
  results.load = current_load();
  if (const Result<void> done = bench.run(options.rounds > 0 ? options.rounds : kDefaultRounds); !done) {
    fmt::print(stderr, "sandbox-bench: {}\n", done.error().message());
    return 1;
  }
  bench.total_rows(results);
  bench.difference(results, "entry with a bitmap hit", "1 constant filter", "no filter");
  bench.difference(results, "second filter, bitmap hit", "2 constant filters", "1 constant filter");
  bench.difference(results, "first filter that runs", "1 filter that loads an argument", "1 constant filter");
  bench.difference(results, "each further filter that runs", "2 filters that load an argument",
                   "1 filter that loads an argument");
  bench.install_rows(results);
  bench.at_most(results, "300 rules, ours", "300 rules, libseccomp's tree");
  bench.at_most(results, "300 rules, ours", "300 rules, libseccomp linear");
  results.notes = bench.notes();
  results.notes.push_back(
      "entry and filter rows are differences of the fastest blocks of two getpid rows, round by round");
  print(results, options.json);
  return 0;
}

}  // namespace srun::bench
