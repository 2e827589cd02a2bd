#include "bpf/isa.h"

#include <doctest/doctest.h>

#include <vector>

#include "bpf/packet.h"

namespace srun::bpf::test {

using isa::Op;

TEST_CASE("isa: the text of a program names operands, targets and limits") {
  isa::Code code;
  code.switches.push_back({{0, 4}, {7, 5}});
  code.insns = {{Op::kLoad32, isa::kR0, isa::kContext, 16, 0}, {Op::kJeq32K, isa::kR0, 0, 1, 0x22},
                {Op::kAdd64X, isa::kR0, isa::kX, 0, 0},        {Op::kSwitch, 0, 0, 0, 0},
                {Op::kRetA, 0, 0, 0, 0},                       {Op::kRetK, 0, 0, 0, 0x7fff0000}};
  CHECK(isa::to_text(code) ==
        "0: Load32 r0, [r6+16]\n"
        "1: Jeq32K r0, 0x22 -> 3\n"
        "2: Add64X r0, r7\n"
        "3: Switch 0x0 -> 4 0x7 -> 5\n"
        "4: RetA\n"
        "5: RetK 0x7fff0000\n");
}

TEST_CASE("isa: constants for bytes as they lie in the packet are swapped at their load's width") {
  const auto unswapped = [](uint8_t width, uint64_t constant) {
    return isa::unswapped({Op::kJeq32K, isa::kR0, width, 0, constant});
  };
  CHECK(unswapped(1, 0x12) == 0x12);
  CHECK(unswapped(2, 0x1234) == 0x3412);
  CHECK(unswapped(4, 0x12345678) == 0x78563412);
}

TEST_CASE("isa: scratch words lie one below the other under the frame pointer") {
  CHECK(isa::slot_offset(0) == -4);
  CHECK(isa::slot_offset(15) == -64);
  CHECK(isa::kFrameBytes == 64);
  CHECK(isa::low(isa::pack(3, 5)) == 3);
  CHECK(isa::high(isa::pack(3, 5)) == 5);
}

TEST_CASE("isa: helpers load big-endian bytes near the network header, and say -1 outside the packet") {
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6};
  Packet packet(bytes, 6);
  packet.network_offset = 2;
  const auto load = [&packet](isa::Helper helper, int32_t offset) {
    return isa::call_helper(helper, &packet, static_cast<uint32_t>(offset));
  };
  constexpr int32_t kNetwork = -0x100000;
  CHECK(load(isa::Helper::kLoadNegative8, kNetwork) == 3);
  CHECK(load(isa::Helper::kLoadNegative16, kNetwork) == 0x0304);
  CHECK(load(isa::Helper::kLoadNegative32, kNetwork) == 0x03040506);
  CHECK(load(isa::Helper::kLoadNegative32, kNetwork + 1) == -1);
  CHECK(load(isa::Helper::kLoadNegative8, -0x300000) == -1);
}

}  // namespace srun::bpf::test
