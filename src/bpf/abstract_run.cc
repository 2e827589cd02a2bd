#include "bpf/abstract_run.h"

#include <map>

namespace srun::bpf {
namespace {

bool uses_x(uint16_t code) { return (code & 0x08) != 0; }

class Runner {
 public:
  Runner(const Program& program, const AbstractVisitor& visitor) : code_(program.code()), visitor_(visitor) {}

  void run(size_t entry, const AbstractState& start) {
    pending_.emplace(entry, start);
    while (!pending_.empty()) {
      // The smallest position first: nothing that is still to come leads to it.
      auto node = pending_.extract(pending_.begin());
      step(node.key(), std::move(node.mapped()));
    }
  }

 private:
  void arrive(size_t pc, const AbstractState& state) {
    const auto [position, added] = pending_.try_emplace(pc, state);
    if (!added) position->second.join(state);
  }

  void step(size_t pc, AbstractState state) {
    const Instruction insn = code_[pc];
    if (is_conditional_jump(insn.code)) return jump(pc, insn, state);
    if (visitor_.instruction) visitor_.instruction(pc, state, {true, false});
    if (is_return(insn.code)) {
      if (visitor_.result) visitor_.result(insn.code == kRetK ? AbstractValue::constant(insn.k) : state.a);
      return;
    }
    if (insn.code == kJa) return arrive(pc + 1 + insn.k, state);
    if (execute(insn, state)) arrive(pc + 1, state);
  }

  // False if the program certainly ends here.
  bool execute(const Instruction& insn, AbstractState& state) {
    const uint32_t k = insn.k;
    const auto set_a = [&](const AbstractValue& value, uint8_t word = kNoWord) {
      state.a = value;
      state.a_word = word;
    };
    switch (insn.code) {
      case kLdAbsW:
        set_a(state.words[k / 4], static_cast<uint8_t>(k / 4));
        return true;
      case kLdImm:
        set_a(AbstractValue::constant(k));
        return true;
      case kLdLen:
        set_a(AbstractValue::constant(sizeof(CallData)));
        return true;
      case kLdMem:
        set_a(state.scratch[k]);
        return true;
      case kTxa:
        set_a(state.x);
        return true;
      case kLdxImm:
        state.x = AbstractValue::constant(k);
        return true;
      case kLdxLen:
        state.x = AbstractValue::constant(sizeof(CallData));
        return true;
      case kLdxMem:
        state.x = state.scratch[k];
        return true;
      case kTax:
        state.x = state.a;
        return true;
      case kSt:
        state.scratch[k] = state.a;
        return true;
      case kStx:
        state.scratch[k] = state.x;
        return true;
      default:
        break;
    }
    const AbstractValue operand = uses_x(insn.code) ? state.x : AbstractValue::constant(k);
    if (insn.code == kDivX || insn.code == kModX) {
      // X = 0 ends the program with result 0.
      if (operand.may_be(0) && visitor_.result) visitor_.result(AbstractValue::constant(0));
      if (operand.max == 0) return false;
    }
    set_a(alu_result(insn.code, state.a, operand));
    return true;
  }

  void jump(size_t pc, const Instruction& insn, const AbstractState& state) {
    const AbstractValue operand = uses_x(insn.code) ? state.x : AbstractValue::constant(insn.k);
    const std::optional<AbstractValue> yes = after_jump(insn.code, state.a, operand, true);
    const std::optional<AbstractValue> no = after_jump(insn.code, state.a, operand, false);
    if (visitor_.instruction) visitor_.instruction(pc, state, {yes.has_value(), no.has_value()});
    if (yes) branch(pc + 1 + insn.jt, state, *yes);
    if (no) branch(pc + 1 + insn.jf, state, *no);
  }

  void branch(size_t target, const AbstractState& state, const AbstractValue& a) {
    AbstractState next = state;
    next.a = a;
    if (next.a_word != kNoWord) next.words[next.a_word] = a;
    arrive(target, next);
  }

  std::span<const Instruction> code_;
  const AbstractVisitor& visitor_;
  std::map<size_t, AbstractState> pending_;
};

}  // namespace

AbstractState AbstractState::at_start(uint32_t audit_arch, const AbstractValue& nr) {
  AbstractState state;
  state.words[0] = nr;
  state.words[1] = AbstractValue::constant(audit_arch);
  return state;
}

void AbstractState::join(const AbstractState& other) {
  a = joined(a, other.a);
  x = joined(x, other.x);
  for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = joined(scratch[i], other.scratch[i]);
  for (size_t i = 0; i < words.size(); ++i) words[i] = joined(words[i], other.words[i]);
  if (a_word != other.a_word) a_word = kNoWord;
}

void run_abstract(const Program& program, size_t entry, const AbstractState& state, const AbstractVisitor& visitor) {
  Runner(program, visitor).run(entry, state);
}

}  // namespace srun::bpf
