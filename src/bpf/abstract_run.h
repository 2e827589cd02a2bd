#pragma once
// One forward pass over a program that knows nr and arch only partly and the arguments not at all. Classic jumps go
// forward, so each instruction is looked at once, with everything known that holds on all ways to it.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "bpf/abstract_value.h"
#include "bpf/opcodes.h"
#include "bpf/program.h"

namespace srun::bpf {

inline constexpr uint8_t kNoWord = 0xff;

struct AbstractState {
  static constexpr size_t kWords = sizeof(CallData) / 4;

  AbstractValue a = AbstractValue::constant(0);
  AbstractValue x = AbstractValue::constant(0);
  std::array<AbstractValue, kScratchWords> scratch{};
  std::array<AbstractValue, kWords> words{};
  uint8_t a_word = kNoWord;  // A is an unchanged copy of this word, so a branch on A tells about the word as well

  static AbstractState at_start(uint32_t audit_arch, const AbstractValue& nr);
  void join(const AbstractState& other);
};

// Which ways out of an instruction can be taken.
struct Ways {
  bool yes = false;  // conditional jumps; otherwise: execution goes on
  bool no = false;
};

struct AbstractVisitor {
  // Each reachable instruction, in order, with what is known before it.
  std::function<void(size_t pc, const AbstractState& before, Ways ways)> instruction;
  // Each possible result.
  std::function<void(const AbstractValue& result)> result;
};

// Runs from instruction `entry` in `state`. Seccomp programs only. An empty visitor function is not called.
void run_abstract(const Program& program, size_t entry, const AbstractState& state, const AbstractVisitor& visitor);

}  // namespace srun::bpf
