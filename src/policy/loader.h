#pragma once
// Command line → stack: finds, reads, parses and composes the policies of a run.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "policy/file_rules.h"
#include "policy/network_rules.h"
#include "policy/oci.h"
#include "policy/policy_error.h"
#include "policy/policy_paths.h"
#include "policy/stack.h"

namespace srun::policy {

// Options that add to the last --policy as a file that extends it would: they come before its rules, and earlier
// layers keep the last word. Beside an OCI profile or `none` they are a layer of their own that only takes away.
struct QuickFlags {
  NetworkFlags network;          // --net and --listen
  std::vector<std::string> env;  // --env NAME|GLOB|NAME=VALUE
  // --read and --write; --read-only and --deny are a layer of their own, so that they win over every grant.
  struct File {
    FileVerb verb = FileVerb::kRead;
    std::string path;
  };
  std::vector<File> files;

  bool any() const { return network.any() || !env.empty() || !files.empty(); }
};

struct LoadOptions {
  OciEnvironment oci;
  // Where NAMEs are looked up; absent: PolicyDirectories::of_this_process().
  std::optional<PolicyDirectories> directories;
  // What "~/" and variables of the files section stand for; absent: FileContext::of_this_process().
  std::optional<FileContext> files;
};

// `policy_args` as given: FILE, NAME or "none", oldest layer first. None at all is an error that says what to give.
[[nodiscard]] Result<PolicyStack, PolicyError> load_stack(std::span<const std::string> policy_args,
                                                          const QuickFlags& quick, const LoadOptions& options);

// H14: where files are restricted, the files that the policies were read from and `outputs` (existing paths) are
// read-only for the program, by a layer of their own.
void protect_files(PolicyStack& stack, const std::vector<std::string>& outputs);

}  // namespace srun::policy
