#pragma once
// A verified classic program. Holding one is the proof that the kernel's verifier would accept it.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bpf/instruction.h"

namespace srun::bpf {

enum class Flavour : uint8_t { kPacket, kSeccomp };

struct VerifyError {
  enum class Kind : uint8_t {
    kLength,        // 0 or more than 4096 instructions
    kOpcode,        // not one of the kernel's opcodes (or not allowed for seccomp)
    kDivideByZero,  // DIV or MOD by the constant 0
    kShift,         // constant shift of 32 or more
    kScratchIndex,  // M[k] with k >= 16
    kJump,          // target outside the program
    kLoadOffset,    // ancillary offset unknown (packet); not word-aligned or beyond seccomp_data (seccomp)
    kNoReturn,      // the last instruction does not return
    kUninitialised  // scratch word read before it is written
  };
  Kind kind;
  uint32_t instruction;
  friend bool operator==(const VerifyError&, const VerifyError&) = default;
  std::string message() const;
};

class Program {
 public:
  std::span<const Instruction> code() const { return code_; }
  Flavour flavour() const { return flavour_; }

 private:
  friend Result<Program, VerifyError> verify(std::span<const Instruction> code, Flavour flavour);
  Program(std::vector<Instruction> code, Flavour flavour) : code_(std::move(code)), flavour_(flavour) {}
  std::vector<Instruction> code_;
  Flavour flavour_;
};

// The exact rules of bpf_check_classic and seccomp_check_filter (net/core/filter.c, kernel/seccomp.c, Linux 6.18).
[[nodiscard]] Result<Program, VerifyError> verify(std::span<const Instruction> code, Flavour flavour);

}  // namespace srun::bpf
