#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "bpf/jit/assembler.h"

namespace srun::bpf::jit {

using isa::Insn;
using isa::Op;

void Assembler::arithmetic(const Insn& insn) {
  const bool wide_op = is_wide(insn.op);
  const Xbyak::Reg dst = sized(insn.dst, wide_op);
  const Op operation = family(insn.op);
  const auto apply = [&](auto source) {
    switch (operation) {
      case Op::kAdd32K:
        add(dst, source);
        break;
      case Op::kSub32K:
        sub(dst, source);
        break;
      case Op::kAnd32K:
        and_(dst, source);
        break;
      case Op::kOr32K:
        or_(dst, source);
        break;
      case Op::kXor32K:
        xor_(dst, source);
        break;
      default:
        mov(dst, source);
        break;
    }
  };
  switch (operation) {
    case Op::kDiv32K:
    case Op::kMod32K:
      divide(insn);
      return;
    case Op::kLsh32K:
    case Op::kRsh32K:
    case Op::kArsh32K:
      shift(insn);
      return;
    case Op::kMul32K:
      multiply(insn);
      return;
    default:
      break;
  }
  if (by_register(insn.op)) {
    // Also a 32-bit move onto itself: it clears the upper half, as the internal set says.
    apply(sized(insn.src, wide_op));
  } else if (operation == Op::kMov32K && wide_op) {
    constant64(insn.imm);
    mov(dst, r10);
  } else {
    with_constant(insn.imm, wide_op, apply);
  }
}

void Assembler::multiply(const Insn& insn) {
  const bool wide_op = is_wide(insn.op);
  const Xbyak::Reg dst = sized(insn.dst, wide_op);
  if (by_register(insn.op)) {
    imul(dst, sized(insn.src, wide_op));
  } else if (wide_op) {
    constant64(insn.imm);
    imul(dst, r10);
  } else {
    constant32(isa::low(insn.imm));
    imul(dst, r10d);
  }
}

void Assembler::shift(const Insn& insn) {
  const bool wide_op = is_wide(insn.op);
  const Op operation = family(insn.op);
  const auto by = [&](const Xbyak::Reg& reg, const auto& count) {
    if (operation == Op::kLsh32K) {
      shl(reg, count);
    } else if (operation == Op::kRsh32K) {
      shr(reg, count);
    } else {
      sar(reg, count);
    }
  };
  const Xbyak::Reg dst = sized(insn.dst, wide_op);
  if (!by_register(insn.op)) {
    // A count has 5 or 6 bits: nothing that would need blinding.
    const int count = static_cast<int>(insn.imm & (wide_op ? 63 : 31));
    if (count != 0) {
      by(dst, count);
    } else if (!wide_op) {
      mov(dst, dst);
    }
  } else if (insn.src == isa::kX) {
    by(dst, cl);  // also X by itself; the processor masks the count as the internal set says
    // With a count of 0 the upper half of the register may stay as it is.
    if (!wide_op) mov(dst, dst);
  } else {
    // The count must be in cl: work in r10 and give rcx back.
    mov(r10, wide(insn.dst));
    movq(xmm0, rcx);
    mov(ecx, narrow(insn.src));
    by(sized_r10(wide_op), cl);
    movq(rcx, xmm0);
    mov(dst, sized_r10(wide_op));
  }
}

void Assembler::divide(const Insn& insn) {
  const bool wide_op = is_wide(insn.op);
  const bool modulo = family(insn.op) == Op::kMod32K;
  if (by_register(insn.op)) {
    mov(sized_r10(wide_op), sized(insn.src, wide_op));
    test(sized_r10(wide_op), sized_r10(wide_op));
    jz(fail(), T_NEAR);
  } else if (wide_op) {
    constant64(insn.imm);
  } else {
    constant32(isa::low(insn.imm));
  }
  // div works on rdx:rax. The stack is no place to save them: the slots are below it.
  const bool into_a = insn.dst == isa::kA;
  const bool keep_rdx = used_[isa::kR1];
  if (!into_a) movq(xmm0, rax);
  if (keep_rdx) movq(xmm1, rdx);
  if (!into_a) mov(rax, wide(insn.dst));
  xor_(edx, edx);
  div(sized_r10(wide_op));
  if (into_a) {
    if (modulo) mov(rax, rdx);
    if (keep_rdx) movq(rdx, xmm1);
    return;
  }
  mov(r10, modulo ? rdx : rax);
  movq(rax, xmm0);
  if (keep_rdx) movq(rdx, xmm1);
  mov(wide(insn.dst), r10);
}

void Assembler::jump(const Insn& insn) {
  const bool wide_op = is_wide(insn.op);
  const Op operation = family(insn.op);
  const Xbyak::Reg dst = sized(insn.dst, wide_op);
  const bool tests = operation == Op::kJset32K || operation == Op::kJnset32K;
  const auto compare = [&](auto source) {
    if (tests) {
      test(dst, source);
    } else {
      cmp(dst, source);
    }
  };
  if (by_register(insn.op)) {
    compare(sized(insn.src, wide_op));
  } else if (insn.imm == 0 && !tests) {
    test(dst, dst);
  } else {
    with_constant(isa::is_hinted(insn.op) ? isa::unswapped(insn) : insn.imm, wide_op, compare);
  }
  Label& to = target(insn.off);
  switch (operation) {
    case Op::kJeq32K:
      je(to, T_NEAR);
      break;
    case Op::kJne32K:
      jne(to, T_NEAR);
      break;
    case Op::kJgt32K:
      ja(to, T_NEAR);
      break;
    case Op::kJge32K:
      jae(to, T_NEAR);
      break;
    case Op::kJlt32K:
      jb(to, T_NEAR);
      break;
    case Op::kJle32K:
      jbe(to, T_NEAR);
      break;
    case Op::kJsgt32K:
      jg(to, T_NEAR);
      break;
    case Op::kJsge32K:
      jge(to, T_NEAR);
      break;
    case Op::kJslt32K:
      jl(to, T_NEAR);
      break;
    case Op::kJsle32K:
      jle(to, T_NEAR);
      break;
    case Op::kJset32K:
      jnz(to, T_NEAR);
      break;
    default:
      jz(to, T_NEAR);
      break;
  }
}

}  // namespace srun::bpf::jit
#endif
