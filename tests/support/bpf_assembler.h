#pragma once
// Short spellings for classic instructions in tests.
#include <vector>

#include "bpf/instruction.h"
#include "bpf/opcodes.h"

namespace srun::bpf::test {

constexpr Instruction stmt(uint16_t code, uint32_t k = 0) { return {code, 0, 0, k}; }
constexpr Instruction jump(uint16_t code, uint32_t k, uint8_t jt, uint8_t jf) { return {code, jt, jf, k}; }
constexpr Instruction ret(uint32_t k) { return stmt(kRetK, k); }
constexpr Instruction ret_a() { return stmt(kRetA); }

using Code = std::vector<Instruction>;

}  // namespace srun::bpf::test
