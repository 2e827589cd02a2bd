#pragma once
// The filters of tasks as the supervisor sees them. Its own layers decide. Foreign layers are what a target installed
// itself, read from its memory at the notification and therefore advisory only (H17): they say in events which layer
// would decide, never what is answered, never enter a table or cache, and run in the interpreter.
//
// Stacks are immutable values shared by all tasks that have the same filters: pushing gives another stack, a child has
// its parent's. Equal programs and equal stacks exist once, found by content.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "bpf/verdict_table.h"

namespace srun::bpf {

enum class LayerOrigin : uint8_t { kOwn, kForeign };

class FilterStack {
 public:
  struct Layer {
    std::shared_ptr<const StackLayer> filter;
    LayerOrigin origin = LayerOrigin::kOwn;
  };

  // The own layers' verdict; layer indices count all layers of the stack, oldest first. The own ones are the oldest, so
  // the table's indices are the stack's. Lock-free, no allocation.
  StackVerdict decide(const CallData& call) const noexcept { return table_->evaluate(call); }
  // What the kernel would do if the foreign layers are what was really installed. For events only.
  StackVerdict advise(const CallData& call) const noexcept;

  std::span<const Layer> layers() const { return layers_; }
  bool has_foreign_layers() const { return layers_.size() != table_->layers().size(); }
  // Differs between any two stacks of one store that ever existed: the key for VerdictCache.
  uint64_t generation() const { return generation_; }
  const VerdictTable& table() const { return *table_; }

 private:
  friend class StackStore;
  FilterStack() = default;

  std::vector<Layer> layers_;
  std::shared_ptr<const VerdictTable> table_;
  uint64_t generation_ = 0;
  size_t foreign_instructions_ = 0;
};
using StackRef = std::shared_ptr<const FilterStack>;

// Makes and shares stacks. Not thread-safe: owned by one thread; the stacks themselves may be used by any.
class StackStore {
 public:
  explicit StackStore(std::vector<uint32_t> audit_arches, const RunnerOptions& options = {})
      : audit_arches_(std::move(audit_arches)), options_(options) {}

  // A stack of own layers, oldest first; at least one.
  StackRef own(std::vector<Program> layers);
  // `base` with a filter of the target's on top. Refused where the kernel would refuse too: beyond 32768 instructions
  // in a path, each older filter counting four more (kernel/seccomp.c, MAX_INSNS_PER_PATH).
  [[nodiscard]] Result<StackRef> with_foreign(const StackRef& base, const Program& filter);

  // For tests and memory figures: what is alive now.
  size_t live_programs();
  size_t live_stacks();

 private:
  struct StackKey {
    uint64_t base = 0;  // generation of the stack below; 0: none
    std::vector<const StackLayer*> added;
    LayerOrigin origin = LayerOrigin::kOwn;
    friend auto operator<=>(const StackKey&, const StackKey&) = default;
  };

  std::shared_ptr<const StackLayer> shared_layer(const Program& program, LayerOrigin origin);
  void forget_dead();

  std::vector<uint32_t> audit_arches_;
  RunnerOptions options_;
  std::unordered_multimap<uint64_t, std::weak_ptr<const StackLayer>> programs_[2];  // by origin and content hash
  std::map<StackKey, std::weak_ptr<const FilterStack>> stacks_;
  uint64_t next_generation_ = 1;
  size_t forget_at_ = 64;
};

// Which task has which stack, by the kernel's rules: a new task has its creator's stack, exec keeps it, a filter goes
// to the installing task alone or, with TSYNC, to all threads of its process. Task ids are the caller's.
class TaskStacks {
 public:
  using TaskId = int32_t;
  void start(TaskId task, StackRef stack);
  // A child that is already known keeps what it has: the event may arrive after the child's own first push.
  void fork(TaskId parent, TaskId child);
  void exit(TaskId task);
  // nullptr: not known.
  const FilterStack* find(TaskId task) const;
  // Pushes a filter of the target's. Without effect on a task that is not known.
  [[nodiscard]] Result<void> push_foreign(StackStore& store, TaskId task, const Program& filter);
  // SECCOMP_FILTER_FLAG_TSYNC: afterwards every thread has the stack of `task`.
  void synchronise(TaskId task, std::span<const TaskId> threads);
  size_t size() const { return stacks_.size(); }

 private:
  std::unordered_map<TaskId, StackRef> stacks_;
};

}  // namespace srun::bpf
