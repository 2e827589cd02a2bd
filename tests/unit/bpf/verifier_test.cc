#include <doctest/doctest.h>

#include "bpf/packet.h"
#include "bpf/program.h"
#include "support/bpf_assembler.h"
#include "vectors.h"

namespace srun::bpf::test {
namespace {

using Kind = VerifyError::Kind;

VerifyError error_of(const Code& code, Flavour flavour) {
  const Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE_FALSE(program.has_value());
  return program.error();
}

bool accepted(const Code& code, Flavour flavour) { return verify(code, flavour).has_value(); }
bool accepted_by_both(const Code& code) {
  return accepted(code, Flavour::kPacket) && accepted(code, Flavour::kSeccomp);
}

}  // namespace

TEST_CASE("verifier: an empty program and one of 4097 instructions are refused, 4096 are accepted") {
  CHECK(error_of({}, Flavour::kSeccomp) == VerifyError{Kind::kLength, 0});
  CHECK(error_of(Code(4097, ret(0)), Flavour::kPacket) == VerifyError{Kind::kLength, 0});
  CHECK(accepted_by_both(Code(4096, ret(0))));
}

TEST_CASE("verifier: exactly 49 of the 65536 opcodes are known to packets and 41 to seccomp") {
  int packet = 0;
  int seccomp = 0;
  for (uint32_t opcode = 0; opcode <= 0xffff; ++opcode) {
    // k = 4 suits every opcode: a word offset, a shift count, a divisor, a scratch index; JA 4 needs room behind it.
    const Code code{stmt(kStx, 4), stmt(static_cast<uint16_t>(opcode), 4), ret(0), ret(0), ret(0), ret(0), ret(0)};
    packet += accepted(code, Flavour::kPacket);
    seccomp += accepted(code, Flavour::kSeccomp);
  }
  CHECK(packet == 49);
  CHECK(seccomp == 41);
}

TEST_CASE("verifier: an illegal opcode in dead code is refused at its place") {
  CHECK(error_of({ret(0), stmt(0xffff), ret(0)}, Flavour::kPacket) == VerifyError{Kind::kOpcode, 1});
}

TEST_CASE("verifier: unused fields may hold anything") {
  CHECK(accepted_by_both({{kTax, 255, 255, 0xffffffff}, {kLdLen, 1, 2, 3}, {kJa, 255, 255, 0}, {kRetA, 9, 9, 9}}));
}

TEST_CASE("verifier: division and modulo by the constant 0 are refused") {
  CHECK(error_of({stmt(kDivK, 0), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kDivideByZero, 0});
  CHECK(error_of({stmt(kModK, 0), ret(0)}, Flavour::kPacket) == VerifyError{Kind::kDivideByZero, 0});
  CHECK(accepted_by_both({stmt(kDivX, 0), ret(0)}));
}

TEST_CASE("verifier: a constant shift of 32 is refused, 31 is accepted, the X forms are not restricted") {
  CHECK(error_of({stmt(kLdImm, 1), stmt(kLshK, 32), ret_a()}, Flavour::kSeccomp) == VerifyError{Kind::kShift, 1});
  CHECK(error_of({stmt(kRshK, 32), ret_a()}, Flavour::kPacket) == VerifyError{Kind::kShift, 0});
  CHECK(accepted_by_both({stmt(kLshK, 31), stmt(kRshK, 31), stmt(kLshX, 32), stmt(kRshX, 99), ret_a()}));
}

TEST_CASE("verifier: scratch memory has 16 words") {
  CHECK(error_of({stmt(kSt, 16), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kScratchIndex, 0});
  CHECK(error_of({stmt(kLdMem, 16), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kScratchIndex, 0});
  CHECK(accepted_by_both({stmt(kStx, 15), stmt(kLdxMem, 15), ret(0)}));
}

TEST_CASE("verifier: jumps must stay inside, without wrap-around") {
  CHECK(error_of({stmt(kJa, 1), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kJump, 0});
  CHECK(error_of({stmt(kJa, 0xffffffff), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kJump, 0});
  CHECK(error_of({jump(kJeqK, 0, 0, 1), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kJump, 0});
  CHECK(error_of({jump(kJsetX, 0, 1, 0), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kJump, 0});
  CHECK(accepted_by_both({stmt(kJa, 0), jump(kJgeX, 0, 0, 1), ret(0), ret(1)}));
}

TEST_CASE("verifier: the last instruction must return") {
  CHECK(error_of({ret(0), stmt(kTax)}, Flavour::kPacket) == VerifyError{Kind::kNoReturn, 1});
}

TEST_CASE("verifier: packets may load ancillary words by their exact offsets only") {
  for (uint32_t k = kAncillaryBase; k != 0; ++k) {
    CAPTURE(k);
    REQUIRE(accepted({stmt(kLdAbsB, k), ret_a()}, Flavour::kPacket) == (k <= kAncillaryBase + 60 && k % 4 == 0));
  }
  CHECK(accepted({stmt(kLdAbsW, 0xffffefff), ret_a()}, Flavour::kPacket));
  CHECK(accepted({stmt(kLdIndW, 0xfffff001), ret_a()}, Flavour::kPacket));
}

TEST_CASE("verifier: seccomp loads aligned words of seccomp_data only") {
  for (uint32_t k = 0; k < 80; ++k) {
    CAPTURE(k);
    REQUIRE(accepted({stmt(kLdAbsW, k), ret_a()}, Flavour::kSeccomp) == (k < 64 && k % 4 == 0));
  }
  CHECK(error_of({stmt(kLdAbsW, kAncillaryBase), ret_a()}, Flavour::kSeccomp) == VerifyError{Kind::kLoadOffset, 0});
}

TEST_CASE("verifier: the packet rules come first also for seccomp") {
  // Instruction 0 breaks a seccomp rule, instruction 1 a packet rule: the kernel refuses for the latter.
  CHECK(error_of({stmt(kLdAbsB, 0), stmt(kDivK, 0), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kDivideByZero, 1});
}

TEST_CASE("verifier: a scratch word must be written on every path that jumps to its read") {
  CHECK(error_of({stmt(kLdMem, 3), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kUninitialised, 0});
  const Code one_path{jump(kJeqK, 0, 0, 1), stmt(kSt, 0), stmt(kLdMem, 0), ret_a()};
  CHECK(error_of(one_path, Flavour::kSeccomp) == VerifyError{Kind::kUninitialised, 2});
  CHECK(accepted_by_both({stmt(kSt, 0), jump(kJeqK, 0, 0, 1), stmt(kStx, 0), stmt(kLdMem, 0), ret_a()}));
}

TEST_CASE(
    "verifier: code behind a jump that nothing jumps to may read any scratch word, code behind a return may not") {
  CHECK(accepted_by_both({stmt(kJa, 1), stmt(kLdMem, 5), ret(0)}));
  CHECK(error_of({ret(0), stmt(kLdMem, 5), ret(0)}, Flavour::kSeccomp) == VerifyError{Kind::kUninitialised, 1});
  CHECK(accepted_by_both({stmt(kSt, 5), ret(0), stmt(kLdMem, 5), ret(0)}));
}

TEST_CASE("verifier: messages name the instruction and the rule") {
  CHECK(VerifyError{Kind::kShift, 7}.message() == "instruction 7: constant shift of 32 or more");
}

TEST_CASE("verifier: every verdict of the recorded kernel is reproduced in both flavours") {
  const std::optional<nlohmann::json> file = load_vectors("verify-oracle.json");
  if (!file) return;
  int agreeing = 0;
  for (const nlohmann::json& vector : (*file)["vectors"]) {
    CAPTURE(vector["name"].get<std::string>());
    const Code code = instructions(vector["insns"]);
    const bool packet = accepted(code, Flavour::kPacket) == (vector["packet"] == "valid");
    const bool seccomp = accepted(code, Flavour::kSeccomp) == (vector["seccomp"] == "valid");
    CHECK(packet);
    CHECK(seccomp);
    agreeing += packet && seccomp;
  }
  CHECK(agreeing == 4365);
}

TEST_CASE("verifier: the kernel's and FreeBSD's test programs get the verdict that Linux gives") {
  int programs = 0;
  for (const char* name : {"kernel-test-bpf.json", "kernel-test-bpf-large.json", "freebsd-bpf-filter.json"}) {
    const std::optional<nlohmann::json> file = load_vectors(name);
    if (!file) return;
    for (const nlohmann::json& vector : (*file)["vectors"]) {
      CAPTURE(vector["name"].get<std::string>());
      const Code code = instructions(vector["insns"]);
      // One program is refused by the kernel only later, in the conversion: converter_test.cc.
      const bool refused_later = vector.contains("invalid_stage") && vector["invalid_stage"] == "convert";
      CHECK(accepted(code, Flavour::kPacket) == (vector["expect"] == "valid" || refused_later));
      if (!refused_later) CHECK(accepted(code, Flavour::kSeccomp) == (vector["seccomp"] == "valid"));
      ++programs;
    }
  }
  CHECK(programs == 121 + 13 + 91);
}

}  // namespace srun::bpf::test
