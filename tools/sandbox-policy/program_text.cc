#include "sandbox-policy/program_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "kernel/syscall_table.h"

namespace srun::tool {
namespace {

// 4096 instructions take some 180 KiB as a commented C array; more than this is no filter program.
constexpr size_t kLargestFile = size_t{4} << 20;

}  // namespace

bpf::DisassemblyOptions names_of_calls() {
  bpf::DisassemblyOptions options;
  options.call_name = [](uint32_t audit_arch, uint32_t number) {
    const auto known = kernel::arch_from_audit(audit_arch);
    const kernel::Syscall* call = known ? kernel::find_syscall(*known, number) : nullptr;
    return call == nullptr ? std::string() : std::string(call->name);
  };
  return options;
}

std::string program_text(std::span<const bpf::Instruction> code, OutputFormat format,
                         const bpf::DisassemblyOptions& options) {
  return format ? bpf::write_program(code, *format) : bpf::disassemble(code, options);
}

Result<std::vector<bpf::Instruction>> read_program_file(const std::string& path) {
  UniqueFd file(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return errno_failure(errno, "open", path);
  std::string bytes;
  char buffer[65536];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_failure(errno, "read", path);
    if (got == 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
    if (bytes.size() > kLargestFile) return failure(Error::from_text("read filter program", path, "larger than 4 MiB"));
  }
  auto code = bpf::read_program(bytes, bpf::guess_format(bytes));
  if (!code) return failure(Error::from_text("read filter program", path, code.error().detail));
  return code;
}

}  // namespace srun::tool
