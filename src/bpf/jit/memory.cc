#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <cstddef>

#include "bpf/jit/assembler.h"
#include "bpf/packet.h"

namespace srun::bpf::jit {

using isa::Insn;
using isa::Op;

namespace {

// Between the link-layer and the network base of negative offsets: SKF_NET_OFF - SKF_LL_OFF.
constexpr uint32_t kHeaderDistance = 0x100000;

}  // namespace

void Assembler::load(const Insn& insn) {
  const Xbyak::RegExp at = wide(insn.src) + displacement(insn.off);
  if (insn.op == Op::kLoad32 && insn.src == isa::kFrame) {
    const auto slot = slot_registers_.find(insn.off);
    if (slot != slot_registers_.end()) {
      mov(narrow(insn.dst), slot->second);
      return;
    }
  }
  switch (insn.op) {
    case Op::kLoad8:
      movzx(narrow(insn.dst), byte[at]);
      break;
    case Op::kLoad16:
      movzx(narrow(insn.dst), word[at]);
      break;
    case Op::kLoad32:
      mov(narrow(insn.dst), dword[at]);
      break;
    default:
      mov(wide(insn.dst), qword[at]);
      break;
  }
}

void Assembler::store(const Insn& insn) {
  const Xbyak::RegExp at = wide(insn.dst) + displacement(insn.off);
  if (insn.op == Op::kStore64) {
    mov(qword[at], wide(insn.src));
    return;
  }
  const auto slot = insn.dst == isa::kFrame ? slot_registers_.find(insn.off) : slot_registers_.end();
  if (slot != slot_registers_.end()) {
    mov(slot->second, narrow(insn.src));
  } else {
    mov(dword[at], narrow(insn.src));
  }
}

void Assembler::packet_load(const Insn& insn) {
  switch (insn.op) {
    case Op::kLdAbs8:
      absolute(insn, 1);
      break;
    case Op::kLdAbs16:
      absolute(insn, 2);
      break;
    case Op::kLdAbs32:
      absolute(insn, 4);
      break;
    case Op::kLdNear8:
      near(insn, 1);
      break;
    case Op::kLdNear16:
      near(insn, 2);
      break;
    case Op::kLdNear32:
      near(insn, 4);
      break;
    case Op::kLdInd8:
      indirect(insn, 1);
      break;
    case Op::kLdInd16:
      indirect(insn, 2);
      break;
    case Op::kLdInd32:
      indirect(insn, 4);
      break;
    default:  // kLdMsh
      absolute(insn, 1);
      and_(narrow(insn.dst), 15);
      shl(narrow(insn.dst), 2);
  }
}

void Assembler::load_network(const Insn& insn, const Xbyak::RegExp& at, uint32_t size) {
  const Xbyak::Reg32 reg = narrow(insn.dst);
  const bool swap = !isa::may_stay_unswapped(insn);
  if (size == 1) {
    movzx(reg, byte[at]);
  } else if (size == 2) {
    movzx(reg, word[at]);
    if (swap) rol(reg.cvt16(), 8);
  } else {
    mov(reg, dword[at]);
    if (swap) bswap(reg);
  }
}

void Assembler::absolute(const Insn& insn, uint32_t size) {
  const uint32_t limit = isa::high(insn.imm);
  if (limit != 0) {
    with_constant(limit, false, [&](auto value) { cmp(r11d, value); });
    jb(fail(), T_NEAR);
  }
  if (blind_) {
    constant32(isa::low(insn.imm));
    load_network(insn, rsi + r10, size);
  } else {
    load_network(insn, rsi + isa::low(insn.imm), size);
  }
}

void Assembler::near(const Insn& insn, uint32_t size) {
  const uint32_t limit = isa::high(insn.imm);
  const Xbyak::Reg64 base = wide(insn.src);
  if (limit != 0) {
    if (blind_) {
      constant32(limit);
      add(r10, base);
    } else {
      lea(r10, ptr[base + limit]);
    }
    cmp(r10, r11);
    ja(fail(), T_NEAR);
  }
  if (blind_) {
    constant32(isa::low(insn.imm));
    add(r10, base);
    load_network(insn, rsi + r10, size);
  } else {
    load_network(insn, rsi + base + isa::low(insn.imm), size);
  }
}

// r10 = end of the bytes. An offset that is negative as a signed number ends beyond every packet, since packets are
// shorter than 2^31; those are looked at out of line.
void Assembler::indirect(const Insn& insn, uint32_t size) {
  if (blind_) {
    constant32(isa::low(insn.imm));
    add(r10d, narrow(insn.src));
  } else {
    lea(r10d, ptr[wide(insn.src) + displacement(static_cast<int32_t>(isa::low(insn.imm)))]);
  }
  SlowLoad& slow = slow_loads_.emplace_back();
  slow.size = size;
  fail_used_ = true;
  add(r10, size);
  cmp(r10, r11);
  ja(slow.entry, T_NEAR);
  L(slow.back);
  load_network(insn, rsi + r10 - size_t{size}, size);
}

// As packet_bytes in bpf/packet.h.
void Assembler::slow_load(SlowLoad& slow) {
  Label link_layer;
  Label check;
  L(slow.entry);
  // The offset again, as a signed number. If it is not negative the load was out of bounds.
  sub(r10, slow.size);
  movsxd(r10, r10d);
  test(r10, r10);
  jns(fail_, T_NEAR);
  add(r10, kHeaderDistance);
  js(link_layer);
  add_network_offset();
  jmp(check);
  L(link_layer);
  add(r10, kHeaderDistance);
  js(fail_, T_NEAR);
  L(check);
  add(r10, slow.size);
  cmp(r10, r11);
  ja(fail_, T_NEAR);
  jmp(slow.back, T_NEAR);
}

void Assembler::add_network_offset() {
  add(r10d, dword[rdi + offsetof(Packet, network_offset)]);
  jc(fail(), T_NEAR);
}

// isa::call_helper with a known argument: what is left is a bounds check and a load.
void Assembler::inlined_helper(const Insn& insn) {
  const isa::Helper helper = static_cast<isa::Helper>(isa::low(insn.imm));
  const uint32_t size = helper == isa::Helper::kLoadNegative8 ? 1 : helper == isa::Helper::kLoadNegative16 ? 2 : 4;
  int64_t offset = static_cast<int32_t>(isa::high(insn.imm));
  if (offset < -2 * int64_t{kHeaderDistance}) {
    jmp(fail(), T_NEAR);
    return;
  }
  const bool from_network = offset < 0 && offset >= -int64_t{kHeaderDistance};
  if (offset < 0) offset += from_network ? kHeaderDistance : 2 * kHeaderDistance;
  constant32(static_cast<uint32_t>(offset));
  if (from_network) add_network_offset();
  add(r10, size);
  cmp(r10, r11);
  ja(fail(), T_NEAR);
  load_network({insn.op, isa::kA}, rsi + r10 - size_t{size}, size);
}

}  // namespace srun::bpf::jit
#endif
