#pragma once
// Internal code → x86-64. One internal instruction becomes one to a few machine instructions; registers are mapped one
// to one and nothing is called, so the function is a leaf and keeps its stack slots in the red zone below rsp:
//
//   R0 rax   R1 rdx   R2 r8   R3 r9   R4 rbx   R5 rbp   R6 rdi   R7 rcx   R8 rsi   R9 r11   R10 rsp
//
// rbx and rbp are saved where a program uses them. r10 is free at every point, and so is one register that the program
// does not use, if there is one; the busiest slots live in further unused ones. X in rcx suits shifts, A in rax
// division.
#include <xbyak/xbyak.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "bpf/isa.h"
#include "bpf/jit/blinding_keys.h"

namespace srun::bpf::jit {

// The family of an operation of the ALU or JUMP lists (its 32K form), and its form.
constexpr isa::Op family(isa::Op op) { return static_cast<isa::Op>(static_cast<int>(op) / 4 * 4); }
constexpr bool is_wide(isa::Op op) { return static_cast<int>(op) % 4 >= 2; }
constexpr bool by_register(isa::Op op) { return static_cast<int>(op) % 2 == 1; }

constexpr bool fits_signed32(uint64_t value) {
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value))) == value;
}

// An address displacement as Xbyak takes it, signed all the same.
constexpr size_t displacement(int32_t bytes) { return static_cast<size_t>(int64_t{bytes}); }

// Assembles one program into a buffer. Throws Xbyak::Error, ERR_CODE_IS_TOO_BIG if the buffer is too small.
class Assembler : public Xbyak::CodeGenerator {
 public:
  Assembler(const isa::Code& code, bool blind_constants, std::vector<uint8_t>& buffer);

  // The number of bytes written to the buffer.
  size_t run();
  // True if there were no random numbers for blinding; the code must not be used then.
  bool keys_failed() const { return keys_.failed(); }

 private:
  using Label = Xbyak::Label;

  // A load at an indirect offset that is not simply inside the packet.
  struct SlowLoad {
    Label entry;
    Label back;
    uint32_t size = 0;
  };
  // A table by value: classes or targets (instruction numbers).
  struct Table {
    Label label;
    std::vector<uint8_t> classes;
    std::vector<uint32_t> targets;
  };

  static Xbyak::Reg64 wide(uint8_t reg);
  static Xbyak::Reg32 narrow(uint8_t reg) { return wide(reg).cvt32(); }
  static Xbyak::Reg sized(uint8_t reg, bool is_wide_op);
  Xbyak::Reg sized_r10(bool is_wide_op) const;

  // assembler.cc: registers, constants, entry and exit
  void scan();
  void assign_registers(const std::map<int32_t, int>& slots, bool frame_otherwise);
  void constant32(uint32_t value);
  void constant64(uint64_t value);
  void prologue();
  void leave_program();
  Label& fail();
  Label& target(int32_t off) { return labels_[static_cast<size_t>(static_cast<int64_t>(pc_) + 1 + off)]; }
  void emit(const isa::Insn& insn);
  void return_constant(uint32_t value);

  // Calls emit_with(operand) with the constant as immediate or, if it does not fit or must not be seen, as r10.
  template <typename Emit>
  void with_constant(uint64_t value, bool is_wide_op, Emit emit_with) {
    if (is_wide_op) {
      if (!blind_ && fits_signed32(value)) {
        emit_with(static_cast<uint32_t>(value));
      } else {
        constant64(value);
        emit_with(r10);
      }
    } else if (!blind_) {
      emit_with(static_cast<uint32_t>(value));
    } else {
      constant32(static_cast<uint32_t>(value));
      emit_with(r10d);
    }
  }

  // arithmetic.cc
  void arithmetic(const isa::Insn& insn);
  void multiply(const isa::Insn& insn);
  void shift(const isa::Insn& insn);
  void divide(const isa::Insn& insn);
  void jump(const isa::Insn& insn);

  // memory.cc
  void load(const isa::Insn& insn);
  void store(const isa::Insn& insn);
  void packet_load(const isa::Insn& insn);
  void load_network(const isa::Insn& insn, const Xbyak::RegExp& at, uint32_t size);
  void absolute(const isa::Insn& insn, uint32_t size);
  void near(const isa::Insn& insn, uint32_t size);
  void indirect(const isa::Insn& insn, uint32_t size);
  void slow_load(SlowLoad& slow);
  void add_network_offset();
  void inlined_helper(const isa::Insn& insn);

  // dispatch.cc
  void dispatch(const SwitchArms& arms, size_t from, size_t to, bool last);
  void dispatch_by_table(const SwitchArms& arms, size_t from, size_t to, bool last);
  void go_to(uint32_t insn, bool last);
  void emit_table(Table& table);

  const isa::Code& code_;
  const bool blind_;
  BlindingKeys keys_;
  std::array<bool, 11> used_{};
  bool divides_ = false;
  std::optional<Xbyak::Reg64> second_;  // a register that the program does not use
  std::map<int32_t, Xbyak::Reg32> slot_registers_;
  std::vector<Label> labels_;
  Label fail_;
  bool fail_used_ = false;
  std::deque<SlowLoad> slow_loads_;
  std::deque<Table> tables_;
  size_t pc_ = 0;
};

}  // namespace srun::bpf::jit
