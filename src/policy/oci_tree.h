#pragma once
// The rules of ONE system call with libseccomp's meaning. libseccomp keeps them neither as "first match wins" nor as
// "all that match": an argument chain becomes comparisons of 32-bit halves that are sorted into a tree shared by all
// chains of the call, and the order of that tree decides. The runtimes' users depend on it (equality beats order, see
// reference table "corner cases"), so the tree is rebuilt here step by step, with the surprises it has in 2.5.x, and
// then written out as the first-match list that bpf::Decision wants. tests/unit/policy/oci_libseccomp_test.cc compares
// both on random rules with the installed library.
//
// Pure and single-threaded. Sizes are bounded: hostile profiles end in an error, not in unbounded work.
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bpf/rules.h"

namespace srun::policy {

// SCMP_CMP_*; the value of each condition is compared as an unsigned 64-bit number.
enum class OciOp : uint8_t { kNotEqual, kLess, kLessEqual, kEqual, kGreaterEqual, kGreater, kMaskedEqual };

struct OciCondition {
  uint8_t index = 0;  // 0..5
  OciOp op = OciOp::kEqual;
  uint64_t value = 0;      // kMaskedEqual: the mask
  uint64_t value_two = 0;  // kMaskedEqual: what is left after masking
  friend bool operator==(const OciCondition&, const OciCondition&) = default;
};

// What a rule of a profile does. Rules are compared by `action` alone (two entries that do the same thing never
// conflict); `rule` only remembers which entry to name in a denial.
struct OciOutcome {
  uint32_t action = 0;  // as <linux/seccomp.h> encodes it, data included: 0x00050026 is ERRNO(38)
  uint32_t rule = 0;    // index into OciProfile::rules
};

class OciCallRules {
 public:
  enum class Added : uint8_t {
    kAdded,
    kRedundant,  // an earlier rule already covers it: the earlier one stands, whatever the actions
    kConflict,   // the same conditions with another action: libseccomp answers EEXIST, the runtimes refuse the profile
    kEntangled,  // beyond the bounds, or a chain that would make libseccomp itself loop
  };
  // `conditions` are all required and have distinct indices; none of them: always. After kConflict and kEntangled the
  // object must not be used further.
  Added add(std::span<const OciCondition> conditions, OciOutcome outcome);

  struct FlatRule {
    std::vector<bpf::ArgTest> all_of;
    OciOutcome outcome;
  };
  // First match wins; no match: the profile's default. A text for profiles whose tree is too entangled to be written
  // out.
  Result<std::vector<FlatRule>, std::string> flatten() const;

 private:
  enum class Compare : uint8_t { kEqual, kMasked, kGreater, kGreaterEqual };
  struct Branch {
    bool decides = false;
    OciOutcome outcome;
  };
  // One comparison of one half of an argument. Nodes of a level are alternatives, tried in order; a branch that leads
  // to no decision falls through to the next node of the level. A node may be reached from several parents.
  struct Node {
    uint8_t arg = 0;
    bool high = false;
    Compare compare = Compare::kEqual;
    OciOp written = OciOp::kEqual;
    uint32_t mask = 0;
    uint32_t datum = 0;
    uint64_t full_value = 0;
    Branch on_true;
    Branch on_false;
    Node* previous = nullptr;
    Node* next = nullptr;
    Node* if_true = nullptr;
    Node* if_false = nullptr;
    unsigned references = 0;
  };
  struct Search {
    unsigned flags = 0;
    uint32_t action = 0;
  };
  struct Entangled {};  // thrown by tick() and caught where the object is entered
  class Descent;        // bounds the recursion
  friend class OciTreeWriter;

  Node* make(const OciCondition& condition, bool high, Compare compare);
  Node* build(std::span<const OciCondition> conditions, OciOutcome outcome);

  static unsigned position(const Node& node) { return node.arg * 2U + (node.high ? 1U : 0U); }
  static bool before(const Node& a, const Node& b);
  static bool same_test(const Node& a, const Node& b);
  static bool leaf(const Node& node) { return node.if_true == nullptr && node.if_false == nullptr; }
  void tick() const;
  Node* level_start(Node* node) const;
  static Node* hold(Node* node);
  int release(Node*& node);
  int release_level(Node* node);
  int release_tree(Node*& tree);
  int remove(Node*& tree, Node* node);
  bool all_decide(Node* tree, uint32_t action) const;
  int prune(Node*& existing, Node* added, Search& search);
  bool insert(Node*& existing, Node* added);
  Added add_chain(std::span<const OciCondition> conditions, OciOutcome outcome);

  // Nodes are never freed before the object: libseccomp's own tree holds stale neighbours in rare cases.
  std::deque<Node> nodes_;
  Node* root_ = nullptr;
  bool present_ = false;
  OciOutcome unconditional_;
  mutable uint32_t steps_ = 0;
  mutable uint32_t depth_ = 0;
};

}  // namespace srun::policy
