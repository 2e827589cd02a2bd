#pragma once
// What lowering makes of the policies: everything that the launcher, the supervisor and the report need, as data.
// Built once before launch, then read-only; shared by all threads.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/compiler.h"
#include "bpf/verdict_cache.h"
#include "policy/files.h"
#include "policy/landlock_plan.h"
#include "policy/network.h"

namespace srun::policy {

// Where a rule stands, for denials. `layer` indexes Enforcement::layers.
struct RuleRef {
  uint16_t layer = 0;
  std::string file;     // as shown to the user: "ci.json", "(command line)", "(guard layer)", "docker-default"
  uint32_t line = 0;    // 1-based; 0: no line (built in)
  std::string pointer;  // "#/syscalls/3"; "#/default"; for the guard layer its part: "namespaces"
  std::string reason;   // the rule's "reason", may be empty
  bool is_default = false;  // nothing matched: `default` or the implicit default decided
  bool newer_than_table = false;  // the number is unknown to the table (or the OCI profile): ENOSYS
};

enum class Action : uint8_t { kAllow, kLog, kReturn, kErrno, kTrap, kKill, kCheck };

// Acts that only the supervisor can decide. From scalars: is the process named in the arguments a member (H4, H6)? From
// memory: which file or address is meant; those are denied, done on behalf, or left to a kernel that enforces the same.
// What "continue" means for each is documented where the supervisor answers.
enum class Check : uint8_t {
  kNone,
  kPidArgument0,        // kill(pid…), sched_set*(pid…): 0 is self
  kTgidTid,             // tgkill(tgid, tid, …)
  kPriority,            // setpriority/ioprio_set(which, who, …)
  kPtrace,              // ptrace(request, pid, …)
  kKill,                // kill(pid, …) with 0, -1 and groups expanded over members
  kAffinity,            // sched_getaffinity/sched_setaffinity: answered from the task's own mask (H21)
  kOwnerArgument2,      // fcntl(fd, F_SETOWN, owner): a pid, or a process group if negative; 0 never comes here
  kFile,                // a call that names or changes a file: the file broker decides by FileEnforcement::matcher
  kNetwork,             // a call on a socket: the network broker decides
};

struct Verdict {
  Action action = Action::kAllow;
  Check check = Check::kNone;
  int32_t value = 0;      // errno for kErrno (positive), the value for kReturn, the data for kTrap
  bool quiet = false;     // decided in the kernel, not reported
  bool notified = false;  // the kernel's program asks the supervisor (USER_NOTIF)
  // --audit: what the rule would have done; then `action` is kLog and `value` is that of the audited action.
  // kAllow: nothing is audited.
  Action audited = Action::kAllow;
  RuleRef rule;
};

struct LayerInfo {
  std::string name;         // file or NAME as given; "(guard layer)"
  std::string description;
  bool oci = false;
};

// One layer's rules for variables, applied by apply_environment() (policy/environment.h): what matches `drop` and not
// `keep` goes, then `set` is put in. A policy with `keep` and no `drop` means "nothing else" and has "*" in `drop`.
struct EnvironmentRules {
  std::vector<std::string> keep;   // patterns with * and ?
  std::vector<std::string> drop;   // the same, @secrets already expanded
  std::vector<std::pair<std::string, std::string>> set;
};

// The copy's return value is action | index into `verdicts`; so an answer is found without searching.
struct Enforcement {
  std::vector<LayerInfo> layers;     // guard layer first, then policies in command-line order
  std::vector<Verdict> verdicts;
  std::vector<bpf::VerdictReturn> returns;  // parallel to verdicts
  std::vector<bpf::Layer> rules;     // parallel to layers: for explain, tests and the fix check
  std::optional<bpf::CompiledStack> programs;  // always set by lower()
  std::vector<EnvironmentRules> environment;  // applied one after the other; empty: not restricted
  FileEnforcement files;
  NetworkEnforcement network;
  LandlockPlan landlock;                  // files and ports; the launcher adds the scopes that the host has
  std::vector<std::string> unrestricted;  // parts no layer restricts (H42): "files", "network", …
  std::vector<std::string> warnings;      // told at every run: what a policy lifted from the guard layer
  std::vector<std::string> notes;         // what was left out and what deserves a look, one line each, for --check
  std::string display_name;               // for SANDBOX_RUN=
  bool audit = false;                     // --audit: only the guard layer is enforced, the rest is reported
};

}  // namespace srun::policy
