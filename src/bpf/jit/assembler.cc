#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "bpf/jit/assembler.h"

#include <algorithm>

#include "bpf/packet.h"

namespace srun::bpf::jit {

using isa::Insn;
using isa::Op;

Assembler::Assembler(const isa::Code& code, bool blind_constants, std::vector<uint8_t>& buffer)
    : CodeGenerator(buffer.size(), buffer.data()), code_(code), blind_(blind_constants) {
  scan();
}

size_t Assembler::run() {
  labels_.resize(code_.insns.size());
  prologue();
  for (pc_ = 0; pc_ < code_.insns.size(); ++pc_) {
    L(labels_[pc_]);
    emit(code_.insns[pc_]);
  }
  if (fail_used_) {
    L(fail_);
    return_constant(0);
  }
  for (SlowLoad& slow : slow_loads_) slow_load(slow);
  for (Table& table : tables_) emit_table(table);
  return getSize();
}

Xbyak::Reg64 Assembler::wide(uint8_t reg) {
  using Xbyak::Operand;
  constexpr int kMap[] = {Operand::RAX, Operand::RDX, Operand::R8,  Operand::R9,  Operand::RBX, Operand::RBP,
                          Operand::RDI, Operand::RCX, Operand::RSI, Operand::R11, Operand::RSP};
  return Xbyak::Reg64(kMap[reg]);
}

Xbyak::Reg Assembler::sized(uint8_t reg, bool is_wide_op) {
  if (is_wide_op) return wide(reg);
  return narrow(reg);
}

Xbyak::Reg Assembler::sized_r10(bool is_wide_op) const {
  if (is_wide_op) return r10;
  return r10d;
}

// Which registers the program names, and how often each slot.
void Assembler::scan() {
  std::map<int32_t, int> slots;
  bool frame_otherwise = false;
  for (const Insn& insn : code_.insns) {
    const bool slot_load = insn.op == Op::kLoad32 && insn.src == isa::kFrame;
    const bool slot_store = insn.op == Op::kStore32 && insn.dst == isa::kFrame;
    if (slot_load || slot_store) {
      ++slots[insn.off];
      used_[slot_load ? insn.dst : insn.src] = true;
      continue;
    }
    used_[insn.dst] = true;
    if (!isa::is_hinted(insn.op)) used_[insn.src] = true;
    frame_otherwise |= insn.dst == isa::kFrame || insn.src == isa::kFrame;
    divides_ |= family(insn.op) == Op::kDiv32K || family(insn.op) == Op::kMod32K;
  }
  assign_registers(slots, frame_otherwise);
}

void Assembler::assign_registers(const std::map<int32_t, int>& slots, bool frame_otherwise) {
  std::vector<uint8_t> free;
  for (const uint8_t reg : {isa::kR3, isa::kR2, isa::kR1}) {
    if (!used_[reg] && !(reg == isa::kR1 && divides_)) free.push_back(reg);
  }
  if (!free.empty()) {
    second_ = wide(free.back());
    free.pop_back();
  }
  // Somebody who looks at the frame by other means must find the slots there.
  if (frame_otherwise) return;
  std::vector<std::pair<int, int32_t>> by_use;
  for (const auto& [offset, uses] : slots) by_use.emplace_back(-uses, offset);
  std::sort(by_use.begin(), by_use.end());
  for (const auto& [uses, offset] : by_use) {
    if (free.empty()) break;
    slot_registers_.emplace(offset, narrow(free.back()));
    free.pop_back();
  }
}

// r10d = value, never written as it is in a blinded program.
void Assembler::constant32(uint32_t value) {
  if (!blind_) {
    mov(r10d, value);
    return;
  }
  const uint32_t mask = keys_.next();
  mov(r10d, value ^ mask);
  xor_(r10d, mask);
}

void Assembler::constant64(uint64_t value) {
  if (!blind_) {
    mov(r10, value);
    return;
  }
  // A 64-bit XOR takes a sign-extended 32-bit mask, so each half gets one, with a rotation between.
  const auto extended = [](uint32_t mask) {
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(mask)));
  };
  const uint32_t first = keys_.next();
  const uint32_t second = keys_.next();
  const uint64_t before = value ^ extended(second);
  mov(r10, ((before >> 32) | (before << 32)) ^ extended(first));
  xor_(r10, first);
  rol(r10, 32);
  xor_(r10, second);
}

void Assembler::prologue() {
  if (used_[isa::kR4]) push(rbx);
  if (used_[isa::kR5]) push(rbp);
  if (code_.reads_initial_a) xor_(eax, eax);
  if (code_.reads_initial_x) xor_(ecx, ecx);
  if (code_.flavour == Flavour::kPacket) {
    mov(rsi, ptr[rdi + offsetof(Packet, data)]);
    mov(r11d, ptr[rdi + offsetof(Packet, length)]);
  }
}

void Assembler::leave_program() {
  if (used_[isa::kR5]) pop(rbp);
  if (used_[isa::kR4]) pop(rbx);
  ret();
}

Xbyak::Label& Assembler::fail() {
  fail_used_ = true;
  return fail_;
}

void Assembler::return_constant(uint32_t value) {
  if (value == 0) {
    xor_(eax, eax);
  } else {
    with_constant(value, false, [&](auto operand) { mov(eax, operand); });
  }
  leave_program();
}

void Assembler::emit(const Insn& insn) {
  if (insn.op <= Op::kMov64X) {
    arithmetic(insn);
  } else if (insn.op <= Op::kJnset64X) {
    jump(insn);
  } else if (insn.op >= Op::kLoad8 && insn.op <= Op::kLoad64) {
    load(insn);
  } else if (insn.op == Op::kStore32 || insn.op == Op::kStore64) {
    store(insn);
  } else if (insn.op >= Op::kLdAbs8 && insn.op <= Op::kLdMsh) {
    packet_load(insn);
  } else {
    switch (insn.op) {
      case Op::kNeg32:
        neg(narrow(insn.dst));
        break;
      case Op::kNeg64:
        neg(wide(insn.dst));
        break;
      case Op::kJa:
        jmp(target(insn.off), T_NEAR);
        break;
      case Op::kCall:
        inlined_helper(insn);
        break;
      case Op::kSwitch:
        dispatch(code_.switches[insn.imm], 0, code_.switches[insn.imm].size(), true);
        break;
      case Op::kRetK:
        return_constant(isa::low(insn.imm));
        break;
      default:
        leave_program();  // kRetA
    }
  }
}

}  // namespace srun::bpf::jit
#endif
