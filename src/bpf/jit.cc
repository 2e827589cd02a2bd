#include "bpf/jit.h"

#include <cstring>
#include <exception>
#include <vector>

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "bpf/jit/assembler.h"
#define SRUN_HAS_JIT 1
#else
#define SRUN_HAS_JIT 0
#endif

namespace srun::bpf {
namespace {

#if SRUN_HAS_JIT

// The bytes of a function uint32_t(const void* context) in the System V calling convention, independent of their
// address. Throws what the assembler throws.
Result<std::vector<uint8_t>> assemble(const isa::Code& code, const JitOptions& options) {
  // Ample for compiled programs; one that needs more is assembled again into twice as much.
  size_t room = 4096 + 64 * code.insns.size();
  for (const SwitchArms& arms : code.switches) room += 64 * arms.size();
  for (;; room *= 2) {
    std::vector<uint8_t> buffer(room);
    try {
      jit::Assembler assembler(code, options.blind_constants, buffer);
      buffer.resize(assembler.run());
      if (assembler.keys_failed())
        return failure(Error::from_text("getrandom", "machine code", "no keys for blinding"));
      return buffer;
    } catch (const Xbyak::Error& error) {
      if (static_cast<int>(error) != Xbyak::ERR_CODE_IS_TOO_BIG) throw;
    }
  }
}

#else

Result<std::vector<uint8_t>> assemble(const isa::Code&, const JitOptions&) {
  return failure(Error::from_text("assemble", "machine code", "this build has no JIT: not x86-64, or without Xbyak"));
}

#endif

}  // namespace

bool jit_available() { return SRUN_HAS_JIT != 0; }

JitCode::JitCode(ExecutableMemory memory) : memory_(std::move(memory)), entry_(nullptr) {
  // ISO C++ has no cast from a data to a function pointer; POSIX (dlsym) requires that the bits agree.
  const void* address = memory_.entry();
  static_assert(sizeof entry_ == sizeof address);
  std::memcpy(&entry_, &address, sizeof entry_);
}

Result<JitCode> JitCode::compile(const isa::Code& code, const JitOptions& options) {
  // The assembler and the containers report by exceptions, which end here.
  try {
    Result<std::vector<uint8_t>> bytes = assemble(code, options);
    if (!bytes) return failure(std::move(bytes.error()));
    Result<ExecutableMemory> memory = ExecutableMemory::make(*bytes);
    if (!memory) return failure(std::move(memory.error()));
    return JitCode(std::move(*memory));
  } catch (const std::exception& error) {
    return failure(Error::from_text("assemble", "machine code", error.what()));
  }
}

}  // namespace srun::bpf
