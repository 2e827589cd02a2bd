#include "policy/oci_tree.h"

#include <algorithm>

namespace srun::policy {
namespace {

// What `prune` has found out on its way, after libseccomp's iteration flags.
enum : unsigned {
  kMatching = 1U << 0,          // the two trees are equal up to here
  kMatchedOnce = 1U << 1,       // they were equal somewhere above
  kExistingDone = 1U << 2,      // the existing tree ends here
  kAddedDone = 1U << 3,         // the new tree ends here
  kExistingPrefixed = 1U << 4,  // nodes of the existing tree were skipped
  kAddedPrefixed = 1U << 5,     // nodes of the new tree were skipped
};
constexpr unsigned kMatchSet = kMatching | kMatchedOnce;
constexpr unsigned kRedundant = kMatching | kExistingDone | kAddedPrefixed;

unsigned op_priority(OciOp op) {
  switch (op) {
    case OciOp::kMaskedEqual:
    case OciOp::kEqual:
    case OciOp::kNotEqual:
      return 3;
    case OciOp::kLessEqual:
    case OciOp::kLess:
      return 2;
    case OciOp::kGreaterEqual:
    case OciOp::kGreater:
      return 1;
  }
  return 0;
}

constexpr uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
constexpr uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }

// Far above what any profile needs that also fits into the kernel's 4096 instructions.
constexpr uint32_t kMaxSteps = 1U << 24;
constexpr uint32_t kMaxDepth = 128;

}  // namespace

class OciCallRules::Descent {
 public:
  explicit Descent(const OciCallRules& rules) : depth_(rules.depth_) {
    if (depth_ >= kMaxDepth) throw Entangled{};
    ++depth_;
  }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;
  ~Descent() { --depth_; }

 private:
  uint32_t& depth_;
};

void OciCallRules::tick() const {
  if (++steps_ > kMaxSteps) throw Entangled{};
}

OciCallRules::Node* OciCallRules::make(const OciCondition& condition, bool high, Compare compare) {
  const bool masked = condition.op == OciOp::kMaskedEqual;
  const uint64_t mask = masked ? condition.value : ~uint64_t{0};
  const uint64_t value = masked ? condition.value_two : condition.value;
  Node& node = nodes_.emplace_back();
  node.arg = condition.index;
  node.high = high;
  node.compare = compare;
  node.written = condition.op;
  node.mask = high ? high_half(mask) : low_half(mask);
  // Bits of valueTwo outside the mask are ignored, as libseccomp does.
  node.datum = (high ? high_half(value) : low_half(value)) & node.mask;
  node.full_value = value;
  return &node;
}

// One rule as a chain of comparisons. Only EQ, GT and GE exist below this line: NE, LT and LE decide on the false side.
OciCallRules::Node* OciCallRules::build(std::span<const OciCondition> conditions, OciOutcome outcome) {
  std::vector<OciCondition> sorted(conditions.begin(), conditions.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  Node* first = nullptr;
  std::vector<std::pair<Node*, bool>> exits;  // where a matching path leaves the previous condition: node and side
  for (const OciCondition& condition : sorted) {
    if (condition.op == OciOp::kMaskedEqual && condition.value == 0) continue;  // always true
    Node* entry = nullptr;
    std::vector<std::pair<Node*, bool>> leaves;
    if (op_priority(condition.op) == 3) {
      const Compare compare = condition.op == OciOp::kMaskedEqual ? Compare::kMasked : Compare::kEqual;
      entry = make(condition, true, compare);
      Node* low = make(condition, false, compare);
      entry->if_true = hold(low);
      if (condition.op == OciOp::kNotEqual)
        leaves = {{entry, false}, {low, false}};
      else
        leaves = {{low, true}};
    } else {
      const bool inclusive = condition.op == OciOp::kGreaterEqual || condition.op == OciOp::kLess;
      entry = make(condition, true, Compare::kGreater);
      Node* equal = make(condition, true, Compare::kEqual);
      Node* low = make(condition, false, inclusive ? Compare::kGreaterEqual : Compare::kGreater);
      entry->if_false = hold(equal);
      equal->if_true = hold(low);
      if (condition.op == OciOp::kGreater || condition.op == OciOp::kGreaterEqual)
        leaves = {{entry, true}, {low, true}};
      else
        leaves = {{equal, false}, {low, false}};
    }
    for (auto [node, side] : exits) (side ? node->if_true : node->if_false) = hold(entry);
    if (first == nullptr) first = hold(entry);
    exits = std::move(leaves);
  }
  for (auto [node, side] : exits) (side ? node->on_true : node->on_false) = Branch{true, outcome};
  return first;
}

// True if `a` comes after `b` on a level: libseccomp sorts descending, with the last argument's high half first,
// equality before order, and larger values first except for LT and LE.
bool OciCallRules::before(const Node& a, const Node& b) {
  if (position(a) != position(b)) return position(a) < position(b);
  if (op_priority(a.written) != op_priority(b.written)) return op_priority(a.written) < op_priority(b.written);
  const bool descending = a.written == OciOp::kLessEqual || a.written == OciOp::kLess;
  return descending ? a.datum > b.datum : a.datum < b.datum;
}

bool OciCallRules::same_test(const Node& a, const Node& b) {
  return position(a) == position(b) && a.compare == b.compare && a.datum == b.datum && a.mask == b.mask;
}

OciCallRules::Node* OciCallRules::level_start(Node* node) const {
  for (; node->previous != nullptr; node = node->previous) tick();
  return node;
}

OciCallRules::Node* OciCallRules::hold(Node* node) {
  if (node != nullptr) ++node->references;
  return node;
}

// Drops one reference; the last one unlinks the node from its level and everything below it. `node` then points to a
// neighbour. Returns how many nodes went away.
int OciCallRules::release(Node*& node) {
  Node* const dying = node;
  if (dying == nullptr || --dying->references != 0) return 0;
  const Descent descent(*this);
  int count = 0;
  Node* left = dying->previous;
  Node* right = dying->next;
  Node* if_true = dying->if_true;
  Node* if_false = dying->if_false;
  if (left != nullptr) left->next = nullptr;
  if (right != nullptr) right->previous = nullptr;
  if (left != nullptr) count += release(left);
  if (right != nullptr) count += release(right);
  if (left != nullptr) left->next = hold(right);
  if (right != nullptr) right->previous = hold(left);
  node = left != nullptr ? left : right;
  count += release_tree(if_true);
  count += release_tree(if_false);
  return count + 1;
}

// Releases a whole level if nothing but its own links refers to it.
int OciCallRules::release_level(Node* node) {
  Node* const start = level_start(node);
  for (Node* each = start; each != nullptr; each = each->next) {
    tick();
    const unsigned links = (each->previous != nullptr ? 1U : 0U) + (each->next != nullptr ? 1U : 0U);
    if (each->references > links) return 0;
  }
  int count = 0;
  for (Node* each = start; each != nullptr; count += release(each)) tick();
  return count;
}

int OciCallRules::release_tree(Node*& tree) {
  int count = release(tree);
  if (tree != nullptr) count += release_level(tree);
  return count;
}

// Takes `node`, and whatever else leads nowhere, out of the tree.
int OciCallRules::remove(Node*& tree, Node* node) {
  if (tree == nullptr || node == nullptr) return 0;
  int count = 0;
  const Descent descent(*this);
  for (Node* each = level_start(tree); each != nullptr && count == 0; each = each->next) {
    tick();
    bool take = each == node;
    if (!take) {
      count += remove(each->if_true, node);
      count += remove(each->if_false, node);
      take = leaf(*each) && !each->on_true.decides && !each->on_false.decides;
    }
    if (!take) continue;
    if (each == tree) tree = each->previous != nullptr ? each->previous : each->next;
    if (each->previous != nullptr) each->previous->next = each->next;
    if (each->next != nullptr) each->next->previous = each->previous;
    each->previous = nullptr;
    each->next = nullptr;
    return count + release(each);
  }
  return count;
}

bool OciCallRules::all_decide(Node* tree, uint32_t action) const {
  if (tree == nullptr) return true;
  const Descent descent(*this);
  for (Node* each = level_start(tree); each != nullptr; each = each->next) {
    tick();
    if (each->on_true.decides && each->on_true.outcome.action != action) return false;
    if (each->on_false.decides && each->on_false.outcome.action != action) return false;
    if (!all_decide(each->if_true, action) || !all_decide(each->if_false, action)) return false;
  }
  return true;
}

// Takes out of the existing tree what the new chain makes superfluous, and finds out whether the new chain itself is
// (search.flags has all of kRedundant then). Returns how many nodes went away.
int OciCallRules::prune(Node*& existing, Node* added, Search& search) {
  int count = 0;
  Search found = search;
  Node* here = existing;
  const auto finish = [&] {
    if ((found.flags & kMatching) != 0)
      search.flags |= found.flags;
    else
      search.flags &= ~unsigned{kMatching};
    return count;
  };
  if (added == nullptr || here == nullptr) return finish();
  if ((search.flags & kMatchSet) == kMatchedOnce) return finish();
  const Descent descent(*this);

  // One step down in one of the two trees. True: this level has nothing more to do.
  enum class Step : uint8_t { kGoOn, kNextNode, kDone };
  const auto descend = [&](Node*& existing_below, Node* added_below, unsigned set, unsigned clear, bool done_on_match) {
    hold(here);
    Search below = search;
    below.flags = (below.flags & ~clear) | set;
    count += prune(existing_below, added_below, below);
    count += release(here);
    if ((below.flags & kMatching) != 0) {
      found.flags |= below.flags;
      if (done_on_match) return Step::kDone;
    }
    return here == nullptr ? Step::kNextNode : Step::kGoOn;
  };

  for (Node *following = nullptr, *first = level_start(here); first != nullptr; first = following) {
    tick();
    here = first;
    following = here->next;
    if (same_test(*here, *added)) {
      found.flags |= kMatchSet;
      if (leaf(*added)) found.flags |= kAddedDone;
      if (leaf(*here)) found.flags |= kExistingDone;
      // The existing node leads further than the new one.
      if ((here->on_true.decides || here->if_true != nullptr) && !(added->on_true.decides || added->if_true != nullptr))
        return finish();
      if ((here->on_false.decides || here->if_false != nullptr) &&
          !(added->on_false.decides || added->if_false != nullptr))
        return finish();
      if ((found.flags & kAddedDone) != 0 && (found.flags & kExistingDone) != 0) {
        if (added->on_true.decides != here->on_true.decides || added->on_false.decides != here->on_false.decides ||
            added->on_true.outcome.action != here->on_true.outcome.action ||
            added->on_false.outcome.action != here->on_false.outcome.action)
          return finish();
      }
      if (added->if_true != nullptr && descend(here->if_true, added->if_true, kMatchSet, 0, false) == Step::kNextNode)
        continue;
      if (added->if_false != nullptr &&
          descend(here->if_false, added->if_false, kMatchSet, 0, false) == Step::kNextNode)
        continue;
      if (all_decide(here, found.action) && (found.flags & kMatching) != 0) {
        if ((found.flags & kAddedDone) != 0 && (found.flags & kExistingPrefixed) != 0) {
          count += remove(root_, here);
          if (root_ == nullptr) return finish();
        } else if ((found.flags & kExistingDone) != 0 && (found.flags & kAddedPrefixed) != 0) {
          return finish();
        }
      }
    } else if (before(*here, *added)) {
      if ((search.flags & kAddedPrefixed) != 0) return finish();
      if (here->if_true != nullptr) {
        const Step step = descend(here->if_true, added, kExistingPrefixed, kMatching, true);
        if (step == Step::kDone) return finish();
        if (step == Step::kNextNode) continue;
      }
      if (here->if_false != nullptr) {
        const Step step = descend(here->if_false, added, kExistingPrefixed, kMatching, true);
        if (step == Step::kDone) return finish();
        if (step == Step::kNextNode) continue;
      }
    } else {
      if ((search.flags & kExistingPrefixed) != 0) return finish();
      if (added->if_true != nullptr) {
        const Step step = descend(here, added->if_true, kAddedPrefixed, kMatching, true);
        if (step == Step::kDone) return finish();
        if (step == Step::kNextNode) continue;
      }
      if (added->if_false != nullptr) {
        const Step step = descend(here, added->if_false, kAddedPrefixed, kMatching, true);
        if (step == Step::kDone) return finish();
        if (step == Step::kNextNode) continue;
      }
    }
  }
  found.flags &= ~unsigned{kMatching};
  return finish();
}

// Sorts the new chain into the existing level. False: the same path with another action.
bool OciCallRules::insert(Node*& existing, Node* added) {
  const Descent descent(*this);
  for (Node* here = existing; here != nullptr;) {
    tick();
    if (same_test(*here, *added)) {
      if (added->on_true.decides) {
        if (!here->on_true.decides) {
          if (!all_decide(here->if_true, added->on_true.outcome.action)) return false;
          release(here->if_true);
          here->if_true = nullptr;
          here->on_true = added->on_true;
        } else if (added->on_true.outcome.action != here->on_true.outcome.action) {
          // "Greater" on the high half is shared by every comparison with that half: the largest full value has the
          // say.
          if (added->high && added->full_value > here->full_value) here->on_true.outcome = added->on_true.outcome;
          if (leaf(*here) || leaf(*added)) return false;
        }
      }
      if (added->on_false.decides) {
        if (!here->on_false.decides) {
          if (!all_decide(here->if_false, added->on_false.outcome.action)) return false;
          release(here->if_false);
          here->if_false = nullptr;
          here->on_false = added->on_false;
        } else if (added->on_false.outcome.action != here->on_false.outcome.action) {
          // libseccomp 2.5.x writes the true side here, where the false side must be meant. Kept: the profile's users
          // get what their runtime gives them.
          if (added->high && added->full_value < here->full_value) here->on_true.outcome = added->on_true.outcome;
          if (leaf(*here) || leaf(*added)) return false;
        }
      }
      if (added->if_true != nullptr) {
        if (here->if_true != nullptr) {
          if (!insert(here->if_true, added->if_true)) return false;
        } else if (!here->on_true.decides) {
          here->if_true = hold(added->if_true);
        } else {
          return true;  // the existing tree decides earlier
        }
      }
      if (added->if_false != nullptr) {
        if (here->if_false != nullptr) {
          if (!insert(here->if_false, added->if_false)) return false;
        } else if (!here->on_false.decides) {
          here->if_false = hold(added->if_false);
        } else {
          return true;
        }
      }
      return true;
    }
    if (!before(*here, *added)) {
      if (here->next == nullptr) {
        added->previous = hold(here);
        here->next = hold(added);
        return true;
      }
      here = here->next;
      continue;
    }
    if (here->previous != nullptr) {
      // The links that pointed to `here` now point to `added`, with their references.
      here->previous->next = hold(added);
      added->previous = here->previous;
      here->previous = hold(added);
      added->next = here;
    } else {
      here->previous = hold(added);
      added->next = hold(here);
    }
    if (existing == here) {
      existing = hold(added);
      release(here);
    }
    return true;
  }
  return true;
}

OciCallRules::Added OciCallRules::add(std::span<const OciCondition> conditions, OciOutcome outcome) try {
  return add_chain(conditions, outcome);
} catch (const Entangled&) {
  return Added::kEntangled;
}

OciCallRules::Added OciCallRules::add_chain(std::span<const OciCondition> conditions, OciOutcome outcome) {
  Node* chain = build(conditions, outcome);
  if (!present_) {
    present_ = true;
    root_ = chain;
    unconditional_ = outcome;
    return Added::kAdded;
  }
  if (root_ == nullptr) return Added::kRedundant;  // an unconditional rule is there, and the first one wins
  if (chain == nullptr) {                          // unconditional beats every conditional one
    root_ = nullptr;
    unconditional_ = outcome;
    return Added::kAdded;
  }
  Search search;
  search.action = outcome.action;
  const int pruned = prune(root_, chain, search);
  if (root_ == nullptr) {
    root_ = chain;
    return Added::kAdded;
  }
  if (pruned == 0 && (search.flags & kRedundant) == kRedundant) return Added::kRedundant;
  if (!insert(root_, chain)) return Added::kConflict;
  release_tree(chain);
  return Added::kAdded;
}

}  // namespace srun::policy
