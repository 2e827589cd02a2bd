#pragma once
// FileMatcher for a stack of `files` sections. Of the entries that speak about an act, the most specific one decides:
// one whose pattern matches the object itself beats one that matches a directory above it, a deeper directory a
// shallower one; of equals deny wins over read-only, over log, over the grants (H39). The strictest layer decides.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/file_rules.h"
#include "policy/files.h"
#include "policy/stack.h"

namespace srun::policy {

// How many leading components of `path` the pattern matches: the more, the more specific. -1: it matches neither the
// path nor a directory above it. `pattern` is absolute; "*" and "?" stay within a component, "**" does not.
int match_depth(std::string_view pattern, std::string_view path);

struct FileLayer {
  const FilesSection* section = nullptr;
  // Verdicts: one per entry, and one per verb for what no entry matches (read, write, execute).
  std::vector<bpf::VerdictId> entries;
  std::array<bpf::VerdictId, 3> unmatched{};
};

struct KernelFiles;  // kernel_files.h

struct FileMatcherOptions {
  bool audit = false;                         // nothing is denied: what would be comes back as kLog with kernel_grants
  std::shared_ptr<const KernelFiles> kernel;  // for kernel_grants; absent: the kernel enforces nothing but executing
};

// The sections of a stack, without verdicts: for questions that need none.
std::vector<FileLayer> file_layers(const PolicyStack& stack);

std::shared_ptr<const FileMatcher> make_file_matcher(const std::vector<FileLayer>& layers,
                                                     const FileMatcherOptions& options);

}  // namespace srun::policy
