#pragma once
// How many instructions a seccomp program executes for a call: what size and speed are compared by, free of noise.
#include <cstring>

#include "bpf/instruction.h"
#include "bpf/opcodes.h"
#include "bpf/program.h"

namespace srun::bpf::test {

// For programs of loads, AND K, jumps against constants and RET K, which is what filter compilers emit.
inline uint32_t executed_instructions(const Program& program, const CallData& call) {
  uint32_t a = 0;
  uint32_t count = 0;
  for (size_t pc = 0;; ++pc) {
    const Instruction& insn = program.code()[pc];
    ++count;
    switch (insn.code) {
      case kLdAbsW: std::memcpy(&a, reinterpret_cast<const char*>(&call) + insn.k, sizeof a); break;
      case kAndK: a &= insn.k; break;
      case kJa: pc += insn.k; break;
      case kJeqK: pc += a == insn.k ? insn.jt : insn.jf; break;
      case kJgtK: pc += a > insn.k ? insn.jt : insn.jf; break;
      case kJgeK: pc += a >= insn.k ? insn.jt : insn.jf; break;
      case kJsetK: pc += (a & insn.k) != 0 ? insn.jt : insn.jf; break;
      case kRetK: return count;
      default: return ~uint32_t{0};
    }
  }
}

}  // namespace srun::bpf::test
