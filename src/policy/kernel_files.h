#pragma once
// Which part of the files sections the kernel enforces alone, so that nobody has to be asked about it: grants by
// Landlock, and what is taken away below them by masks in a private mount namespace (or, where there is none, by
// granting around it). What this can't say exactly is said so, and the supervisor serves it.
#include <string>
#include <vector>

#include "policy/file_matcher.h"
#include "policy/files.h"
#include "policy/lowering_options.h"

namespace srun::policy {

struct KernelGrant {
  std::string path;  // canonical, exists
  bool directory = false;
  bool read = false;
  bool write = false;
  std::vector<std::string> except;  // not to be read: granted around
};

struct KernelFiles {
  bool used = false;           // false: every call is asked about and served on behalf
  std::string why_not;         // one line, then
  bool reads_handled = false;  // reading is restricted by Landlock; else it is free but for masks
  bool reads_exact = true;     // all that the sections let be read, the kernel lets be read
  bool writes_exact = true;
  bool guards_names =
      false;  // something is taken away below a place for writing: moving its parents must be asked (H2)
  std::vector<KernelGrant> grants;
  std::vector<Mask> masks;  // in the order of making

  // The kernel alone lets `access` to `path` (canonical) pass. Only asked about what the sections allow.
  bool grants_all(std::string_view path, FileAccess access) const;
};

// `layers`: all sections of the stack; their verdicts are not looked at.
KernelFiles plan_kernel_files(const std::vector<FileLayer>& layers, const LoweringOptions& options);

// LANDLOCK_ACCESS_FS_* (linux/landlock.h) of a grant, all known from ABI 3 on; what a file cannot have is left out at
// launch.
uint64_t landlock_rights(const KernelGrant& grant);
uint64_t landlock_handled(const KernelFiles& files);

}  // namespace srun::policy
