#include "bench/decide_filters.h"

#include <algorithm>
#include <cstring>

#include "bpf/opcodes.h"
#include "kernel/arch.h"

#ifdef SANDBOX_BENCH_LIBPCAP
#include <pcap/pcap.h>
#endif

namespace srun::bench {

using bpf::Instruction;

#ifdef SANDBOX_BENCH_LIBPCAP

static_assert(sizeof(bpf_insn) == sizeof(Instruction));

bool have_libpcap() { return true; }

Result<std::vector<Instruction>> capture_filter(const char* expression) {
  pcap_t* handle = ::pcap_open_dead(DLT_EN10MB, 262144);
  if (handle == nullptr) return failure(Error::from_text("pcap_open_dead", expression, "out of memory"));
  bpf_program program{};
  if (::pcap_compile(handle, &program, expression, 1, PCAP_NETMASK_UNKNOWN) != 0) {
    Error error = Error::from_text("pcap_compile", expression, ::pcap_geterr(handle));
    ::pcap_close(handle);
    return failure(std::move(error));
  }
  std::vector<Instruction> code;
  for (const bpf_insn& insn : std::span(program.bf_insns, program.bf_len)) {
    code.push_back({insn.code, insn.jt, insn.jf, insn.k});
  }
  ::pcap_freecode(&program);
  ::pcap_close(handle);
  return code;
}

uint32_t run_libpcap(const Instruction* code, const uint8_t* bytes, uint32_t length) noexcept {
  // Same layout, checked above; libpcap only reads it.
  return ::bpf_filter(reinterpret_cast<const bpf_insn*>(code), bytes, length, length);
}

#else

bool have_libpcap() { return false; }
Result<std::vector<Instruction>> capture_filter(const char* expression) {
  return failure(Error::from_text("compile", expression, "built without libpcap"));
}
uint32_t run_libpcap(const Instruction*, const uint8_t*, uint32_t) noexcept { return 0; }

#endif

namespace {

constexpr uint32_t kArgument0 = 16;
constexpr uint32_t kArgument1 = 24;
constexpr uint32_t kHigh = 4;  // of the high half, in the argument
constexpr uint32_t kX32Bit = 0x40000000;

Instruction statement(uint16_t code, uint32_t k) { return {code, 0, 0, k}; }

// Leaves the number in A. A foreign arch and x32 are killed.
std::vector<Instruction> prologue() {
  return {statement(bpf::kLdAbsW, 4),  {bpf::kJeqK, 1, 0, kernel::audit_arch(kernel::kNativeArch)},
          statement(bpf::kRetK, 0),    statement(bpf::kLdAbsW, 0),
          {bpf::kJgeK, 0, 2, kX32Bit}, {bpf::kJeqK, 1, 0, 0xffffffff},
          statement(bpf::kRetK, 0)};
}

}  // namespace

std::vector<Instruction> linear_numbers(uint32_t count) {
  std::vector<Instruction> code = prologue();
  for (uint32_t number = 0; number < count; ++number) {
    code.push_back({bpf::kJeqK, static_cast<uint8_t>(count - number), 0, number});
  }
  code.push_back({bpf::kJa, 0, 0, 4});
  code.push_back(statement(bpf::kLdAbsW, kArgument0 + kHigh));
  code.push_back({bpf::kJeqK, 0, 3, 0});
  code.push_back(statement(bpf::kLdAbsW, kArgument0));
  code.push_back({bpf::kJeqK, 0, 1, 0});
  code.push_back(statement(bpf::kRetK, bpf::kRetKillThread));
  code.push_back(statement(bpf::kRetK, bpf::kRetAllow));
  return code;
}

std::vector<Instruction> chained_rules(uint32_t number, uint32_t count) {
  // A jump reaches 255 instructions: each group has its own return.
  constexpr uint32_t kGroup = 30;
  constexpr uint32_t kRule = 6;
  std::vector<Instruction> code = prologue();
  code.push_back({bpf::kJeqK, 1, 0, number});
  code.push_back(statement(bpf::kRetK, bpf::kRetAllow));
  code.push_back(statement(bpf::kLdAbsW, kArgument0 + kHigh));
  code.push_back({bpf::kJeqK, 1, 0, 0});
  code.push_back(statement(bpf::kRetK, bpf::kRetAllow));
  for (uint32_t rule = 0; rule < count; ++rule) {
    const uint32_t in_group = rule % kGroup;
    const uint32_t group = std::min(kGroup, count - (rule - in_group));
    const bool last = in_group + 1 == group;
    // Instructions from the start of this rule to the group's return.
    const uint32_t to_return = (group - in_group) * kRule;
    const uint8_t over_return = last ? 1 : 0;
    code.push_back(statement(bpf::kLdAbsW, kArgument0));
    code.push_back({bpf::kJeqK, 0, static_cast<uint8_t>(4 + over_return), 1000 + rule});
    code.push_back(statement(bpf::kLdAbsW, kArgument1 + kHigh));
    code.push_back({bpf::kJeqK, 0, static_cast<uint8_t>(to_return - 4), 0});
    code.push_back(statement(bpf::kLdAbsW, kArgument1));
    code.push_back({bpf::kJeqK, over_return, static_cast<uint8_t>(to_return - 6), 0});
    if (last) code.push_back(statement(bpf::kRetK, bpf::kRetErrno | 1));
  }
  code.push_back(statement(bpf::kRetK, bpf::kRetAllow));
  return code;
}

std::vector<uint8_t> call_as_packet(const bpf::CallData& call) {
  std::vector<uint8_t> bytes(sizeof call);
  std::memcpy(bytes.data(), &call, sizeof call);
  for (size_t word = 0; word < bytes.size(); word += 4) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(word), bytes.begin() + static_cast<ptrdiff_t>(word) + 4);
  }
  return bytes;
}

std::vector<uint8_t> ssh_packet() {
  std::vector<uint8_t> bytes(100);
  bytes[12] = 0x08;  // Ethernet type: IPv4
  bytes[14] = 0x45;  // version 4, header of 20 bytes
  bytes[17] = 86;    // total length
  bytes[23] = 6;     // TCP
  bytes[34] = 0x30;  // source port 12345
  bytes[35] = 0x39;
  bytes[37] = 22;    // destination port
  bytes[46] = 0x50;  // TCP header of 20 bytes
  return bytes;
}

}  // namespace srun::bench
