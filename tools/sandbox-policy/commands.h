#pragma once
// The commands of sandbox-policy. Each writes its answer to standard output and what is wrong to standard error.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/arch.h"
#include "sandbox-policy/program_text.h"

namespace srun::tool {

enum ExitCode : int {
  kFine = 0,
  kFinding = 1,      // check: a warning; explain, dump: the call is refused, or may be
  kBadPolicy = 125,  // a policy that cannot be used, or a mistake on the command line
};

// Policies are named as for sandbox-run: FILE, NAME, "none", or several joined with commas, oldest layer first.
int list_policies();
// NAME, FILE or "@GROUP". `effective`: what every call gets, the guard layer and conditions of OCI profiles included.
int show(const std::string& what, bool effective, kernel::Arch arch);
int check(const std::vector<std::string>& files, bool notes);
int explain(const std::string& policy, const std::string& call, const std::vector<std::string>& arguments,
            kernel::Arch arch, bool x32);
int disassemble(const std::string& policy, bool copy, kernel::Arch arch, OutputFormat format);
// A program file in place of a policy. `packet`: it is one for packets, not for system calls.
int disassemble_file(const std::string& file, bool packet, OutputFormat format);
// The filters of a running process, or what they do to one call. `layer`: only that one, 1 is the oldest; 0: all.
int dump(const std::string& process, const std::string& call, const std::vector<std::string>& arguments,
         kernel::Arch arch, bool x32, OutputFormat format, unsigned layer);
int import_oci(const std::string& file, const std::string& output);
int print_schema();

std::string_view schema_text();

}  // namespace srun::tool
