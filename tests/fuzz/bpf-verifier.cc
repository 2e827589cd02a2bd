// Our verifier against the running kernel's: SO_ATTACH_FILTER accepts what we accept for packets and refuses what we
// refuse. Where attaching is not permitted, what the verifier accepts is only run.
#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "bpf/converter.h"
#include "bpf/packet.h"
#include "bpf/program.h"
#include "bpf/reference.h"
#include "fuzz_input.h"

using namespace srun;

namespace {

int attach(int socket, const std::vector<bpf::Instruction>& code) {
  std::vector<sock_filter> copy(code.size());
  if (!code.empty()) std::memcpy(copy.data(), code.data(), code.size() * sizeof(sock_filter));
  const sock_fprog program{static_cast<unsigned short>(copy.size()), copy.data()};
  return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 ? 0 : errno;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // What is left over after whole instructions says how the opcodes are meant: mostly valid ones reach further.
  std::vector<bpf::Instruction> code(size / sizeof(bpf::Instruction));
  if (code.size() > 300) return 0;  // a larger program fails for lack of option memory (net.core.optmem_max)
  if (!code.empty()) std::memcpy(code.data(), data, code.size() * sizeof(bpf::Instruction));
  if (size % sizeof(bpf::Instruction) != 0) {
    for (size_t i = 0; i < code.size(); ++i) {
      code[i].code &= 0x00ff;
      const auto left = static_cast<uint32_t>(code.size() - i);
      if ((code[i].code & 7) == BPF_JMP) {
        code[i].jt = static_cast<uint8_t>(code[i].jt % left);
        code[i].jf = static_cast<uint8_t>(code[i].jf % left);
        if (code[i].code == (BPF_JMP | BPF_JA)) code[i].k %= left;
      }
    }
    if (!code.empty()) code.back() = {BPF_RET | BPF_K, 0, 0, 1};
  }

  const Result<bpf::Program, bpf::VerifyError> ours = bpf::verify(code, bpf::Flavour::kPacket);
  const int kernels = attach(socket, code);
  if (kernels == 0 || kernels == EINVAL) {
    // The kernel's conversion refuses some verified programs with the same errno.
    const bool accepted = ours.has_value() && bpf::kernel_converted_length(*ours).has_value();
    fuzz::require(accepted == (kernels == 0), "the kernel's verifier answers as ours");
  }
  if (ours) {
    const uint8_t bytes[64] = {0x45, 0, 0, 40};
    static_cast<void>(bpf::run_reference(*ours, bpf::Packet(bytes, sizeof bytes)));
  }
  const Result<bpf::Program, bpf::VerifyError> seccomp = bpf::verify(code, bpf::Flavour::kSeccomp);
  fuzz::require(!seccomp || ours, "what verifies for seccomp verifies for packets");
  if (seccomp) static_cast<void>(bpf::run_reference(*seccomp, bpf::CallData{}));
  return 0;
}
