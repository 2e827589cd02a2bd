#include <doctest/doctest.h>

#include "bpf/converter.h"
#include "bpf/interpreter.h"
#include "bpf/reference.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
TEST_CASE("engines: equal on random seccomp programs") {
  Random random(1);
  ProgramShape shape;
  for (int i = 0; i < 10000; ++i) {
    CAPTURE(i);
    shape.max_length = i % 50 == 0 ? 300 : 60;
    const std::vector<Instruction> body = random_program(random, shape);
    const Result<Program, VerifyError> program = verify(body, Flavour::kSeccomp);
    REQUIRE(program.has_value());
    const isa::Code plain = convert(*program, {false, false});
    const isa::Code full = convert(*program);
    const InterpreterCode a(plain), b(full), c(full, Dispatch::kSwitch);
    for (int j = 0; j < 50; ++j) {
      const CallData call = random_call(random, body);
      const uint32_t want = run_reference(*program, call);
      REQUIRE(a.run(&call) == want);
      REQUIRE(b.run(&call) == want);
      REQUIRE(c.run(&call) == want);
    }
  }
}
TEST_CASE("engines: equal on random packet programs") {
  Random random(2);
  ProgramShape shape;
  shape.flavour = Flavour::kPacket;
  for (int i = 0; i < 10000; ++i) {
    CAPTURE(i);
    shape.max_length = i % 50 == 0 ? 300 : 60;
    const std::vector<Instruction> body = random_program(random, shape);
    const Result<Program, VerifyError> program = verify(body, Flavour::kPacket);
    REQUIRE(program.has_value());
    const isa::Code plain = convert(*program, {false, false});
    const isa::Code full = convert(*program);
    const InterpreterCode a(plain), b(full), c(full, Dispatch::kSwitch);
    for (int j = 0; j < 50; ++j) {
      const std::vector<uint8_t> bytes = random_packet(random, body, 64);
      Packet packet(bytes, 1500);
      packet.network_offset = 14;
      PacketMetadata metadata;
      for (uint32_t& value : metadata.values) value = random.below(16);
      if (j % 3 == 0) packet.metadata = &metadata;
      const uint32_t want = run_reference(*program, packet);
      REQUIRE(a.run(&packet) == want);
      REQUIRE(b.run(&packet) == want);
      REQUIRE(c.run(&packet) == want);
    }
  }
}
}  // namespace srun::bpf::test
