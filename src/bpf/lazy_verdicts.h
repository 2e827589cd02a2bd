#pragma once
// One program's answers, worked out number by number as they are asked for: start-up pays nothing, a number asked often
// pays once. Until then the reference interpreter answers, and it stays for what has no shorter form.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "bpf/call_runner.h"
#include "bpf/program.h"

namespace srun::bpf {

// Not thread-safe: owned by the thread that asks. Seccomp programs only.
class LazyVerdicts {
 public:
  static constexpr uint32_t kNumbers = 512;     // every assigned number; what lies beyond is always run in full
  static constexpr uint16_t kWorthIt = 32;      // asked this often, a number gets its entry
  static constexpr uint16_t kConstant = 0xffff;  // values of Entry::residual
  static constexpr uint16_t kUnknown = 0xfffe;
  static constexpr uint16_t kInFull = 0xfffd;

  struct Entry {
    uint32_t value = 0;  // kConstant: the answer; kUnknown: how often it was asked for
    uint16_t residual = kUnknown;
  };

  // Calls of `audit_arch` get entries, those of any other arch are run in full.
  LazyVerdicts(Program program, uint32_t audit_arch, const RunnerOptions& options = {});

  // Equal to run_reference() for every call. Allocates once for each number that is asked often; where memory or pages
  // are refused then, the number goes on being run in full.
  uint32_t evaluate(const CallData& call) noexcept {
    const auto nr = static_cast<uint32_t>(call.nr);
    if (call.arch == audit_arch_ && nr < kNumbers && entries_[nr].residual == kConstant) return entries_[nr].value;
    return evaluate_rest(call);
  }

  // Works out the entry now.
  void settle(uint32_t nr) noexcept;
  const Entry& entry(uint32_t nr) const { return entries_[nr]; }
  size_t residuals() const { return runners_.size(); }

 private:
  uint32_t evaluate_rest(const CallData& call) noexcept;
  Entry work_out(uint32_t nr);

  Program program_;
  uint32_t audit_arch_;
  RunnerOptions options_;
  std::array<Entry, kNumbers> entries_{};
  std::vector<std::unique_ptr<const CallRunner>> runners_;
  std::map<std::vector<uint64_t>, uint16_t> shared_;  // code of each runner
};

}  // namespace srun::bpf
