#pragma once
// What the layers of a stack say about one call number when not all arguments are known.
#include <optional>
#include <string>
#include <vector>

#include "bpf/rules.h"
#include "kernel/arch.h"
#include "policy/enforcement.h"

namespace srun::tool {

// Arguments as far as they are known.
struct KnownArguments {
  uint64_t values[6] = {};
  bool known[6] = {};
};

// A verdict that a layer may come to; `rule` nullptr: no rule with conditions matches.
struct Candidate {
  bpf::VerdictId verdict = 0;
  const bpf::ArgRule* rule = nullptr;
};
// In order; just one if the known arguments decide.
std::vector<Candidate> candidates(const bpf::Layer& layer, uint32_t audit_arch, uint32_t number,
                                  const KnownArguments& arguments);

// The verdict of the stack if it is the same whatever the unknown arguments are: told by strength, so that a layer
// which can only be overruled does not count.
std::optional<bpf::VerdictId> certain_verdict(const policy::Enforcement& enforcement, uint32_t audit_arch,
                                              uint32_t number, const KnownArguments& arguments);

// "arg0 == 2", "(arg0 & 0x7e020000) == 0", "arg2 in 3, 9"; several are joined with " and ". Empty list: "always".
std::string conditions_text(const std::vector<bpf::ArgTest>& tests);

}  // namespace srun::tool
