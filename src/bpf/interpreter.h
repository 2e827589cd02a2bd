#pragma once
// The interpreter of the internal set. Its body exists twice: with computed gotos (GCC, Clang), where every instruction
// ends with its own indirect jump to the next one's code, and as a switch for other compilers; both are built and
// tested where both can be.
#include <cstdint>
#include <vector>

#include "bpf/isa.h"

#if defined(__GNUC__) && !defined(SANDBOX_RUN_BPF_SWITCH_ONLY)
#define SANDBOX_RUN_BPF_THREADED 1
#else
#define SANDBOX_RUN_BPF_THREADED 0
#endif

namespace srun::bpf {

enum class Dispatch : uint8_t { kThreaded, kSwitch };
inline constexpr Dispatch kBestDispatch = SANDBOX_RUN_BPF_THREADED ? Dispatch::kThreaded : Dispatch::kSwitch;

// One instruction bound to its handler. The handler knows operation and, for common forms, the registers. Distances are
// in bytes between cells.
struct Cell {
  uintptr_t handler = 0;  // threaded: the handler's address; switch: its number
  uint64_t imm = 0;
  int32_t off = 0;  // jumps: to the target; loads and stores: as in the instruction
  uint8_t dst = 0;
  uint8_t src = 0;
};

// kSwitch: a sorted list of all arms, and a table by value for the part where arms lie close together.
struct SwitchTable {
  uint32_t base = 0;
  uint32_t span = 0;              // values from `base` that the table holds
  std::vector<int32_t> dense;     // distance, by value - base
  std::vector<uint32_t> first;    // first value of each arm
  std::vector<int32_t> distance;  // of each arm
};

// Immutable after construction; runs on any number of threads at once.
class InterpreterCode {
 public:
  explicit InterpreterCode(const isa::Code& code, Dispatch dispatch = kBestDispatch);

  // `context` is a const CallData* or const Packet*, by the flavour of the code. Never fails.
  uint32_t run(const void* context) const noexcept {
    return run_(cells_.data(), switches_.data(), packet_, context, nullptr);
  }

 private:
  using Run = uint32_t (*)(const Cell*, const SwitchTable*, bool, const void*, const uintptr_t**) noexcept;

  std::vector<Cell> cells_;
  std::vector<SwitchTable> switches_;
  bool packet_ = false;
  Run run_ = nullptr;
};

}  // namespace srun::bpf
