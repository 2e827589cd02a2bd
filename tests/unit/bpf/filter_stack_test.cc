#include "bpf/filter_stack.h"

#include <doctest/doctest.h>

#include <map>

#include "bpf/compiler.h"
#include "bpf/reference.h"
#include "bpf/verdict_cache.h"
#include "support/bpf_assembler.h"
#include "support/rule_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kArg0 = 16;

Program seccomp(const Code& code) {
  Result<Program, VerifyError> program = verify(code, Flavour::kSeccomp);
  REQUIRE(program.has_value());
  return std::move(*program);
}

Program always(uint32_t value) { return seccomp({ret(value)}); }

// `value` for one number, ALLOW for all others.
Program on_number(uint32_t nr, uint32_t value) {
  return seccomp({stmt(kLdAbsW, 0), jump(kJeqK, nr, 0, 1), ret(value), ret(kRetAllow)});
}

StackLayers layers_of(const std::vector<Program>& programs) {
  StackLayers layers;
  for (const Program& program : programs) {
    layers.push_back(std::make_shared<const StackLayer>(program, RunnerOptions{false}));
  }
  return layers;
}

CallData call_of(uint32_t nr, uint64_t arg0 = 0, uint32_t arch = kX86) {
  CallData call;
  call.nr = static_cast<int32_t>(nr);
  call.arch = arch;
  call.args[0] = arg0;
  return call;
}

// bpf.md 1.5 in the fewest words: newest first, replaced only by something strictly lower.
StackVerdict kernel_rule(const std::vector<Program>& programs, const CallData& call) {
  StackVerdict winner{run_reference(programs.back(), call), static_cast<uint16_t>(programs.size() - 1)};
  for (size_t i = programs.size() - 1; i-- > 0;) {
    const uint32_t value = run_reference(programs[i], call);
    const auto action = [](uint32_t v) { return static_cast<int32_t>(v & kRetActionMask); };
    if (action(value) < action(winner.value)) winner = {value, static_cast<uint16_t>(i)};
  }
  return winner;
}

}  // namespace

TEST_CASE("The strictest action wins, the newest filter on a tie, and the winner's data stays") {
  const auto winner = [](const std::vector<uint32_t>& values) {
    std::vector<Program> programs;
    for (const uint32_t value : values) programs.push_back(always(value));
    const StackLayers layers = layers_of(programs);
    const StackVerdict verdict = evaluate_stack(layers, call_of(39));
    const uint32_t arches[] = {kX86};
    CHECK(VerdictTable(layers, arches, RunnerOptions{false}).evaluate(call_of(39)) == verdict);
    return verdict;
  };
  CHECK(winner({kRetErrno | 1, kRetErrno | 2}) == StackVerdict{kRetErrno | 2, 1});
  CHECK(winner({kRetErrno | 1, kRetAllow}) == StackVerdict{kRetErrno | 1, 0});
  CHECK(winner({kRetKillThread, kRetKillProcess, kRetTrap}) == StackVerdict{kRetKillProcess, 1});
  // 0xffff0000 is -65536 as a signed number and thereby stricter than KILL_THREAD.
  CHECK(winner({0xffff0007, kRetKillThread}) == StackVerdict{0xffff0007, 0});
  CHECK(winner({kRetAllow | 5, kRetAllow | 6}) == StackVerdict{kRetAllow | 6, 1});
}

TEST_CASE("An action that the kernel does not know kills the process") {
  CHECK(effective_action(0x00010000) == kRetKillProcess);
  CHECK(effective_action(0xffff0000) == kRetKillProcess);
  CHECK(effective_action(0x7ffb1234) == kRetKillProcess);
  CHECK(effective_action(kRetErrno | 12) == kRetErrno);
  CHECK(effective_action(kRetKillThread | 1) == kRetKillThread);
  CHECK(effective_action(kRetAllow) == kRetAllow);
}

TEST_CASE("A table holds constant verdicts of every action and shares equal residual programs") {
  // 10 and 11: argument 0 decides in the same way; 12: in another; 13 constant.
  const Program first = seccomp({stmt(kLdAbsW, 0), jump(kJeqK, 10, 2, 0), jump(kJeqK, 11, 1, 0), stmt(kJa, 3),
                                 stmt(kLdAbsW, kArg0), jump(kJeqK, 7, 0, 1), ret(kRetErrno | 4), ret(kRetAllow)});
  const Program second = seccomp({stmt(kLdAbsW, 0), jump(kJeqK, 12, 0, 3), stmt(kLdAbsW, kArg0), jump(kJeqK, 8, 0, 1),
                                  ret(kRetTrap | 5), jump(kJeqK, 13, 0, 1), ret(kRetErrno | 6), ret(kRetAllow)});
  const uint32_t arches[] = {kX86};
  const VerdictTable table(layers_of({first, second}), arches, RunnerOptions{false});
  REQUIRE(table.residuals().size() == 2);
  CHECK(table.entry(kX86, 10)->residual == 0);
  CHECK(table.entry(kX86, 11)->residual == 0);
  CHECK(table.entry(kX86, 12)->residual == 1);
  CHECK(table.entry(kX86, 13)->residual == VerdictTable::kConstant);
  CHECK(table.entry(kX86, 13)->value == (kRetErrno | 6));
  CHECK(table.entry(kX86, 13)->layer == 1);
  CHECK(table.entry(kX86, 512) == nullptr);
  CHECK(table.entry(0x40000003, 10) == nullptr);
  // ld arg0.lo; jeq; two returns.
  REQUIRE(table.residuals()[0].program.has_value());
  CHECK(table.residuals()[0].program->code().size() == 4);
  CHECK(table.evaluate(call_of(10, 7)) == StackVerdict{kRetErrno | 4, 0});
  CHECK(table.evaluate(call_of(11, 8)) == StackVerdict{kRetAllow, 1});
  CHECK(table.evaluate(call_of(12, 8)) == StackVerdict{kRetTrap | 5, 1});
}

TEST_CASE("A layer that computes with arguments is run as it is") {
  const Program odd = seccomp({stmt(kLdAbsW, kArg0), stmt(kTax), stmt(kLdImm, kRetErrno), stmt(kOrX), ret_a()});
  const uint32_t arches[] = {kX86};
  const VerdictTable table(layers_of({odd, always(kRetAllow)}), arches, RunnerOptions{false});
  CHECK_FALSE(table.residuals()[table.entry(kX86, 0)->residual].program.has_value());
  CHECK(table.evaluate(call_of(0, 11)) == StackVerdict{kRetErrno | 11, 0});
  CHECK(table.evaluate(call_of(0, 0x7ffa0000)) == StackVerdict{0x7fff0000, 1});
}

TEST_CASE("Tables of stacks of compiled rules never differ from running every layer") {
  Random random(5);
  size_t merged = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<Program> programs;
    std::vector<Layer> all_layers;
    for (uint32_t count = 1 + random.below(5); count > 0; --count) {
      RuleSet set = random_rules(random, 1, 4);
      Result<CompiledStack> stack = compile(set.layers, set.verdicts);
      REQUIRE(stack.has_value());
      programs.push_back(std::move(stack->copy));
      all_layers.push_back(std::move(set.layers.front()));
    }
    const VerdictTable table(layers_of(programs), kTestArches, RunnerOptions{round % 2 == 0});
    for (const Residual& residual : table.residuals()) merged += residual.program.has_value();
    const CallSource source(all_layers);
    for (int i = 0; i < 1500; ++i) {
      const CallData call = source.next(random);
      const StackVerdict expected = kernel_rule(programs, call);
      REQUIRE(table.evaluate(call) == expected);
      REQUIRE(evaluate_stack(table.layers(), call) == expected);
    }
  }
  CHECK(merged > 500);
}

TEST_CASE("Tables of stacks of random programs never differ from running every layer") {
  Random random(6);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    std::vector<Program> programs;
    std::vector<std::vector<Instruction>> codes;
    for (uint32_t count = 1 + random.below(4); count > 0; --count) {
      codes.push_back(random_program(random, {}));
      programs.push_back(seccomp(codes.back()));
    }
    const uint32_t arches[] = {kX86};
    const VerdictTable table(layers_of(programs), arches, RunnerOptions{false});
    for (int i = 0; i < 300; ++i) {
      CallData call = random_call(random, codes[random.below(static_cast<uint32_t>(codes.size()))]);
      if (random.percent(80)) call.arch = kX86;
      if (random.percent(80)) call.nr = static_cast<int32_t>(random.below(600));
      REQUIRE(table.evaluate(call) == kernel_rule(programs, call));
    }
  }
}

TEST_CASE("Equal stacks are one stack, and a stack's generation is never used again") {
  StackStore store({kX86}, RunnerOptions{false});
  const StackRef one = store.own({always(kRetAllow)});
  CHECK(store.own({always(kRetAllow)}) == one);
  CHECK(store.own({always(kRetLog)}) != one);
  const Result<StackRef> pushed = store.with_foreign(one, on_number(1, kRetErrno));
  REQUIRE(pushed.has_value());
  CHECK(*store.with_foreign(one, on_number(1, kRetErrno)) == *pushed);
  CHECK((*pushed)->generation() != one->generation());
  CHECK(store.live_stacks() == 2);
  std::map<uint64_t, int> seen;
  for (int i = 0; i < 200; ++i) ++seen[store.own({always(kRetErrno | static_cast<uint32_t>(i))})->generation()];
  CHECK(seen.size() == 200);
  CHECK(store.live_stacks() == 2);
  CHECK(store.live_programs() == 2);
}

TEST_CASE("A foreign filter is told in the advice and never decides") {
  StackStore store({kX86});
  const StackRef own = store.own({on_number(2, kRetErrno | 13), on_number(3, kRetErrno | 14)});
  const Result<StackRef> pushed = store.with_foreign(own, on_number(4, kRetKillProcess));
  REQUIRE(pushed.has_value());
  const FilterStack& stack = **pushed;
  CHECK(stack.has_foreign_layers());
  CHECK_FALSE(own->has_foreign_layers());
  CHECK(stack.decide(call_of(4)) == StackVerdict{kRetAllow, 1});
  CHECK(stack.advise(call_of(4)) == StackVerdict{kRetKillProcess, 2});
  CHECK(stack.decide(call_of(2)) == StackVerdict{kRetErrno | 13, 0});
  CHECK(stack.advise(call_of(2)) == StackVerdict{kRetErrno | 13, 0});
  // A tie goes to the newest, which here is the foreign one.
  CHECK(stack.advise(call_of(9)) == StackVerdict{kRetAllow, 2});
  // The decision's table is the own stack's: pushing a foreign filter computes nothing.
  CHECK(&stack.table() == &own->table());
  CHECK_FALSE(stack.layers()[2].filter->runner.is_jitted());
}

TEST_CASE("A path longer than the kernel takes is refused with ENOMEM") {
  StackStore store({kX86}, RunnerOptions{false});
  Code longest(kMaxInstructions, stmt(kLdImm, 1));
  longest.back() = ret(kRetAllow);
  StackRef stack = store.own({always(kRetAllow)});
  size_t pushed = 0;
  Result<StackRef> next = store.with_foreign(stack, seccomp(longest));
  for (; next && pushed < 20; ++pushed) {
    stack = *next;
    longest[0].k = static_cast<uint32_t>(pushed) + 2;
    next = store.with_foreign(stack, seccomp(longest));
  }
  // 4096 instructions become 4099, and 8 times 4099 is above 32768.
  CHECK(pushed == 7);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == ENOMEM);
}

TEST_CASE("Children have their parent's filters, later pushes stay with the task, TSYNC reaches all threads") {
  StackStore store({kX86}, RunnerOptions{false});
  TaskStacks tasks;
  tasks.start(100, store.own({always(kRetAllow)}));
  tasks.fork(100, 101);
  CHECK(tasks.find(101) == tasks.find(100));
  REQUIRE(tasks.push_foreign(store, 101, on_number(1, kRetErrno)));
  CHECK(tasks.find(101) != tasks.find(100));
  tasks.fork(101, 102);
  CHECK(tasks.find(102) == tasks.find(101));
  // Equal pushes of other tasks end in the same stack.
  REQUIRE(tasks.push_foreign(store, 100, on_number(1, kRetErrno)));
  CHECK(tasks.find(100) == tasks.find(101));
  REQUIRE(tasks.push_foreign(store, 102, on_number(2, kRetErrno)));
  const TaskStacks::TaskId threads[] = {100, 101};
  tasks.synchronise(102, threads);
  CHECK(tasks.find(100) == tasks.find(102));
  CHECK(tasks.find(101) == tasks.find(102));
  tasks.exit(102);
  CHECK(tasks.find(102) == nullptr);
  CHECK(tasks.size() == 2);
  tasks.fork(999, 5);
  CHECK(tasks.find(5) == nullptr);
  REQUIRE(tasks.push_foreign(store, 999, always(kRetAllow)));
  // A fork that is told after the child's own push does not take the push back.
  const FilterStack* before = tasks.find(101);
  REQUIRE(tasks.push_foreign(store, 101, on_number(3, kRetErrno)));
  tasks.fork(100, 101);
  CHECK(tasks.find(101) != before);
}

TEST_CASE("Decisions and caches agree with a full evaluation across pushes, forks, exits and arch changes") {
  Random random(77);
  StackStore store({kTestArches[0], kTestArches[1]}, RunnerOptions{false});
  std::vector<Program> own;
  for (int i = 0; i < 2; ++i) {
    const RuleSet set = random_rules(random, 2, 3);
    Result<CompiledStack> stack = compile(set.layers, set.verdicts);
    REQUIRE(stack.has_value());
    own.push_back(std::move(stack->copy));
  }
  own.push_back(seccomp({stmt(kLdAbsW, 0), jump(kJgtK, 300, 0, 1), ret(kRetErrno | 1), ret(kRetAllow)}));
  struct Task {
    std::vector<Program> all;  // what was pushed, by hand
    VerdictCache cache;
  };
  std::map<int32_t, Task> model;
  TaskStacks tasks;
  tasks.start(1, store.own(own));
  model[1].all = own;
  int32_t next_task = 2;
  size_t cached = 0;
  for (int step = 0; step < 60000; ++step) {
    auto picked = model.begin();
    std::advance(picked, random.below(static_cast<uint32_t>(model.size())));
    const int32_t id = picked->first;
    Task& task = picked->second;
    const uint32_t event = random.below(1000);
    if (event < 4 && task.all.size() < own.size() + 3) {
      const std::vector<Instruction> code = random_program(random, {});
      const Program filter = seccomp(code);
      REQUIRE(tasks.push_foreign(store, id, filter));
      task.all.push_back(filter);
    } else if (event < 8 && model.size() < 10) {
      tasks.fork(id, next_task);
      model[next_task++] = task;
    } else if (event < 11 && model.size() > 1) {
      tasks.exit(id);
      model.erase(picked);
    } else {
      const CallData call = call_of(random.below(540), random.value(), kTestArches[random.below(3)]);
      const auto nr = static_cast<uint32_t>(call.nr);
      const FilterStack& stack = *tasks.find(id);
      REQUIRE(stack.decide(call) == kernel_rule(own, call));
      REQUIRE(stack.advise(call) == kernel_rule(task.all, call));
      const uint32_t action = stack.decide(call).value & kRetActionMask;
      if (task.cache.known_allowed(stack.generation(), call.arch, nr)) {
        ++cached;
        REQUIRE(action == kRetAllow);
      }
      const VerdictTable::Entry* entry = stack.table().entry(call.arch, nr);
      if (entry != nullptr && entry->residual == VerdictTable::kConstant &&
          (entry->value & kRetActionMask) == kRetAllow) {
        task.cache.insert(stack.generation(), call.arch, nr);
      }
    }
  }
  MESSAGE("answers from the cache: " << cached);
}

}  // namespace srun::bpf::test
