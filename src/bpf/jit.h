#pragma once
#include <cstdint>

#include "base/error.h"
#include "bpf/executable_memory.h"
#include "bpf/isa.h"

namespace srun::bpf {

struct JitOptions {
  // No constant of the program appears in the machine code as it is, so that whoever wrote the program cannot place
  // bytes of his choice in executable pages. For programs that are not our own; costs speed.
  bool blind_constants = false;
};

// False on processors other than x86-64 and in builds without the assembler.
bool jit_available();

// Machine code of an internal program. Immutable; runs on any number of threads at once.
class JitCode {
 public:
  // Errors: no JIT in this build, or the pages were refused. The caller then uses the interpreter.
  static Result<JitCode> compile(const isa::Code& code, const JitOptions& options = {});

  // `context` is a const CallData* or const Packet*, by the flavour of the code. Never fails.
  uint32_t run(const void* context) const noexcept { return entry_(context); }

  std::span<const uint8_t> machine_code() const {
    return {static_cast<const uint8_t*>(memory_.entry()), memory_.size()};
  }

 private:
  using Entry = uint32_t (*)(const void* context);
  explicit JitCode(ExecutableMemory memory);
  ExecutableMemory memory_;
  Entry entry_;
};

}  // namespace srun::bpf
