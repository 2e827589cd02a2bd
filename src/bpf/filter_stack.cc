#include "bpf/filter_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "bpf/converter.h"

namespace srun::bpf {
namespace {

constexpr size_t kMostInstructionsPerPath = 32768;  // MAX_INSNS_PER_PATH
constexpr size_t kPenaltyPerFilter = 4;

uint64_t content_hash(const Program& program) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Instruction& insn : program.code()) {
    const uint64_t bits = uint64_t{insn.code} << 48 | uint64_t{insn.jt} << 40 | uint64_t{insn.jf} << 32 | insn.k;
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

bool same_code(const Program& a, const Program& b) {
  return std::equal(a.code().begin(), a.code().end(), b.code().begin(), b.code().end());
}

}  // namespace

StackVerdict FilterStack::advise(const CallData& call) const noexcept {
  StackVerdict winner = decide(call);
  // decide() stands for all own layers at once, so a foreign layer is compared by its place among them.
  for (size_t index = layers_.size(); index-- > 0;) {
    if (layers_[index].origin == LayerOrigin::kOwn) continue;
    const uint32_t value = layers_[index].filter->runner.run(call);
    const bool tie = (value & kRetActionMask) == (winner.value & kRetActionMask);
    if (stricter(value, winner.value) || (tie && index > winner.layer)) winner = {value, static_cast<uint16_t>(index)};
  }
  return winner;
}

std::shared_ptr<const StackLayer> StackStore::shared_layer(const Program& program, LayerOrigin origin) {
  auto& known = programs_[static_cast<size_t>(origin)];
  const uint64_t hash = content_hash(program);
  const auto [begin, end] = known.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    std::shared_ptr<const StackLayer> layer = entry->second.lock();
    if (layer && same_code(layer->program, program)) return layer;
  }
  // Whoever wrote a foreign program must not get machine code out of it.
  const RunnerOptions options = origin == LayerOrigin::kForeign ? RunnerOptions{false} : options_;
  auto layer = std::make_shared<const StackLayer>(program, options);
  known.emplace(hash, layer);
  return layer;
}

StackRef StackStore::own(std::vector<Program> layers) {
  // Without a filter there is no verdict, and none may be made up.
  if (layers.empty()) std::abort();
  StackLayers shared;
  StackKey key;
  for (const Program& layer : layers) {
    shared.push_back(shared_layer(layer, LayerOrigin::kOwn));
    key.added.push_back(shared.back().get());
  }
  if (StackRef known = stacks_[key].lock()) return known;
  const std::shared_ptr<FilterStack> stack(new FilterStack);
  for (const auto& layer : shared) stack->layers_.push_back({layer, LayerOrigin::kOwn});
  stack->table_ = std::make_shared<const VerdictTable>(std::move(shared), audit_arches_, options_);
  stack->generation_ = next_generation_++;
  stacks_[key] = stack;
  forget_dead();
  return stack;
}

Result<StackRef> StackStore::with_foreign(const StackRef& base, const Program& filter) {
  const Result<uint32_t, ConversionError> length = kernel_converted_length(filter);
  if (!length) return failure(Error::from_text("push filter", {}, length.error().message()));
  const size_t instructions = base->foreign_instructions_ + *length;
  const size_t charged = instructions + kPenaltyPerFilter * base->layers_.size();
  if (charged > kMostInstructionsPerPath) {
    return errno_failure(
        ENOMEM, "push filter", {},
        fmt::format("{} instructions in one path, the kernel takes {}", charged, kMostInstructionsPerPath));
  }
  const std::shared_ptr<const StackLayer> layer = shared_layer(filter, LayerOrigin::kForeign);
  StackKey key{base->generation_, {layer.get()}, LayerOrigin::kForeign};
  if (StackRef known = stacks_[key].lock()) return known;
  const std::shared_ptr<FilterStack> stack(new FilterStack(*base));
  stack->layers_.push_back({layer, LayerOrigin::kForeign});
  stack->foreign_instructions_ = instructions;
  stack->generation_ = next_generation_++;
  stacks_[std::move(key)] = stack;
  forget_dead();
  return StackRef(stack);
}

// Dead entries are swept when their number may have doubled, so that pushing stays cheap.
void StackStore::forget_dead() {
  if (stacks_.size() < forget_at_) return;
  std::erase_if(stacks_, [](const auto& entry) { return entry.second.expired(); });
  for (auto& programs : programs_) {
    std::erase_if(programs, [](const auto& entry) { return entry.second.expired(); });
  }
  forget_at_ = std::max<size_t>(64, 2 * stacks_.size());
}

size_t StackStore::live_programs() {
  size_t count = 0;
  for (const auto& programs : programs_) {
    for (const auto& [hash, program] : programs) count += !program.expired();
  }
  return count;
}

size_t StackStore::live_stacks() {
  size_t count = 0;
  for (const auto& [key, stack] : stacks_) count += !stack.expired();
  return count;
}

void TaskStacks::start(TaskId task, StackRef stack) { stacks_[task] = std::move(stack); }

void TaskStacks::fork(TaskId parent, TaskId child) {
  const auto known = stacks_.find(parent);
  if (known == stacks_.end()) return;
  StackRef inherited = known->second;  // try_emplace may move the entry
  stacks_.try_emplace(child, std::move(inherited));
}

void TaskStacks::exit(TaskId task) { stacks_.erase(task); }

const FilterStack* TaskStacks::find(TaskId task) const {
  const auto known = stacks_.find(task);
  return known == stacks_.end() ? nullptr : known->second.get();
}

Result<void> TaskStacks::push_foreign(StackStore& store, TaskId task, const Program& filter) {
  const auto known = stacks_.find(task);
  if (known == stacks_.end()) return {};
  Result<StackRef> pushed = store.with_foreign(known->second, filter);
  if (!pushed) return failure(std::move(pushed.error()));
  known->second = std::move(*pushed);
  return {};
}

void TaskStacks::synchronise(TaskId task, std::span<const TaskId> threads) {
  const auto known = stacks_.find(task);
  if (known == stacks_.end()) return;
  const StackRef stack = known->second;
  for (const TaskId thread : threads) stacks_[thread] = stack;
}

}  // namespace srun::bpf
