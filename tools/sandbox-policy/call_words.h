#pragma once
// One system call as somebody writes it on a command line: a name or number, then arguments as far as they are known.
#include <string>
#include <vector>

#include "bpf/instruction.h"
#include "bpf/kernel_bitmap.h"
#include "bpf/packet.h"
#include "kernel/arch.h"
#include "kernel/features.h"
#include "kernel/syscall_table.h"
#include "sandbox-policy/evaluate.h"

namespace srun::tool {

struct CallWords {
  uint32_t audit = 0;
  uint32_t number = 0;
  const kernel::Syscall* known = nullptr;
  KnownArguments arguments;
  std::vector<std::string> texts;  // given for pointers, as written

  bpf::CallData data() const;  // unknown arguments are 0
};

// False: complained about what is wrong. `x32`: the number gets x32's bit.
[[nodiscard]] bool read_call(const std::string& name, kernel::Arch arch, bool x32, CallWords& call);
// After read_call(). "_" leaves an argument unknown, a text stands for a pointer to it, a path may leave out AT_FDCWD.
[[nodiscard]] bool read_arguments(const std::vector<std::string>& words, CallWords& call);

// What the kernel of this host, of that version, keeps in its bitmap of allowed calls.
bpf::KernelBitmapRules host_bitmap_rules(const kernel::KernelVersion& version);

}  // namespace srun::tool
