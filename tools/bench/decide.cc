// sandbox-bench decide: what one verdict costs in each engine and in libpcap's interpreter.
//
// Against an optimiser that would rather not do the work: every evaluation goes through a function in another
// translation unit or through a pointer read from memory, its input's address is hidden from the compiler in each turn,
// and its result is consumed by an empty assembler statement.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/text.h"
#include "bench/cases.h"
#include "bench/decide_filters.h"
#include "bench/result.h"
#include "bpf/converter.h"
#include "bpf/filter_stack.h"
#include "bpf/interpreter.h"
#include "bpf/jit.h"
#include "bpf/lazy_verdicts.h"
#include "bpf/reference.h"
#include "kernel/features.h"
#include "policy/loader.h"
#include "policy/lowering.h"

namespace srun::bench {
namespace {

using bpf::CallData;
using bpf::Flavour;
using bpf::Instruction;
using bpf::Packet;
using bpf::Program;

constexpr int kDefaultRounds = 7;
constexpr int kBlocksPerRound = 40;      // of each subject, in turns
constexpr size_t kTurnsPerBlock = 1000;  // evaluations of one input
// Of a table: so many that its way back into the cache, which the subjects before it have taken, is no part of it.
constexpr size_t kTableTurnsPerBlock = 32000;
constexpr size_t kSpreadPackets = 10000;
constexpr size_t kSpread = 4288;  // bytes from packet to packet: another page and another cache set each time

double now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <typename T>
const T* hidden(const T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

void consume(uint32_t result) { asm volatile("" : : "r"(result) : "memory"); }

// One way to evaluate one workload. `block` does its turns and returns ns per turn.
struct Subject {
  Row row;
  std::function<double()> block;
  double least_ns = std::numeric_limits<double>::infinity();
};

template <typename Turn>
std::function<double()> same_input(Turn turn) {
  return [turn] {
    const double start = now_ns();
    for (size_t i = 0; i < kTurnsPerBlock; ++i) consume(turn());
    return (now_ns() - start) / static_cast<double>(kTurnsPerBlock);
  };
}

// Copies of one packet far apart, visited in random order, none of them in a cache when a block begins.
class SpreadPackets {
 public:
  explicit SpreadPackets(const std::vector<uint8_t>& packet)
      : memory_(kSpreadPackets * kSpread), length_(static_cast<uint32_t>(packet.size())), order_(kSpreadPackets) {
    for (size_t i = 0; i < kSpreadPackets; ++i) {
      std::copy(packet.begin(), packet.end(), memory_.begin() + static_cast<ptrdiff_t>(i * kSpread));
    }
    std::iota(order_.begin(), order_.end(), 0);
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(1));
  }

  template <typename Turn>
  std::function<double()> block(Turn turn) const {
    return [this, turn] {
      flush();
      const double start = now_ns();
      for (const uint32_t i : order_) consume(turn(hidden(memory_.data() + i * kSpread), length_));
      return (now_ns() - start) / static_cast<double>(kSpreadPackets);
    };
  }

 private:
  void flush() const {
#if defined(__x86_64__)
    for (size_t i = 0; i < kSpreadPackets; ++i) {
      for (uint32_t at = 0; at < length_ + 64; at += 64) _mm_clflush(memory_.data() + i * kSpread + at);
    }
    _mm_mfence();
#endif
  }

  std::vector<uint8_t> memory_;
  uint32_t length_;
  std::vector<uint32_t> order_;
};

// All engines on one program.
class Engines {
 public:
  explicit Engines(Program program)
      : program_(std::move(program)),
        code_(bpf::convert(program_)),
        interpreter_(code_),
        jit_(bpf::JitCode::compile(code_)) {}

  const Program& program() const { return program_; }
  const bpf::InterpreterCode& interpreter() const { return interpreter_; }
  const bpf::JitCode* jit() const { return jit_ ? &*jit_ : nullptr; }
  std::string why_no_jit() const { return jit_ ? std::string() : jit_.error().message(); }

 private:
  Program program_;
  bpf::isa::Code code_;
  bpf::InterpreterCode interpreter_;
  Result<bpf::JitCode> jit_;
};

class Bench {
 public:
  void add(const std::string& workload, const char* engine, std::function<double()> block, std::string missing = {}) {
    Subject subject;
    subject.row.name = workload + ": " + engine;
    subject.row.missing = std::move(missing);
    subject.block = std::move(block);
    subjects_.push_back(std::move(subject));
  }

  void add_packet(const std::string& workload, const char* expression) {
    const Result<std::vector<Instruction>> code = capture_filter(expression);
    if (!code) {
      add(workload, "libpcap", {}, code.error().message());
      return;
    }
    const Result<Program, bpf::VerifyError> program = bpf::verify(*code, Flavour::kPacket);
    if (!program) {
      add(workload, "libpcap", {}, program.error().message());
      return;
    }
    const Engines& engines = keep(Engines(*program));
    const Instruction* insns = engines.program().code().data();
    const auto each = [&](const std::string& name, const auto& block) {
      const auto with_packet = [](auto evaluate) {
        return [evaluate](const uint8_t* bytes, uint32_t length) {
          const Packet packet({bytes, length}, length);
          return evaluate(packet);
        };
      };
      add(name, "libpcap",
          block([insns](const uint8_t* bytes, uint32_t length) { return run_libpcap(hidden(insns), bytes, length); }));
      add(name, "reference", block(with_packet([&engines](const Packet& packet) {
            return bpf::run_reference(engines.program(), packet);
          })));
      add(name, "interpreter", block(with_packet([&engines](const Packet& packet) {
            return hidden(&engines.interpreter())->run(&packet);
          })));
      add_jit(name, engines,
              block(with_packet([&engines](const Packet& packet) { return hidden(engines.jit())->run(&packet); })));
    };
    each(workload + ", hit", [this](auto turn) {
      return same_input([turn, this] { return turn(hidden(packet_.data()), static_cast<uint32_t>(packet_.size())); });
    });
    each(workload + ", miss", [this](auto turn) { return spread_.block(turn); });
  }

  void add_call(const std::string& workload, const std::vector<Instruction>& code, const CallData& call) {
    const Result<Program, bpf::VerifyError> program = bpf::verify(code, Flavour::kSeccomp);
    if (!program) {
      add(workload, "interpreter", {}, program.error().message());
      return;
    }
    const Engines& engines = keep(Engines(*program));
    const CallData& input = keep(call);
    const std::vector<uint8_t>& as_packet = keep(call_as_packet(call));
    const Instruction* insns = engines.program().code().data();
    add(workload, "libpcap", same_input([insns, &as_packet] {
          return run_libpcap(hidden(insns), hidden(as_packet.data()), sizeof(CallData));
        }),
        have_libpcap() ? "" : "built without libpcap");
    add(workload, "reference",
        same_input([&engines, &input] { return bpf::run_reference(engines.program(), *hidden(&input)); }));
    add(workload, "interpreter",
        same_input([&engines, &input] { return hidden(&engines.interpreter())->run(hidden(&input)); }));
    add_jit(workload, engines, same_input([&engines, &input] { return hidden(engines.jit())->run(hidden(&input)); }));
  }

  void add_stack(const std::string& workload, const char* engine, const bpf::StackRef& stack,
                 const std::vector<CallData>& calls) {
    const bpf::StackRef& kept = keep(stack);
    const std::vector<CallData>& inputs = keep(calls);
    add(workload, engine, [&kept, &inputs] {
      const double start = now_ns();
      const size_t turns = std::max<size_t>(1, kTableTurnsPerBlock / inputs.size());
      for (size_t turn = 0; turn < turns; ++turn) {
        for (const CallData& call : inputs) consume(hidden(kept.get())->decide(*hidden(&call)).value);
      }
      return (now_ns() - start) / static_cast<double>(turns * inputs.size());
    });
  }

  // What is not the verdict: the same loop, reading one word of each call.
  void add_empty_loop(const std::string& workload, const std::vector<CallData>& calls) {
    const std::vector<CallData>& inputs = keep(calls);
    add(workload, "loop alone", [&inputs] {
      const double start = now_ns();
      const size_t turns = std::max<size_t>(1, kTurnsPerBlock / inputs.size());
      for (size_t turn = 0; turn < turns; ++turn) {
        for (const CallData& call : inputs) consume(static_cast<uint32_t>(hidden(&call)->nr));
      }
      return (now_ns() - start) / static_cast<double>(turns * inputs.size());
    });
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::vector<double>> samples(subjects_.size());
      for (int block = 0; block < kBlocksPerRound; ++block) {
        for (size_t i = 0; i < subjects_.size(); ++i) {
          Subject& subject = subjects_[i];
          // A pass over the spread packets takes a thousand times as long as the other blocks.
          const bool rare = subject.row.name.find(", miss:") != std::string::npos && block % 20 != 0;
          if (!subject.row.missing.empty() || rare) continue;
          samples[i].push_back(subject.block());
          subject.least_ns = std::min(subject.least_ns, samples[i].back());
        }
      }
      for (size_t i = 0; i < subjects_.size(); ++i) {
        if (samples[i].empty()) continue;
        subjects_[i].row.round_medians_ns.push_back(median(samples[i]));
        subjects_[i].row.round_p99s_ns.push_back(percentile(samples[i], 99));
      }
    }
  }

  // least(slower) / least(faster), at least `limit`. Nothing where one of them is missing.
  void ratio(Results& results, const std::string& slower, const std::string& faster, double limit) const {
    const Subject* first = find(slower);
    const Subject* second = find(faster);
    if (first == nullptr || second == nullptr) return;
    results.bars.push_back({slower + " / " + faster, first->least_ns / second->least_ns, limit, false});
  }
  void at_most(Results& results, const std::string& name, const std::string& unit, double limit) const {
    const Subject* subject = find(name);
    const Subject* of = unit.empty() ? nullptr : find(unit);
    if (subject == nullptr || (of == nullptr && !unit.empty())) return;
    if (of != nullptr) {
      results.bars.push_back({name + " / " + unit, subject->least_ns / of->least_ns, limit, true});
    } else {
      results.bars.push_back({name + ", ns", subject->least_ns, limit, true});
    }
  }

  std::vector<Row> rows() && {
    std::vector<Row> rows;
    for (Subject& subject : subjects_) rows.push_back(std::move(subject.row));
    return rows;
  }

 private:
  void add_jit(const std::string& workload, const Engines& engines, std::function<double()> block) {
    add(workload, "jit", std::move(block), engines.why_no_jit());
  }

  const Subject* find(const std::string& name) const {
    for (const Subject& subject : subjects_) {
      if (subject.row.name == name && subject.row.missing.empty()) return &subject;
    }
    return nullptr;
  }

  // Keeps a value for as long as the bench, at an address that stays.
  template <typename T>
  const T& keep(T value) {
    const auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return *kept;
  }

  const std::vector<uint8_t> packet_ = ssh_packet();
  const SpreadPackets spread_{packet_};
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<Subject> subjects_;
};

CallData call_of(uint32_t number, uint64_t argument0 = 0) {
  CallData call;
  call.nr = static_cast<int32_t>(number);
  call.arch = kernel::audit_arch(kernel::kNativeArch);
  call.args[0] = argument0;
  return call;
}

// The supervisor's copy of docker-default with the guard layer, as sandbox-run itself makes it.
Result<Program> docker_default() {
  policy::LoadOptions load;
  utsname name{};
  if (::uname(&name) == 0) load.oci.kernel = kernel::parse_kernel_version(name.release);
  const std::vector<std::string> policies{"docker-default"};
  Result<policy::PolicyStack, policy::PolicyError> stack = policy::load_stack(policies, {}, load);
  if (!stack) return failure(Error::from_text("load", "docker-default", stack.error().message));
  Result<policy::Enforcement, policy::PolicyError> enforcement = policy::lower(*stack, {});
  if (!enforcement) return failure(Error::from_text("lower", "docker-default", enforcement.error().message));
  return enforcement->programs->copy;
}

// Calls that the table answers without a residual program: 64 numbers in random order, again and again. Together they
// fit the first-level cache, as the one notification that a supervisor has just received does.
std::vector<CallData> tabled_calls(const bpf::FilterStack& stack) {
  constexpr size_t kDifferent = 64;
  std::vector<CallData> calls;
  std::mt19937_64 random(1);
  while (calls.size() < kDifferent) {
    const CallData call = call_of(static_cast<uint32_t>(random() % 470));
    const bpf::VerdictTable::Entry* entry = stack.table().entry(call.arch, static_cast<uint32_t>(call.nr));
    if (entry->residual == bpf::VerdictTable::kConstant) calls.push_back(call);
  }
  return calls;
}

void add_docker(Bench& bench, Results& results) {
  const Result<Program> program = docker_default();
  if (!program) {
    results.notes.push_back(program.error().message());
    return;
  }
  const std::vector<Instruction> code(program->code().begin(), program->code().end());
  // read is allowed, 202 is futex, 135 is personality: allowed for a few arguments only.
  const std::vector<std::pair<const char*, CallData>> calls{
      {"cheap", call_of(0)}, {"middle", call_of(202)}, {"worst", call_of(135, 0x20008)}};
  for (const auto& [which, call] : calls) bench.add_call(fmt::format("docker-default, {}", which), code, call);

  std::vector<CallData> random_calls;
  std::mt19937_64 random(1);
  for (int i = 0; i < 4096; ++i) random_calls.push_back(call_of(static_cast<uint32_t>(random() % 512)));
  bpf::StackStore store({kernel::audit_arch(kernel::kNativeArch)});
  for (const size_t layers : {1, 2, 4, 8}) {
    const bpf::StackRef stack = store.own(std::vector<Program>(layers, *program));
    const std::string name = fmt::format("{} of docker-default", count_of(layers, "layer"));
    const std::vector<CallData> tabled = tabled_calls(*stack);
    bench.add_stack(name + ", tabled", "table", stack, tabled);
    if (layers == 1) bench.add_empty_loop(name + ", tabled", tabled);
    bench.add_stack(name + ", 4096 random numbers", "table", stack, random_calls);
    bench.add_stack(name + ", worst", "table", stack, std::vector<CallData>(kTurnsPerBlock, calls.back().second));
  }
}

}  // namespace

int run_decide(const Options& options) {
  if (!options.rest.empty()) {
    fmt::print(stderr, "sandbox-bench: decide does not know '{}'\n", options.rest[0]);
    return 1;
  }
  constexpr const char* kPort22 = "port 22";
  constexpr const char* kPayload = "tcp port 22 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)";
  Results results;
  results.case_name = "decide";
  results.load = current_load();
  Bench bench;
  bench.add_packet("port 22", kPort22);
  bench.add_packet("port 22 with payload", kPayload);
  bench.add_call("2 numbers, number 199", linear_numbers(2), call_of(199));
  bench.add_call("200 numbers, number 199", linear_numbers(200), call_of(199));
  bench.add_call("200 chained rules", chained_rules(199, 200), call_of(199, 5));
  add_docker(bench, results);
  bench.run(options.rounds > 0 ? std::max(options.rounds, 5) : kDefaultRounds);

  bench.ratio(results, "port 22, hit: libpcap", "port 22, hit: interpreter", 1.8);
  bench.ratio(results, "port 22 with payload, hit: libpcap", "port 22 with payload, hit: interpreter", 2);
  bench.ratio(results, "200 numbers, number 199: libpcap", "200 numbers, number 199: interpreter", 2.5);
  bench.ratio(results, "port 22, hit: libpcap", "port 22, hit: jit", 6);
  bench.ratio(results, "port 22 with payload, hit: libpcap", "port 22 with payload, hit: jit", 10);
  bench.ratio(results, "200 numbers, number 199: libpcap", "200 numbers, number 199: jit", 80);
  bench.ratio(results, "200 chained rules: libpcap", "200 chained rules: jit", 15);
  bench.at_most(results, "1 layer of docker-default, tabled: table", "", 1.5);
  bench.at_most(results, "8 layers of docker-default, tabled: table", "1 layer of docker-default, tabled: table", 1.2);
  bench.at_most(results, "8 layers of docker-default, 4096 random numbers: table",
                "1 layer of docker-default, 4096 random numbers: table", 1.2);
  bench.at_most(results, "8 layers of docker-default, worst: table", "1 layer of docker-default, worst: table", 1.2);
  results.rows = std::move(bench).rows();
  results.notes.push_back("bars compare the fastest blocks of this run, rows show medians");
  results.notes.push_back("libpcap reads big-endian: it got the calls with each word reversed, and checks bounds");
  print(results, options.json);
  return 0;
}

}  // namespace srun::bench
