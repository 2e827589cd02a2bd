#pragma once
// All filters of a stack as one table: for each arch and number the final action with data and the layer that gave it,
// or a residual program that asks only what depends on arguments.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bpf/call_runner.h"
#include "bpf/program.h"
#include "bpf/program_graph.h"

namespace srun::bpf {

// What the kernel does for a filter's return value: its action, or KILL_PROCESS for one that it does not know.
uint32_t effective_action(uint32_t return_value);

// A layer of a stack as the table needs it: verified and ready to run.
struct StackLayer {
  Program program;
  CallRunner runner;
  explicit StackLayer(Program verified, const RunnerOptions& options = {})
      : program(std::move(verified)), runner(program, options) {}
};
using StackLayers = std::vector<std::shared_ptr<const StackLayer>>;  // oldest first

// The filters as the kernel combines them: all run, the strictest action wins, the newest on a tie. At least one layer.
StackVerdict evaluate_stack(const StackLayers& layers, const CallData& call) noexcept;

// What is left of a whole stack for one number whose verdict depends on arguments; numbers with equal residuals share
// one.
struct Residual {
  // Returns an index into `outcomes`. Empty where some layer computes with arguments: then the stack itself is run.
  std::optional<Program> program;
  std::optional<CallRunner> runner;
  std::vector<StackVerdict> outcomes;
};

class VerdictTable {
 public:
  static constexpr uint32_t kNumbers = 512;  // every assigned number; what lies beyond is evaluated in full
  static constexpr uint16_t kConstant = 0xffff;

  struct Entry {
    uint32_t value = 0;  // of a constant entry
    uint16_t layer = 0;
    uint16_t residual = kConstant;  // index into residuals(), or kConstant
  };

  // Computed by one walk per layer and arch. Neither `layers` nor `audit_arches` may be empty.
  VerdictTable(StackLayers layers, std::span<const uint32_t> audit_arches, const RunnerOptions& options = {});

  // Equal to evaluate_stack() for every call. A constant entry of the first arch is found by straight code: two
  // compares, one load of the entry.
  StackVerdict evaluate(const CallData& call) const noexcept {
    const auto nr = static_cast<uint32_t>(call.nr);
    if (call.arch == first_arch_ && nr < kNumbers) [[likely]] {
      const Entry& found = first_[nr];
      if (found.residual == kConstant) [[likely]]
        return {found.value, found.layer};
    }
    return evaluate_rest(call);
  }

  // nullptr for an arch or a number that has no entry.
  const Entry* entry(uint32_t audit_arch, uint32_t nr) const noexcept {
    if (nr >= kNumbers) return nullptr;
    if (audit_arch == first_arch_) return &first_[nr];
    for (size_t i = 0; i < other_arches_.size(); ++i) {
      if (other_arches_[i] == audit_arch) return &others_[i * kNumbers + nr];
    }
    return nullptr;
  }
  std::span<const Residual> residuals() const { return residuals_; }
  const StackLayers& layers() const { return layers_; }

 private:
  class Builder;

  StackVerdict evaluate_rest(const CallData& call) const noexcept;

  std::array<Entry, kNumbers> first_{};
  uint32_t first_arch_ = 0;
  std::vector<Entry> others_;  // kNumbers for each further arch
  std::vector<uint32_t> other_arches_;
  StackLayers layers_;
  std::vector<Residual> residuals_;
};

}  // namespace srun::bpf
