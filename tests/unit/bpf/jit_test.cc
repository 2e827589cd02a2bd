// What only machine code can get wrong. That it computes what the reference computes is shown in engines_test.cc by
// programs; here every operation of the internal set is asked by itself, also those that no program leads to today.
#include "bpf/jit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "bpf/converter.h"
#include "bpf/interpreter.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

using isa::Op;

constexpr uint64_t kValues[] = {0,          1,          2,          31,         32,
                                33,         63,         64,         0x7f,       0x80,
                                0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x100000000,
                                0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffffe, 0xffffffffffffffff,
                                0x123456789abcdef0};

// The operations of SRUN_ISA_ALU and SRUN_ISA_JUMP by their place in that list, in plain arithmetic. `ends`: DIV or MOD
// by 0 ends the program with result 0.
template <typename Unsigned>
Unsigned alu_model(int operation, Unsigned a, Unsigned b, bool& ends) {
  constexpr Unsigned kMask = sizeof(Unsigned) * 8 - 1;
  using Signed = std::make_signed_t<Unsigned>;
  switch (operation) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return (ends = b == 0) ? 0 : a / b;
    case 4: return (ends = b == 0) ? 0 : a % b;
    case 5: return a & b;
    case 6: return a | b;
    case 7: return a ^ b;
    case 8: return a << (b & kMask);
    case 9: return a >> (b & kMask);
    case 10: return static_cast<Unsigned>(static_cast<Signed>(a) >> (b & kMask));
    default: return b;
  }
}

template <typename Unsigned>
bool jump_model(int operation, Unsigned a, Unsigned b) {
  const auto x = static_cast<std::make_signed_t<Unsigned>>(a);
  const auto y = static_cast<std::make_signed_t<Unsigned>>(b);
  switch (operation) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a > b;
    case 3: return a >= b;
    case 4: return a < b;
    case 5: return a <= b;
    case 6: return x > y;
    case 7: return x >= y;
    case 8: return x < y;
    case 9: return x <= y;
    case 10: return (a & b) != 0;
    default: return (a & b) == 0;
  }
}

// Runs in every engine that there is; all must say `expected`.
void check_all(const isa::Code& code, uint32_t expected) {
  const CallData call;
  const InterpreterCode threaded(code, Dispatch::kThreaded);
  const InterpreterCode switched(code, Dispatch::kSwitch);
  if (threaded.run(&call) != expected || switched.run(&call) != expected) {
    FAIL("interpreter: " << threaded.run(&call) << " and " << switched.run(&call) << " in place of " << expected << "\n"
                         << isa::to_text(code));
  }
  if (!jit_available()) return;
  for (const bool blind : {false, true}) {
    const Result<JitCode> jit = JitCode::compile(code, {blind});
    REQUIRE(jit.has_value());
    if (jit->run(&call) != expected) {
      FAIL("machine code" << (blind ? ", blinded" : "") << ": " << jit->run(&call) << " in place of " << expected << "\n"
                          << isa::to_text(code));
    }
  }
}

// `operation` on registers 2 and 3, or on 2 and a constant; then one half of register 2 is the result.
isa::Code alu_code(Op op, bool constant, uint64_t a, uint64_t b, bool upper_half) {
  isa::Code code;
  code.insns = {{Op::kMov64K, isa::kR2, 0, 0, a}, {Op::kMov64K, isa::kR3, 0, 0, b}};
  code.insns.push_back({op, isa::kR2, constant ? uint8_t{0} : uint8_t{isa::kR3}, 0, constant ? b : 0});
  if (upper_half) code.insns.push_back({Op::kRsh64K, isa::kR2, 0, 0, 32});
  code.insns.push_back({Op::kMov64X, isa::kR0, isa::kR2, 0, 0});
  code.insns.push_back({Op::kRetA, 0, 0, 0, 0});
  return code;
}

std::vector<uint8_t> little_endian(uint32_t value) {
  std::vector<uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

bool contains(std::span<const uint8_t> code, uint32_t constant) {
  const std::vector<uint8_t> bytes = little_endian(constant);
  return std::search(code.begin(), code.end(), bytes.begin(), bytes.end()) != code.end();
}

// The permissions of the mapping that holds `address`: "r-xp".
std::string permissions_at(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uintptr_t first = 0;
    uintptr_t last = 0;
    char dash = 0;
    std::string permissions;
    fields >> std::hex >> first >> dash >> last >> permissions;
    if (wanted >= first && wanted < last) return permissions;
  }
  return "not mapped";
}

}  // namespace

TEST_CASE("jit: every arithmetic operation in every form gives what plain arithmetic gives, on boundary values") {
  for (int operation = 0; operation < 12; ++operation) {
    for (int form = 0; form < 4; ++form) {  // 32K, 32X, 64K, 64X
      const auto op = static_cast<Op>(4 * operation + form);
      const bool constant = form % 2 == 0;
      for (const uint64_t a : kValues) {
        for (const uint64_t b : kValues) {
          bool ends = false;
          const uint64_t result =
              form < 2 ? alu_model(operation, static_cast<uint32_t>(a), static_cast<uint32_t>(b), ends)
                       : alu_model(operation, a, b, ends);
          // The verifier lets no constant 0 through as a divisor, so the set has no meaning for one.
          if (ends && constant) continue;
          check_all(alu_code(op, constant, a, b, false), ends ? 0 : static_cast<uint32_t>(result));
          check_all(alu_code(op, constant, a, b, true), ends ? 0 : static_cast<uint32_t>(result >> 32));
        }
      }
    }
  }
}

TEST_CASE("jit: every compare in every form goes where plain arithmetic goes, on boundary values") {
  for (int operation = 0; operation < 12; ++operation) {
    for (int form = 0; form < 4; ++form) {
      const auto op = static_cast<Op>(static_cast<int>(Op::kJeq32K) + 4 * operation + form);
      const bool constant = form % 2 == 0;
      for (const uint64_t a : kValues) {
        for (const uint64_t b : kValues) {
          isa::Code code;
          code.insns = {{Op::kMov64K, isa::kR2, 0, 0, a},
                        {Op::kMov64K, isa::kR3, 0, 0, b},
                        {op, isa::kR2, constant ? uint8_t{0} : uint8_t{isa::kR3}, 1, constant ? b : 0},
                        {Op::kRetK, 0, 0, 0, 10},
                        {Op::kRetK, 0, 0, 0, 20}};
          const bool taken = form < 2 ? jump_model(operation, static_cast<uint32_t>(a), static_cast<uint32_t>(b))
                                      : jump_model(operation, a, b);
          check_all(code, taken ? 20 : 10);
        }
      }
    }
  }
}

TEST_CASE("jit: stack slots and registers keep 64 bits where 64 are stored and 32 where 32 are") {
  isa::Code code;
  code.insns = {{Op::kMov64K, isa::kR2, 0, 0, 0x1122334455667788}, {Op::kStore64, isa::kFrame, isa::kR2, -8, 0},
                {Op::kMov64K, isa::kR2, 0, 0, 0xaabbccdd},         {Op::kStore32, isa::kFrame, isa::kR2, -8, 0},
                {Op::kLoad64, isa::kR0, isa::kFrame, -8, 0},       {Op::kRsh64K, isa::kR0, 0, 0, 24},
                {Op::kRetA, 0, 0, 0, 0}};
  // 0x11223344aabbccdd >> 24
  check_all(code, std::endian::native == std::endian::little ? 0x223344aa : 0xccdd5566);
}

TEST_CASE("jit: pages with machine code are never writable") {
  if (!jit_available()) return;
  const Result<JitCode> jit = JitCode::compile(convert(*verify(Code{ret(kRetAllow)}, Flavour::kSeccomp)));
  REQUIRE(jit.has_value());
  CHECK(permissions_at(jit->machine_code().data()) == "r-xp");
}

TEST_CASE("jit: with blinding no constant of the program can be found in the machine code") {
  if (!jit_available()) return;
  // A value as an attacker would choose it: bytes that are instructions of their own.
  const std::vector<uint32_t> chosen{0x90909090, 0x0f05050f, 0xccc3cd80, 0x12345678};
  Code code{stmt(kLdAbsW, 16)};
  for (const uint32_t constant : chosen) code.push_back(stmt(kXorK, constant));
  for (const uint32_t constant : chosen) {
    code.push_back(jump(kJeqK, constant, 0, 1));
    code.push_back(ret(constant));
  }
  code.push_back(stmt(kLdxImm, chosen[0]));
  code.push_back(stmt(kAddX));
  code.push_back(ret_a());
  const Program program = *verify(code, Flavour::kSeccomp);
  const isa::Code converted = convert(program);
  for (int attempt = 0; attempt < 50; ++attempt) {
    const Result<JitCode> blinded = JitCode::compile(converted, {true});
    REQUIRE(blinded.has_value());
    for (const uint32_t constant : chosen) CHECK_FALSE(contains(blinded->machine_code(), constant));
  }
  // The search itself works: without blinding a returned constant is there.
  const Result<JitCode> plain = JitCode::compile(converted);
  REQUIRE(plain.has_value());
  CHECK(contains(plain->machine_code(), 0xccc3cd80));
}

TEST_CASE("jit: the same program blinded twice is different machine code with the same result") {
  if (!jit_available()) return;
  const isa::Code code =
      convert(*verify(Code{stmt(kLdAbsW, 16), stmt(kXorK, 0xdeadbeef), ret_a()}, Flavour::kSeccomp));
  const Result<JitCode> first = JitCode::compile(code, {true});
  const Result<JitCode> second = JitCode::compile(code, {true});
  REQUIRE((first.has_value() && second.has_value()));
  CHECK_FALSE(std::ranges::equal(first->machine_code(), second->machine_code()));
  CallData call;
  call.args[0] = 0x01020304;
  CHECK(first->run(&call) == (0x01020304u ^ 0xdeadbeefu));
  CHECK(second->run(&call) == first->run(&call));
}

TEST_CASE("jit: the longest program of the kernel compiles and runs to its end") {
  if (!jit_available()) return;
  Code code{stmt(kLdAbsW, 16)};
  while (code.size() < kMaxInstructions - 1) code.push_back(stmt(code.size() % 2 == 0 ? kAddK : kXorK, 0x01000193));
  code.push_back(ret_a());
  const Program program = *verify(code, Flavour::kSeccomp);
  const isa::Code converted = convert(program);
  const Result<JitCode> jit = JitCode::compile(converted);
  REQUIRE(jit.has_value());
  CallData call;
  call.args[0] = 77;
  CHECK(jit->run(&call) == InterpreterCode(converted).run(&call));
}

}  // namespace srun::bpf::test
