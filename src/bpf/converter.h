#pragma once
#include "base/error.h"
#include "bpf/isa.h"
#include "bpf/program.h"

namespace srun::bpf {

struct ConvertOptions {
  bool clean_up = true;  // the lossless passes; off only to compare
  bool lower = true;     // wide compares, switches, shared bounds checks; off only to compare
};

// Verified program → internal code with the same result on every input. Never fails: the internal set has room for
// everything that verifies.
isa::Code convert(const Program& program, const ConvertOptions& options = {});

// The kernel's conversion of the same program (bpf_convert_filter, Linux 6.18) can refuse what its verifier accepts,
// because its jump offsets have 16 bits.
struct ConversionError {
  uint32_t instruction;  // the classic jump that would not fit
  friend bool operator==(const ConversionError&, const ConversionError&) = default;
  std::string message() const;
};
// The length that the kernel's conversion gives the program, or the jump for which it answers EINVAL. The kernel's
// limit of 32768 for a path of seccomp filters counts these lengths plus 4 for each older filter.
[[nodiscard]] Result<uint32_t, ConversionError> kernel_converted_length(const Program& program);

}  // namespace srun::bpf
