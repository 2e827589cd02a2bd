#pragma once
// What a policy means for one call, by reading its rules. Knows nothing of programs, so that tests can hold the lowered
// rules, the programs and the kernel against it, and a suggested fix can be tried before it is printed.
#include "bpf/instruction.h"
#include "kernel/syscall_table.h"
#include "policy/enforcement.h"
#include "policy/lowering_options.h"
#include "policy/model.h"

namespace srun::policy {

// The first rule that decides `call` with these arguments; nullptr: none does.
const Rule* first_match(const Policy& policy, const kernel::Syscall& call, const uint64_t (&args)[6]);

// The verdict of one layer. `layer` is its index in the stack, 0 being the guard's. `notified` is not settled here: it
// is part of how a verdict is carried out, not of what it says.
Verdict match(const Policy& policy, uint16_t layer, const LoweringOptions& options, const bpf::CallData& call);

// True if the verdict of an earlier layer stands against that of a later one: the stricter wins, the later one on a
// tie.
bool stands(const Verdict& earlier, const Verdict& later);

}  // namespace srun::policy
