// The running kernel as the oracle: needs no data file. Its own executable, because a host may refuse filters (exit
// 77).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"
#include "bpf/converter.h"
#include "bpf/reference.h"
#include "support/bpf_assembler.h"
#include "support/bpf_random.h"

namespace srun::bpf::test {
namespace {

constexpr uint32_t kPacketBytes = 300;
constexpr int kUnusedCall = 1000;

sock_fprog kernel_program(const Code& code) {
  static_assert(sizeof(Instruction) == sizeof(sock_filter));
  // The kernel only reads it; the field is not const for historical reasons.
  return {static_cast<uint16_t>(code.size()), reinterpret_cast<sock_filter*>(const_cast<Instruction*>(code.data()))};
}

// --- packets: what is received is the datagram cut to the filter's result.

class PacketKernel {
 public:
  PacketKernel() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0) return;
    sender_ = UniqueFd(pair[0]);
    receiver_ = UniqueFd(pair[1]);
  }

  // 0, or the errno of SO_ATTACH_FILTER.
  int attach(const Code& code) {
    const sock_fprog program = kernel_program(code);
    return ::setsockopt(receiver_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 ? 0 : errno;
  }

  // min(result, packet length); 0 when dropped.
  uint32_t run(const std::vector<uint8_t>& packet) {
    if (::send(sender_.get(), packet.data(), packet.size(), MSG_DONTWAIT) < 0) return ~uint32_t{0};
    uint8_t buffer[kPacketBytes];
    const ssize_t received = ::recv(receiver_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return received < 0 ? 0 : static_cast<uint32_t>(received);
  }

 private:
  UniqueFd sender_;
  UniqueFd receiver_;
};

// RET A becomes a jump to an epilogue that returns one byte of A, plus 1 to tell it from a drop. RET K stays.
Code with_byte_epilogue(const Code& body, uint32_t byte) {
  Code code = body;
  const uint32_t epilogue = static_cast<uint32_t>(code.size());
  for (uint32_t pc = 0; pc < epilogue; ++pc) {
    if (code[pc].code == kRetA) code[pc] = stmt(kJa, epilogue - pc - 1);
  }
  for (const Instruction& insn : {stmt(kRshK, 8 * byte), stmt(kAndK, 255), stmt(kAddK, 1), ret_a()})
    code.push_back(insn);
  return code;
}

// --- seccomp: every return is a TRAP whose si_errno carries 16 bits.

struct SharedPage {
  volatile uint32_t done;         // calls answered by a signal
  volatile uint32_t setup_error;  // errno of prctl or seccomp in the child, 0 if none
  volatile uint64_t address;      // instruction pointer of the last trapped call
  volatile uint32_t data[64];     // si_errno per call
};

SharedPage* shared_page() {
  static SharedPage* page = [] {
    void* memory = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<SharedPage*>(memory);
  }();
  return page;
}

void on_sigsys(int, siginfo_t* info, void*) {
  SharedPage& page = *shared_page();
  page.data[page.done] = static_cast<uint32_t>(info->si_errno);
  page.address = reinterpret_cast<uint64_t>(info->si_call_addr);
}

// A = 0 again after the test of the number, so that the body starts as the kernel starts a program.
Code with_trap_epilogue(const Code& body) {
  Code code{stmt(kLdAbsW, 0), jump(kJeqK, kUnusedCall, 1, 0), ret(kRetAllow), stmt(kLdImm, 0)};
  const uint32_t start = static_cast<uint32_t>(code.size());
  code.insert(code.end(), body.begin(), body.end());
  const uint32_t epilogue = static_cast<uint32_t>(code.size());
  for (uint32_t pc = start; pc < epilogue; ++pc) {
    if (code[pc].code == kRetA) code[pc] = stmt(kJa, epilogue - pc - 1);
    if (code[pc].code == kRetK) code[pc].k = kRetTrap | (code[pc].k & kRetDataMask);
  }
  // The last argument tells which half of A is wanted.
  for (const Instruction& insn : {stmt(kSt, 15), stmt(kLdAbsW, 56), stmt(kTax), stmt(kLdMem, 15), stmt(kRshX),
                                  stmt(kAndK, kRetDataMask), stmt(kOrK, kRetTrap), ret_a()}) {
    code.push_back(insn);
  }
  return code;
}

__attribute__((noinline)) void trapped_call(const CallData& call) {
  const uint64_t(&a)[6] = call.args;
  ::syscall(kUnusedCall, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// In the child: no doctest, no allocation.
[[noreturn]] void run_calls(const Code& code, std::span<const CallData> calls, uint32_t first) {
  SharedPage& page = *shared_page();
  struct sigaction action {};
  action.sa_sigaction = on_sigsys;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  const sock_fprog program = kernel_program(code);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    page.setup_error = static_cast<uint32_t>(errno);
    ::_exit(1);
  }
  for (uint32_t i = first; i < calls.size(); ++i) {
    trapped_call(calls[i]);
    page.done = i + 1;
  }
  ::_exit(0);
}

struct Answer {
  bool killed = false;
  uint32_t data = 0;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// One child per program, and one more after each call that killed it.
std::vector<Answer> seccomp_kernel(const Code& code, std::span<const CallData> calls) {
  SharedPage& page = *shared_page();
  std::vector<Answer> answers;
  page.setup_error = 0;
  while (answers.size() < calls.size()) {
    const uint32_t first = static_cast<uint32_t>(answers.size());
    page.done = first;
    const pid_t child = ::fork();
    if (child == 0) run_calls(code, calls, first);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || page.setup_error != 0) return {};
    for (uint32_t i = first; i < page.done; ++i) answers.push_back({false, page.data[i]});
    if (WIFSIGNALED(status)) {
      if (WTERMSIG(status) != SIGSYS) return {};
      answers.push_back({true, 0});
    }
  }
  return answers;
}

Answer expected_answer(const Program& program, const CallData& call) {
  const uint32_t value = run_reference(program, call);
  if ((value & kRetActionMask) == kRetTrap) return {false, value & kRetDataMask};
  return {true, 0};  // X = 0 in a division: 0 is KILL_THREAD
}

Program verified(const Code& code, Flavour flavour) {
  Result<Program, VerifyError> program = verify(code, flavour);
  REQUIRE(program.has_value());
  return std::move(*program);
}

uint64_t call_address() {
  static const uint64_t address = [] {
    const CallData call;
    seccomp_kernel(with_trap_epilogue({ret(0)}), {&call, 1});
    return shared_page()->address;
  }();
  return address;
}

}  // namespace

TEST_CASE("live kernel: 1,200 random packet programs give the reference's result, byte by byte") {
  PacketKernel kernel;
  Random random(0x5eed0001);
  ProgramShape shape;
  shape.flavour = Flavour::kPacket;
  shape.max_length = 80;
  shape.negative_offsets = false;
  shape.packet_length = 80;
  uint32_t dropped = 0;
  uint32_t kept = 0;
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    const Code body = random_program(random, shape);
    const std::vector<uint8_t> packets[2] = {random_packet(random, body, kPacketBytes),
                                             random_packet(random, body, 60)};
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const Code code = with_byte_epilogue(body, byte);
      const Program program = verified(code, Flavour::kPacket);
      REQUIRE(kernel.attach(code) == 0);
      for (const std::vector<uint8_t>& packet : packets) {
        const uint32_t result = run_reference(program, Packet(packet));
        REQUIRE(kernel.run(packet) == std::min<uint32_t>(result, static_cast<uint32_t>(packet.size())));
        ++(result == 0 ? dropped : kept);
      }
    }
  }
  // Both outcomes must be common, or the comparison says little.
  CHECK(dropped > 1000);
  CHECK(kept > 1000);
}

TEST_CASE("live kernel: words of the buffer without a device are 0, or end the program, as in the reference") {
  PacketKernel kernel;
  const std::vector<uint8_t> packet(100, 7);
  for (uint32_t which = 0; which < kAncillaryCount; ++which) {
    const Ancillary ancillary = static_cast<Ancillary>(which);
    if (!ancillary_supported(ancillary) || ancillary == Ancillary::kCpu || ancillary == Ancillary::kRandom) continue;
    CAPTURE(which);
    const Code code{stmt(kLdxImm, 5), stmt(kLdImm, 44), stmt(kLdAbsW, kAncillaryBase + 4 * which), stmt(kAddK, 1),
                    ret_a()};
    REQUIRE(kernel.attach(code) == 0);
    CHECK(kernel.run(packet) == run_reference(verified(code, Flavour::kPacket), Packet(packet)));
  }
}

TEST_CASE("live kernel: 1,200 random seccomp programs give the reference's result in both halves") {
  Random random(0x5eed0002);
  ProgramShape shape;
  shape.max_length = 80;
  uint32_t killed = 0;
  uint32_t trapped = 0;
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    const Code code = with_trap_epilogue(random_program(random, shape));
    const Program program = verified(code, Flavour::kSeccomp);
    std::vector<CallData> calls(6);
    for (size_t j = 0; j < calls.size(); ++j) {
      // Both halves of A for the same other arguments.
      calls[j] = j % 2 == 0 ? random_call(random, code) : calls[j - 1];
      calls[j].nr = kUnusedCall;
      calls[j].arch = 0xc000003e;
      calls[j].instruction_pointer = call_address();
      calls[j].args[5] = j % 2 == 0 ? 0 : 16;
    }
    const std::vector<Answer> answers = seccomp_kernel(code, calls);
    REQUIRE(answers.size() == calls.size());
    for (size_t j = 0; j < calls.size(); ++j) {
      CAPTURE(j);
      REQUIRE(answers[j] == expected_answer(program, calls[j]));
      ++(answers[j].killed ? killed : trapped);
    }
  }
  CHECK(trapped > 3000);
  CHECK(killed > 0);
}

TEST_CASE("live kernel: 3,000 damaged programs are accepted or refused as by the verifier, in the packet flavour") {
  PacketKernel kernel;
  Random random(0x5eed0003);
  ProgramShape shape;
  shape.flavour = Flavour::kPacket;
  shape.max_length = 30;
  uint32_t refused = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    Code code = random_program(random, shape);
    Instruction& victim = code[random.below(static_cast<uint32_t>(code.size()))];
    switch (random.below(4)) {
      case 0:
        victim.code = static_cast<uint16_t>(random.below(256));
        break;
      case 1:
        victim.jt = static_cast<uint8_t>(random.below(40));
        break;
      case 2:
        victim.jf = static_cast<uint8_t>(random.below(40));
        break;
      default:
        victim.k = random.value();
        break;
    }
    const bool accepted = verify(code, Flavour::kPacket).has_value();
    REQUIRE(kernel.attach(code) == (accepted ? 0 : EINVAL));
    refused += !accepted;
  }
  CHECK(refused > 300);
}

TEST_CASE("live kernel: the longest jump over converted code is where the converter says") {
  PacketKernel kernel;
  // MSH at a constant offset becomes the longest sequence, so a jump over about 1,700 of them is the limit.
  const auto code_of = [](uint32_t loads, uint32_t offset) {
    Code code{stmt(kJa, loads)};
    code.insert(code.end(), loads, stmt(kLdxMsh, offset));
    code.push_back(ret(0));
    return code;
  };
  for (const uint32_t offset : {0u, 1u, 40000u, 0xfff00000u}) {
    CAPTURE(offset);
    uint32_t fits = 1000;
    while (kernel_converted_length(verified(code_of(fits + 1, offset), Flavour::kPacket)).has_value()) ++fits;
    CAPTURE(fits);
    const int largest = kernel.attach(code_of(fits, offset));
    // ENOMEM: the socket option memory limit of this host is too small to tell.
    if (largest == ENOMEM) continue;
    CHECK(largest == 0);
    CHECK(kernel.attach(code_of(fits + 1, offset)) == EINVAL);
  }
}

}  // namespace srun::bpf::test

int main(int argc, char** argv) {
  using namespace srun::bpf::test;
  const srun::bpf::CallData call;
  PacketKernel packets;
  if (shared_page() == nullptr || packets.attach({ret(0)}) != 0 ||
      seccomp_kernel(with_trap_epilogue({ret(0)}), {&call, 1}).empty()) {
    std::fputs("skipped: this host does not let us attach socket and seccomp filters\n", stderr);
    return std::getenv("SANDBOX_RUN_MUST_WORK") != nullptr ? 1 : 77;
  }
  return doctest::Context(argc, argv).run();
}
