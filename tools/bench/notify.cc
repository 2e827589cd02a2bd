// sandbox-bench notify: what one notified call costs, and how many are lost to signals.
#include <fmt/format.h>
#include <sched.h>

#include <functional>

#include "bench/cases.h"
#include "bench/floor.h"
#include "bench/process.h"
#include "bench/result.h"

namespace srun::bench {
namespace {

using namespace std::chrono_literals;
using Kind = LooperPlan::Kind;

constexpr std::string_view kLogPolicy =
    R"({"version": 1, "description": "sandbox-bench: getppid is continued and recorded",
 "syscalls": [{"names": ["getppid"], "action": "log"}, {"names": ["@baseline"], "action": "allow"}]})";
constexpr std::string_view kDenyPolicy =
    R"({"version": 1, "description": "sandbox-bench: getppid is answered by the supervisor",
 "syscalls": [{"names": ["getppid"], "action": {"errno": "ENOSYS"}}, {"names": ["@baseline"], "action": "allow"}]})";

// One way to be measured; each call of `measure` is one round.
struct Subject {
  std::string name;
  std::function<Result<LooperFigures>()> measure;
  std::vector<LooperFigures> rounds;
  std::string missing;
};

LooperPlan plan_of(Kind kind, int tasks = 1) {
  LooperPlan plan;
  plan.kind = kind;
  plan.tasks = tasks;
  return plan;
}

// The whole comparison: subjects by name, measured in turn so that a slow minute of the machine hits all of them.
class Comparison {
 public:
  void add(std::string name, std::function<Result<LooperFigures>()> measure) {
    subjects_.push_back({std::move(name), std::move(measure), {}, {}});
  }
  void add_missing(std::string name, std::string why) {
    subjects_.push_back({std::move(name), {}, {}, std::move(why)});
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < subjects_.size(); ++i) {
        // Each round begins elsewhere: nobody always follows the same neighbour.
        Subject& subject = subjects_[(i + static_cast<size_t>(round)) % subjects_.size()];
        if (!subject.missing.empty()) continue;
        Result<LooperFigures> figures = subject.measure();
        if (figures) {
          subject.rounds.push_back(*figures);
        } else {
          subject.missing = figures.error().message();
        }
      }
    }
  }

  const Subject* find(std::string_view name) const {
    for (const Subject& subject : subjects_) {
      if (subject.name == name && subject.missing.empty() && !subject.rounds.empty()) return &subject;
    }
    return nullptr;
  }
  const std::vector<Subject>& subjects() const { return subjects_; }

 private:
  std::vector<Subject> subjects_;
};

double median_of(const Subject& subject) {
  std::vector<double> values;
  for (const LooperFigures& figures : subject.rounds) values.push_back(figures.median_ns);
  return median(std::move(values));
}

Row row_of(const Subject& subject, bool has_p99) {
  Row row;
  row.name = subject.name;
  row.missing = subject.missing;
  for (const LooperFigures& figures : subject.rounds) {
    row.round_medians_ns.push_back(figures.median_ns);
    if (has_p99) row.round_p99s_ns.push_back(figures.p99_ns);
  }
  return row;
}

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

class Product {
 public:
  static Result<Product> make() {
    Result<ScratchFolder> folder = ScratchFolder::make();
    if (!folder) return failure(folder.error());
    Product product(std::move(*folder));
    for (const auto& [file, text] : {std::pair{&product.log_, kLogPolicy}, std::pair{&product.deny_, kDenyPolicy}}) {
      Result<std::string> path = product.folder_.write(file == &product.log_ ? "log.json" : "deny.json", text);
      if (!path) return failure(path.error());
      *file = *path;
    }
    return product;
  }

  // getppid continued (`logs`) or answered with ENOSYS, under that --service mode.
  Result<LooperFigures> run(bool logs, std::string_view mode, const LooperPlan& plan) const {
    std::vector<std::string> argv{binary_, "-p", logs ? log_ : deny_, "--service", std::string(mode)};
    if (logs) argv.insert(argv.end(), {"--events", "/dev/null"});
    argv.insert(argv.end(), {"--", own_});
    const std::vector<std::string> words = to_words(plan);
    argv.insert(argv.end(), words.begin(), words.end());
    const Result<std::string> line = capture(argv, 60s);
    if (!line) return failure(line.error());
    return from_line(*line);
  }
  bool there() const { return !binary_.empty(); }

 private:
  explicit Product(ScratchFolder folder) : folder_(std::move(folder)), binary_(product_binary()), own_(own_binary()) {}

  ScratchFolder folder_;
  std::string binary_;
  std::string own_;
  std::string log_;
  std::string deny_;
};

constexpr const char* kModes[] = {"async", "sync", "pinned", "auto"};

void add_round_trips(Comparison& comparison, const Product& product, const std::vector<int>& cpus) {
  LooperPlan native = plan_of(Kind::kTimed);
  native.batch = 64;
  comparison.add("native getppid", [native]() -> Result<LooperFigures> {
    // In a process of its own like all others.
    std::vector<std::string> argv{own_binary()};
    const std::vector<std::string> words = to_words(native);
    argv.insert(argv.end(), words.begin(), words.end());
    const Result<std::string> line = capture(argv, 60s);
    if (!line) return failure(line.error());
    return from_line(*line);
  });
  const LooperPlan timed = plan_of(Kind::kTimed);
  const auto floor = [&](std::string name, FloorPlan plan) {
    comparison.add(std::move(name), [plan, timed] { return run_floor(plan, timed); });
  };
  using Answer = FloorPlan::Answer;
  floor("bare loop, one CPU, continue", {Answer::kContinue, false, cpus[0], cpus[0]});
  floor("bare loop, one CPU, value", {Answer::kValue, false, cpus[0], cpus[0]});
  floor("bare loop, free, no flag", {Answer::kContinue, false, {}, {}});
  floor("bare loop, free, sync wake-up", {Answer::kContinue, true, {}, {}});
  if (cpus.size() > 1) {
    floor("bare loop, two CPUs", {Answer::kContinue, false, cpus[0], cpus[1]});
  } else {
    comparison.add_missing("bare loop, two CPUs", "only one CPU");
  }
  for (const bool logs : {true, false}) {
    for (const char* mode : kModes) {
      std::string name = fmt::format("sandbox-run {}, {}", mode, logs ? "continue (log rule)" : "value (deny rule)");
      if (product.there()) {
        comparison.add(std::move(name), [&product, logs, mode, timed] { return product.run(logs, mode, timed); });
      } else {
        comparison.add_missing(std::move(name), "no sandbox-run beside this binary or on PATH");
      }
    }
  }
}

void add_throughput(Comparison& comparison, const Product& product) {
  comparison.add("bare loop, free, sync wake-up, 4 tasks, per call", [] {
    return run_floor({FloorPlan::Answer::kValue, true, {}, {}}, plan_of(Kind::kTotal, 4));
  });
  if (!product.there()) return;
  for (const int tasks : {1, 4}) {
    comparison.add(fmt::format("sandbox-run auto, {} hot task{}, per call", tasks, tasks == 1 ? "" : "s"),
                   [&product, tasks] { return product.run(false, "auto", plan_of(Kind::kTotal, tasks)); });
  }
}

void add_interrupts(Comparison& comparison, const Product& product) {
  for (const bool restart : {false, true}) {
    LooperPlan plan = plan_of(Kind::kTimer);
    plan.restart = restart;
    const char* handler = restart ? "SA_RESTART" : "no SA_RESTART";
    for (const bool sync : {false, true}) {
      comparison.add(fmt::format("bare loop, free, {}, 1 kHz timer, {}", sync ? "sync wake-up" : "no flag", handler),
                     [plan, sync] {
                       return run_floor({FloorPlan::Answer::kContinue, sync, {}, {}}, plan);
                     });
    }
    if (!product.there()) continue;
    for (const char* mode : kModes) {
      comparison.add(fmt::format("sandbox-run {}, 1 kHz timer, {}", mode, handler),
                     [&product, mode, plan] { return product.run(true, mode, plan); });
    }
  }
}

void add_ratio(Results& results, const Comparison& comparison, std::string name, std::string_view above,
               std::string_view below, double limit, bool at_most) {
  const Subject* numerator = comparison.find(above);
  const Subject* denominator = comparison.find(below);
  if (!numerator || !denominator || median_of(*denominator) <= 0) return;
  results.bars.push_back({std::move(name), median_of(*numerator) / median_of(*denominator), limit, at_most});
}

}  // namespace

int run_notify(const Options& options) {
  if (!options.rest.empty()) {
    fmt::print(stderr, "sandbox-bench: notify does not know '{}'\n", options.rest[0]);
    return 1;
  }
  const std::vector<int> cpus = usable_cpus();
  const Result<Product> product = Product::make();
  if (!product || cpus.empty()) {
    fmt::print(stderr, "sandbox-bench: {}\n", product ? "no usable CPU" : product.error().message());
    return 1;
  }
  const int rounds = options.rounds > 0 ? options.rounds : 7;
  Results results;
  results.case_name = "notify";
  results.load = current_load();
  Comparison trips;
  add_round_trips(trips, *product, cpus);
  trips.run(rounds);
  Comparison throughput;
  add_throughput(throughput, *product);
  throughput.run(rounds);
  Comparison interrupts;
  add_interrupts(interrupts, *product);
  interrupts.run(rounds);

  for (const Subject& subject : trips.subjects()) results.rows.push_back(row_of(subject, true));
  for (const Subject& subject : throughput.subjects()) results.rows.push_back(row_of(subject, false));
  uint64_t interrupted_despite_restart = 0;
  bool restart_measured = false;
  for (const Subject& subject : interrupts.subjects()) {
    uint64_t interrupted = 0;
    uint64_t signals = 0;
    for (const LooperFigures& figures : subject.rounds) {
      interrupted += figures.interrupted;
      signals += figures.signals;
    }
    if (!subject.missing.empty() || subject.rounds.empty()) continue;
    results.counts.push_back({"EINTR: " + subject.name, interrupted, fmt::format("{} signals", signals)});
    if (subject.name.rfind("sandbox-run", 0) == 0 && subject.name.find("no SA_RESTART") == std::string::npos) {
      interrupted_despite_restart += interrupted;
      restart_measured = true;
    }
  }
  add_ratio(results, trips, "auto, continue / bare loop on one CPU", "sandbox-run auto, continue (log rule)",
            "bare loop, one CPU, continue", 1.15, true);
  add_ratio(results, trips, "auto, value / bare loop on one CPU", "sandbox-run auto, value (deny rule)",
            "bare loop, one CPU, value", 1.15, true);
  add_ratio(results, trips, "async across CPUs / auto", "bare loop, two CPUs", "sandbox-run auto, continue (log rule)",
            5, false);
  add_ratio(results, throughput, "throughput of 4 hot tasks / of one", "sandbox-run auto, 1 hot task, per call",
            "sandbox-run auto, 4 hot tasks, per call", 0.9, false);
  if (restart_measured) {
    results.bars.push_back(
        {"interrupted calls with SA_RESTART", static_cast<double>(interrupted_despite_restart), 0, true});
  }
  results.notes.push_back(
      "across CPUs the figures depend on what else runs: a CPU that is busy does not sleep and answers sooner. The "
      "load "
      "above says which was measured");
  print(results, options.json);
  return 0;
}

}  // namespace srun::bench
