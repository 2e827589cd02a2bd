#include "bpf/disassembler.h"

#include <doctest/doctest.h>

#include "bpf/compiler.h"
#include "bpf/packet.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kX86 = 0xc000003e;
constexpr uint32_t kI386 = 0x40000003;

DisassemblyOptions with_names() {
  DisassemblyOptions options;
  options.call_name = [](uint32_t arch, uint32_t nr) -> std::string {
    if (arch == kX86 && nr == 59) return "execve";
    if (arch == kI386 && nr == 11) return "execve";
    if (arch == 0 && nr == 59) return "(arch unknown)";
    return {};
  };
  return options;
}

}  // namespace

TEST_CASE("Words, numbers, arches and actions carry their names where A tells what a constant means") {
  const Code code{stmt(kLdAbsW, 4),      jump(kJeqK, kX86, 0, 5), stmt(kLdAbsW, 0),      jump(kJgeK, 0x40000000, 3, 0),
                  jump(kJeqK, 59, 0, 2), stmt(kLdAbsW, 20),       jump(kJeqK, 59, 1, 0), ret(kRetErrno | 13),
                  ret(kRetAllow)};
  CHECK(disassemble(code, with_names()) ==
        "0000         ld    arch\n"
        "0001         jeq   x86_64 ? next : L0001\n"
        "0002         ld    nr\n"
        "0003         jge   0x40000000 ? L0001 : next\n"
        "0004         jeq   59 execve ? next : L0001\n"
        "0005         ld    arg0.hi\n"
        "0006         jeq   0x3b ? L0002 : next\n"
        "0007  L0001: ret   ERRNO(13)\n"
        "0008  L0002: ret   ALLOW\n");
}

TEST_CASE("A number is named after the arch that is known where it is compared") {
  const Code both_arches{stmt(kLdAbsW, 4),      jump(kJeqK, kX86, 0, 2),  stmt(kLdAbsW, 0),
                         jump(kJeqK, 59, 3, 4), jump(kJeqK, kI386, 0, 3), stmt(kLdAbsW, 0),
                         jump(kJeqK, 11, 0, 1), ret(kRetKillProcess),     ret(kRetAllow)};
  CHECK(disassemble(both_arches, with_names()) ==
        "0000         ld    arch\n"
        "0001         jeq   x86_64 ? next : L0001\n"
        "0002         ld    nr\n"
        "0003         jeq   59 execve ? L0002 : L0003\n"
        "0004  L0001: jeq   i386 ? next : L0003\n"
        "0005         ld    nr\n"
        "0006         jeq   11 execve ? next : L0003\n"
        "0007  L0002: ret   KILL_PROCESS\n"
        "0008  L0003: ret   ALLOW\n");
  CHECK(disassemble(Code{stmt(kLdAbsW, 0), jump(kJeqK, 59, 0, 0), ret(0)}, with_names()) ==
        "0000         ld    nr\n"
        "0001         jeq   59 (arch unknown) ? next : next\n"
        "0002         ret   KILL_THREAD\n");
}

TEST_CASE("A return value's own text comes first, then the action, then the number") {
  DisassemblyOptions options;
  options.return_text = [](uint32_t value) {
    return value == (kRetErrno | 7) ? std::string("ci.json #/syscalls/3") : "";
  };
  CHECK(disassemble(Code{ret(kRetErrno | 7)}, options) == "0000         ret   ci.json #/syscalls/3\n");
  CHECK(disassemble(Code{ret(kRetErrno | 8)}, options) == "0000         ret   ERRNO(8)\n");
  CHECK(return_value_text(kRetKillProcess) == "KILL_PROCESS");
  CHECK(return_value_text(kRetTrace | 0xffff) == "TRACE(65535)");
  CHECK(return_value_text(0x00010000) == "0x00010000");
  CHECK(return_value_text(0xffff0001) == "0xffff0001");
}

TEST_CASE("Everything that the accumulator can do has a text") {
  CHECK(disassemble(Code{stmt(kLdImm, 16),     stmt(kLdxImm, 2),
                         stmt(kSt, 3),         stmt(kStx, 4),
                         stmt(kLdMem, 3),      stmt(kLdxMem, 4),
                         stmt(kTax),           stmt(kTxa),
                         stmt(kLdLen),         stmt(kLdxLen),
                         stmt(kAddK, 1),       stmt(kSubX),
                         stmt(kMulK, 3),       stmt(kDivX),
                         stmt(kOrK, 255),      stmt(kAndX),
                         stmt(kXorK, 1),       stmt(kLshK, 4),
                         stmt(kRshX),          stmt(kNeg),
                         jump(kJgtX, 0, 1, 0), jump(kJsetK, 0x80, 0, 0),
                         stmt(kJa, 0),         ret_a()}) ==
        "0000         ld    #0x10\n"
        "0001         ldx   #0x2\n"
        "0002         st    M[3]\n"
        "0003         stx   M[4]\n"
        "0004         ld    M[3]\n"
        "0005         ldx   M[4]\n"
        "0006         tax\n"
        "0007         txa\n"
        "0008         ld    len\n"
        "0009         ldx   len\n"
        "0010         add   0x1\n"
        "0011         sub   x\n"
        "0012         mul   0x3\n"
        "0013         div   x\n"
        "0014         or    0xff\n"
        "0015         and   x\n"
        "0016         xor   0x1\n"
        "0017         lsh   4\n"
        "0018         rsh   x\n"
        "0019         neg\n"
        "0020         jgt   x ? L0001 : next\n"
        "0021         jset  0x80 ? next : next\n"
        "0022  L0001: ja    L0002\n"
        "0023  L0002: ret   a\n");
}

TEST_CASE("A program for packets shows byte offsets and lengths") {
  CHECK(disassemble(Code{stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 4), stmt(kLdxMsh, 14), stmt(kLdIndH, 16),
                         jump(kJeqK, 22, 0, 1), ret(262144), stmt(kLdAbsW, kAncillaryBase + 36), ret(0)}) ==
        "0000         ldh   [12]\n"
        "0001         jeq   0x800 ? next : L0001\n"
        "0002         ldx   4*([14]&0xf)\n"
        "0003         ldh   [x + 16]\n"
        "0004         jeq   0x16 ? next : L0001\n"
        "0005         ret   262144\n"
        "0006  L0001: ld    #cpu\n"
        "0007         ret   0\n");
}

TEST_CASE("What no verifier would accept is still printed") {
  CHECK(disassemble(Code{}) == "");
  CHECK(disassemble(Code{jump(0x1234, 5, 1, 2), jump(kJeqK, 1, 200, 0), stmt(kJa, 0xffffffff)}) ==
        "0000         .raw  code=0x1234 jt=1 jf=2 k=0x5\n"
        "0001         jeq   0x1 ? outside(202) : next\n"
        "0002         ja    outside(4294967298)\n");
  Random random(3);
  for (int round = 0; round < 500; ++round) {
    Code code(1 + random.below(40));
    for (Instruction& insn : code) {
      insn = {static_cast<uint16_t>(random.below(256)), static_cast<uint8_t>(random.below(60)),
              static_cast<uint8_t>(random.below(60)), random.value()};
    }
    const std::string text = disassemble(code);
    CHECK(std::count(text.begin(), text.end(), '\n') == static_cast<std::ptrdiff_t>(code.size()));
  }
}

}  // namespace srun::bpf::test
