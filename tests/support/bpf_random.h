#pragma once
// Seeded random programs and inputs for comparing engines with each other and with the kernel. Every program is valid
// for its flavour by construction; the same seed gives the same sequence on every machine.
#include <cstdint>
#include <span>
#include <vector>

#include "bpf/instruction.h"
#include "bpf/program.h"

namespace srun::bpf::test {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();  // splitmix64
  uint32_t below(uint32_t bound);
  bool percent(uint32_t chance) { return below(100) < chance; }
  uint32_t value();  // boundary and small values more often than arbitrary ones

 private:
  uint64_t state_;
};

struct ProgramShape {
  Flavour flavour = Flavour::kSeccomp;
  uint32_t min_length = 1;
  uint32_t max_length = 60;
  // Packet flavour: loads at negative offsets and ancillary loads. A live kernel's buffers have headers of their own,
  // so the comparison with it leaves them out.
  bool negative_offsets = true;
  uint32_t packet_length = 64;  // loads stay mostly below it
};

// Contains, besides arbitrary instructions, what compilers emit: runs of equality tests on one load, compares of 64-bit
// arguments by halves, chains of loads at constant offsets.
std::vector<Instruction> random_program(Random& random, const ProgramShape& shape);

// Words come often from the constants of `code`, so that equalities hold now and then.
CallData random_call(Random& random, std::span<const Instruction> code);
std::vector<uint8_t> random_packet(Random& random, std::span<const Instruction> code, uint32_t max_length);

}  // namespace srun::bpf::test
