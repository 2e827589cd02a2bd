#include "bpf/formats.h"

#include <doctest/doctest.h>

#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

const Code kSample{stmt(kLdAbsH, 12), jump(kJeqK, 0x800, 0, 1), ret(262144), ret(0)};

// `tcpdump -dd ip`, link type Ethernet.
constexpr const char* kTcpdump =
    "{ 0x28, 0, 0, 0x0000000c },\n"
    "{ 0x15, 0, 1, 0x00000800 },\n"
    "{ 0x6, 0, 0, 0x00040000 },\n"
    "{ 0x6, 0, 0, 0x00000000 },\n";

std::string problem(const Result<std::vector<Instruction>>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().detail;
}

}  // namespace

TEST_CASE("C arrays are written as tcpdump -dd writes them and read back") {
  CHECK(write_c(kSample) == kTcpdump);
  CHECK(*read_c(kTcpdump) == kSample);
}

TEST_CASE("A C array may stand in a source file") {
  CHECK(*read_c("static struct sock_filter code[] = { /* port 22 {1} */\n"
                "  { 0x28, 0, 0, 12U }, // ld\n"
                "  { 025, 0, 1, 0x800ul },\n"
                "  {6,0,0,262144,}, { 0x06, 0, 0, 0 }\n"
                "};\n") == kSample);
}

TEST_CASE("JSON arrays are written on one line and read back") {
  CHECK(write_json(kSample) == "[[40,0,0,12],[21,0,1,2048],[6,0,0,262144],[6,0,0,0]]\n");
  CHECK(*read_json(" [ [40, 0,0,12],\n[21,0,1,2048], [6,0,0,262144], [6,0,0,0] ] ") == kSample);
  CHECK(read_json("[]")->empty());
}

TEST_CASE("What is no program is refused with its place") {
  CHECK(problem(read_json("{}")) == "line 1, column 1: '[' expected, not '{'");
  CHECK(problem(read_json("[[1,2,3]]")) == "line 1, column 8: ',' expected, not ']'");
  CHECK(problem(read_json("[[1,2,3,4,5]]")) == "line 1, column 10: ']' expected, not ','");
  CHECK(problem(read_json("[\n [65536,0,0,0]]")) == "line 2, column 3: code is above 65535");
  CHECK(problem(read_json("[[6,256,0,0]]")) == "line 1, column 5: jt is above 255");
  CHECK(problem(read_json("[[6,0,0,4294967296]]")) == "line 1, column 9: k is above 4294967295");
  CHECK(problem(read_json("[[6,0,0,-1]]")) == "line 1, column 9: a number for k expected, not '-'");
  CHECK(problem(read_json("[[6,0,0,0x1]]")) == "line 1, column 10: ']' expected, not 'x'");
  CHECK(problem(read_json("[[06,0,0,0]]")) == "line 1, column 3: JSON numbers have no leading zeros");
  CHECK(problem(read_json("[[6,0,0,0],]")) == "line 1, column 12: '[' expected, not ']'");
  CHECK(problem(read_json("[[6,0,0,0]] x")) == "line 1, column 13: nothing more expected, not 'x'");
  CHECK(problem(read_json("[[6,0,0,0]")) == "line 1, column 11: ',' or ']' expected, not the end");
  CHECK(problem(read_c("{ 0x6, 0, 0 }")) == "line 1, column 13: ',' expected, not '}'");
  CHECK(problem(read_c("{ 0x6, 0, 0, 1, 2 }")) == "line 1, column 17: '}' expected, not '2'");
  CHECK(problem(read_c("/* { 6, 0, 0, 0 }")) == "line 1, column 18: a comment has no end");
  CHECK(problem(read_c("no program")) == "no { code, jt, jf, k } in the text");
  CHECK(problem(read_raw("123456789")) == "9 bytes are no whole number of 8-byte instructions");
}

TEST_CASE("More instructions than the kernel takes are refused in every format") {
  const Code longest(kMaxInstructions, ret(1));
  const Code longer(kMaxInstructions + 1, ret(1));
  for (const ProgramFormat format : {ProgramFormat::kRaw, ProgramFormat::kJson, ProgramFormat::kC}) {
    CHECK(*read_program(write_program(longest, format), format) == longest);
    CHECK(problem(read_program(write_program(longer, format), format)) == "more than 4096 instructions");
  }
}

TEST_CASE("Every format gives random programs back, and the content tells the format") {
  Random random(8);
  for (int round = 0; round < 200; ++round) {
    Code code(1 + random.below(30));
    for (Instruction& insn : code) {
      insn = {static_cast<uint16_t>(random.next()), static_cast<uint8_t>(random.next()),
              static_cast<uint8_t>(random.next()), static_cast<uint32_t>(random.next())};
    }
    code.back() = ret(0);
    for (const ProgramFormat format : {ProgramFormat::kRaw, ProgramFormat::kJson, ProgramFormat::kC}) {
      const std::string bytes = write_program(code, format);
      CHECK(guess_format(bytes) == format);
      CHECK(*read_program(bytes, format) == code);
    }
  }
}

TEST_CASE("Damaged text never does more than be refused") {
  Random random(9);
  for (int round = 0; round < 3000; ++round) {
    const ProgramFormat format = random.percent(50) ? ProgramFormat::kJson : ProgramFormat::kC;
    std::string text = write_program(kSample, format);
    for (uint32_t damage = 1 + random.below(4); damage > 0; --damage) {
      const uint32_t at = random.below(static_cast<uint32_t>(text.size()));
      if (random.percent(30)) {
        text.resize(at + 1);
      } else {
        text[at] = static_cast<char>(random.below(256));
      }
    }
    const Result<std::vector<Instruction>> result = read_program(text, format);
    if (result) CHECK(result->size() <= kSample.size() + 1);
  }
}

}  // namespace srun::bpf::test
