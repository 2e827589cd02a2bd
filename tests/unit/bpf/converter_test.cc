#include "bpf/converter.h"

#include <doctest/doctest.h>

#include "support/bpf_assembler.h"
#include "vectors.h"

namespace srun::bpf::test {
namespace {

std::string text(const Code& code, Flavour flavour = Flavour::kSeccomp, ConvertOptions options = {}) {
  const Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE(program.has_value());
  return isa::to_text(convert(*program, options));
}

Result<uint32_t, ConversionError> kernel_length(const Code& code, Flavour flavour = Flavour::kPacket) {
  const Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE(program.has_value());
  return kernel_converted_length(*program);
}

}  // namespace

TEST_CASE("converter: a jump falls through to whichever side follows, inverted if need be") {
  CHECK(text({stmt(kLdAbsW, 0), jump(kJgtK, 5, 0, 1), ret(1), ret(2)}) ==
        "0: Load32 r0, [r6+0]\n"
        "1: Jgt32K r0, 0x5 -> 3\n"
        "2: RetK 0x2\n"
        "3: RetK 0x1\n");
  CHECK(text({stmt(kLdAbsW, 0), jump(kJsetK, 5, 1, 0), stmt(kAddK, 1), ret_a()}, Flavour::kSeccomp, {false, false}) ==
        "0: Load32 r0, [r6+0]\n"
        "1: Jset32K r0, 0x5 -> 3\n"
        "2: Add32K r0, 0x1\n"
        "3: RetA\n");
  CHECK(text({stmt(kLdAbsW, 0), jump(kJeqK, 5, 0, 1), stmt(kAddK, 1), ret_a()}, Flavour::kSeccomp, {false, false}) ==
        "0: Load32 r0, [r6+0]\n"
        "1: Jeq32K r0, 0x5 -> 3\n"
        "2: RetA\n"
        "3: Add32K r0, 0x1\n"
        "4: RetA\n");
}

TEST_CASE("converter: a 64-bit argument is compared at once") {
  CHECK(text({stmt(kLdAbsW, 20), jump(kJeqK, 1, 0, 3), stmt(kLdAbsW, 16), jump(kJeqK, 2, 0, 1), ret(1), ret(2)}) ==
        "0: Load64 r1, [r6+16]\n"
        "1: Jeq64K r1, 0x100000002 -> 3\n"
        "2: RetK 0x2\n"
        "3: RetK 0x1\n");
}

TEST_CASE("converter: dispatch over numbers is one instruction") {
  CHECK(text({stmt(kLdAbsW, 0), jump(kJeqK, 1, 4, 0), jump(kJeqK, 5, 3, 0), jump(kJeqK, 9, 2, 0), jump(kJeqK, 10, 1, 0),
              ret(0), ret(1)}) ==
        "0: Load32 r0, [r6+0]\n"
        "1: Switch 0x0 -> 2 0x1 -> 3 0x2 -> 2 0x5 -> 3 0x6 -> 2 0x9 -> 3 0xb -> 2\n"
        "2: RetK 0x0\n"
        "3: RetK 0x1\n");
}

TEST_CASE("converter: packet loads stay one instruction each and share a check") {
  CHECK(text({stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 2), stmt(kLdxMsh, 14), stmt(kLdIndH, 14), ret_a()},
             Flavour::kPacket) ==
        "0: LdAbs16 r0, 12 limit 14\n"
        "1: Jeq32K r0, 0x800 -> 3\n"
        "2: RetA\n"
        "3: LdMsh r7, 14 limit 15\n"
        "4: LdNear16 r0, r7 + 0xe limit 16\n"
        "5: RetA\n");
}

TEST_CASE("converter: negative offsets and ancillary words") {
  CHECK(text({stmt(kLdAbsW, 0xfff00004), stmt(kLdxMsh, 0xffe00000), stmt(kAddX), ret_a()}, Flavour::kPacket) ==
        "0: Call helper 2, 0xfff00004\n"
        "1: Mov32X r7, r0\n"
        "2: Call helper 0, 0xffe00000\n"
        "3: And32K r0, 0xf\n"
        "4: Lsh32K r0, 0x2\n"
        "5: Mov32X r2, r7\n"
        "6: Mov32X r7, r0\n"
        "7: Mov32X r0, r2\n"
        "8: Add32X r0, r7\n"
        "9: RetA\n");
  CHECK(text({stmt(kLdImm, 3), stmt(kLdAbsW, 0xfffff008), ret_a()}, Flavour::kPacket) ==
        "0: Mov32K r0, 0x3\n"
        "1: Load64 r1, [r6+24]\n"
        "2: Jne64K r1, 0x0 -> 4\n"
        "3: RetA\n"
        "4: Load32 r0, [r1+8]\n"
        "5: RetA\n");
}

TEST_CASE("converter: the kernel's conversion has the lengths of bpf_convert_filter") {
  CHECK(kernel_length({ret(0)}) == 3 + 2);
  CHECK(kernel_length({ret_a()}) == 3 + 1);
  CHECK(kernel_length({stmt(kDivX), ret_a()}) == 3 + 5 + 1);
  CHECK(kernel_length({stmt(kLdAbsW, 0), ret_a()}, Flavour::kSeccomp) == 3 + 1 + 1);
  // Fast path of a half word: length, subtract, compare, load, swap, skip; slow path: 8.
  CHECK(kernel_length({stmt(kLdAbsH, 12), ret_a()}) == 3 + 4 + 6 + 8 + 1);
  CHECK(kernel_length({stmt(kLdAbsB, 0), ret_a()}) == 3 + 4 + 4 + 8 + 1);
  CHECK(kernel_length({stmt(kLdAbsB, 32768), ret_a()}) == 3 + 4 + 7 + 8 + 1);
  CHECK(kernel_length({stmt(kLdIndB, 1), ret_a()}) == 3 + 4 + 9 + 1);
  CHECK(kernel_length({jump(kJeqK, 1, 0, 1), ret(0), ret(1)}) == 3 + 1 + 4);
  CHECK(kernel_length({jump(kJsetK, 0x80000000, 0, 1), ret(0), ret(1)}) == 3 + 3 + 4);
}

TEST_CASE("converter: a jump over too much converted code is the kernel's refusal, at the jump") {
  Code code{stmt(kLdImm, 1), stmt(kJa, 2000)};
  for (int i = 0; i < 2000; ++i) code.push_back(stmt(kLdxMsh, 1));
  code.push_back(ret(0));
  const Result<uint32_t, ConversionError> length = kernel_length(code);
  REQUIRE_FALSE(length.has_value());
  CHECK(length.error() == ConversionError{1});
  CHECK(length.error().message() == "instruction 1: the kernel's converted jump does not fit 16 bits");
}

TEST_CASE("converter: of the kernel's large test programs exactly the one is refused that the kernel refuses") {
  const std::optional<nlohmann::json> file = load_vectors("kernel-test-bpf-large.json");
  if (!file) return;
  int refused = 0;
  for (const nlohmann::json& vector : (*file)["vectors"]) {
    CAPTURE(vector["name"].get<std::string>());
    const Result<Program, VerifyError> program = verify(instructions(vector["insns"]), Flavour::kPacket);
    if (!program) continue;
    const bool expected = vector.contains("invalid_stage") && vector["invalid_stage"] == "convert";
    CHECK(kernel_converted_length(*program).has_value() != expected);
    refused += expected;
  }
  CHECK(refused == 1);
}

}  // namespace srun::bpf::test
