#include "bench/looper.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "bench/cases.h"
#include "bench/result.h"

namespace srun::bench {
namespace {

uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // vDSO: not a system call where the clock source is the TSC
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Raw: glibc's getppid is the same, but a value of ours (a denied call's errno) must not be looked at twice.
// The argument, which the kernel ignores, is given so that it is never floor.cc's mark of the last call by accident.
long one_call() { return ::syscall(SYS_getppid, 0); }

std::atomic<uint64_t> signals{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
void on_alarm(int) { signals.fetch_add(1, std::memory_order_relaxed); }

void warm_up(int milliseconds) {
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000u;
  while (now_ns() < end) one_call();
}

LooperFigures loop_timed(const LooperPlan& plan) {
  std::vector<double> samples;
  samples.reserve(size_t{1} << 19);
  samples.assign(samples.capacity(), 1.0);  // touch the pages now, not while measuring
  samples.clear();
  warm_up(plan.warm_ms);
  const uint64_t end = now_ns() + static_cast<uint64_t>(plan.measure_ms) * 1'000'000u;
  uint64_t before = now_ns();
  while (before < end && samples.size() < samples.capacity()) {
    for (int i = 0; i < plan.batch; ++i) one_call();
    const uint64_t after = now_ns();
    samples.push_back(static_cast<double>(after - before) / plan.batch);
    before = after;
  }
  LooperFigures figures;
  figures.calls = samples.size() * static_cast<uint64_t>(plan.batch);
  figures.p99_ns = percentile(samples, 99);
  figures.median_ns = percentile(std::move(samples), 50);
  return figures;
}

// Calls of one task until `end`; the clock is read every 16 calls.
uint64_t count_until(uint64_t start, uint64_t end) {
  while (now_ns() < start) one_call();
  uint64_t calls = 0;
  while (now_ns() < end) {
    for (int i = 0; i < 16; ++i) one_call();
    calls += 16;
  }
  return calls;
}

LooperFigures loop_total(const LooperPlan& plan) {
  // Shared with the children: each adds its count.
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {};
  auto* total = new (page) std::atomic<uint64_t>(0);
  const uint64_t start = now_ns() + static_cast<uint64_t>(plan.warm_ms) * 1'000'000u;
  const uint64_t end = start + static_cast<uint64_t>(plan.measure_ms) * 1'000'000u;
  int started = 0;
  for (int i = 1; i < plan.tasks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      total->fetch_add(count_until(start, end));
      ::_exit(0);
    }
    if (child > 0) ++started;
  }
  total->fetch_add(count_until(start, end));
  for (int i = 0; i < started; ++i) {
    while (::wait(nullptr) < 0 && errno == EINTR) continue;
  }
  LooperFigures figures;
  figures.calls = total->load();
  ::munmap(page, 4096);
  if (figures.calls > 0) figures.median_ns = static_cast<double>(end - start) / static_cast<double>(figures.calls);
  return figures;
}

LooperFigures loop_timer(const LooperPlan& plan) {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = plan.restart ? SA_RESTART : 0;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 1000}, {0, 1000}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  LooperFigures figures;
  const uint64_t start = now_ns();
  const uint64_t end = start + static_cast<uint64_t>(plan.measure_ms) * 1'000'000u;
  while (now_ns() < end) {
    errno = 0;
    if (one_call() < 0 && errno == EINTR) ++figures.interrupted;
    ++figures.calls;
  }
  const itimerval off{};
  ::setitimer(ITIMER_REAL, &off, nullptr);
  figures.signals = signals.load();
  if (figures.calls > 0) figures.median_ns = static_cast<double>(end - start) / static_cast<double>(figures.calls);
  return figures;
}

}  // namespace

LooperFigures loop(const LooperPlan& plan) {
  switch (plan.kind) {
    case LooperPlan::Kind::kTimed:
      return loop_timed(plan);
    case LooperPlan::Kind::kTotal:
      return loop_total(plan);
    case LooperPlan::Kind::kTimer:
      return loop_timer(plan);
  }
  return {};
}

std::string to_line(const LooperFigures& figures) {
  return fmt::format("{:.1f} {:.1f} {} {} {}\n", figures.median_ns, figures.p99_ns, figures.calls, figures.interrupted,
                     figures.signals);
}

Result<LooperFigures> from_line(std::string_view line) {
  LooperFigures figures;
  std::istringstream words{std::string(line)};
  words >> figures.median_ns >> figures.p99_ns >> figures.calls >> figures.interrupted >> figures.signals;
  if (!words) return failure(Error::from_text("read the looper's figures", std::string(line), "not five numbers"));
  return figures;
}

std::vector<std::string> to_words(const LooperPlan& plan) {
  std::vector<std::string> words{"--looper"};
  for (const int number :
       {static_cast<int>(plan.kind), plan.tasks, plan.batch, plan.restart ? 1 : 0, plan.warm_ms, plan.measure_ms}) {
    words.push_back(std::to_string(number));
  }
  return words;
}

Result<LooperPlan> from_words(const std::vector<std::string>& words) {
  int numbers[6] = {};
  if (words.size() != 6) return failure(Error::from_text("--looper", "", "takes six numbers"));
  for (size_t i = 0; i < 6; ++i) {
    const char* end = words[i].data() + words[i].size();
    const auto parsed = std::from_chars(words[i].data(), end, numbers[i]);
    if (parsed.ec != std::errc{} || parsed.ptr != end || numbers[i] < 0) {
      return failure(Error::from_text("--looper", words[i], "not a number from 0 up"));
    }
  }
  if (numbers[0] > 2 || numbers[1] < 1 || numbers[1] > 64 || numbers[2] < 1) {
    return failure(Error::from_text("--looper", words[0], "kind, tasks or batch out of range"));
  }
  LooperPlan plan;
  plan.kind = static_cast<LooperPlan::Kind>(numbers[0]);
  plan.tasks = numbers[1];
  plan.batch = numbers[2];
  plan.restart = numbers[3] != 0;
  plan.warm_ms = numbers[4];
  plan.measure_ms = numbers[5];
  return plan;
}

int run_looper(const std::vector<std::string>& arguments) {
  const Result<LooperPlan> plan = from_words(arguments);
  if (!plan) {
    fmt::print(stderr, "sandbox-bench: {}\n", plan.error().message());
    return 1;
  }
  const std::string line = to_line(loop(*plan));
  return std::fputs(line.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}

}  // namespace srun::bench
