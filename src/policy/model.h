#pragma once
// What a policy in our own language says, after names are resolved and before anything is lowered. Plain data.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/rules.h"
#include "kernel/syscall_table.h"
#include "policy/enforcement.h"
#include "policy/file_rules.h"
#include "policy/network.h"

namespace srun::policy {

// Where something stands, for messages.
struct Place {
  std::string file;
  uint32_t line = 0;
  std::string pointer;
};

struct ActionSpec {
  Action action = Action::kAllow;
  int32_t value = 0;            // as in Verdict
  Check check = Check::kNone;   // only the guard layer has kCheck
  friend bool operator==(const ActionSpec&, const ActionSpec&) = default;
};

// A call that a rule covers. Every call of the table, whichever architectures have it.
struct RuleCall {
  const kernel::Syscall* call = nullptr;
  bool by_name = false;  // written out, not taken from a group
};

struct Rule {
  std::vector<RuleCall> calls;      // no duplicates
  std::vector<bpf::ArgTest> when;   // all required; empty: always
  ActionSpec action;
  bool quiet = false;
  std::string reason;
  Place place;
};

struct DefaultAction {
  ActionSpec action;
  Place place;
};

// A part of the guard layer that the policy lifts.
struct UnsafeEntry {
  std::string part;
  Place place;
};

// One layer: a file with everything that it extends, own parts first.
struct Policy {
  std::string name;         // as given on the command line
  std::string description;
  bool installed = false;   // found by NAME among the installed policies: not for editing
  std::optional<DefaultAction> default_action;  // absent: EPERM
  Place syscalls_place;       // the nearest list of rules, or the file: for what no rule matches
  bool has_syscalls = false;  // false: @baseline is allowed and `default` decides the rest
  std::vector<Rule> rules;    // the first that matches decides
  // True for layers that only take away (the guard, quick flags beside an OCI profile): what no rule matches passes.
  bool open_ended = false;
  std::optional<FilesSection> files;
  std::optional<NetworkSection> network;
  std::optional<EnvironmentRules> environment;
  std::vector<UnsafeEntry> unsafe;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // of the files section: what does not exist
  std::vector<std::string> sources;  // canonical paths of the files that it was read from
};

// True if the policy itself has `"unsafe": [part]`.
inline bool lifts(const Policy& policy, std::string_view part) {
  for (const UnsafeEntry& entry : policy.unsafe) {
    if (entry.part == part) return true;
  }
  return false;
}

}  // namespace srun::policy
