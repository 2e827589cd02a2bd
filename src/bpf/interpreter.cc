#include "bpf/interpreter.h"

#include <algorithm>
#include <optional>

#include "bpf/interpreter_handlers.h"
#include "bpf/interpreter_run.h"
#include "bpf/switch_arms.h"

namespace srun::bpf {
namespace {

using isa::Insn;
using isa::kA;
using isa::kX;
using isa::Op;

constexpr int32_t kCellBytes = static_cast<int32_t>(sizeof(Cell));
// A table by value is used where it is not much larger than the list of arms that it holds.
constexpr uint32_t kDenseValuesPerArm = 16;
constexpr uint32_t kAlwaysDense = 64;

// The handlers of one operation, in the order of SRUN_ALU_HANDLERS.
struct Forms {
  Handler a32k, a32x, g32k, g32x, g64k, g64x;
};
#define SRUN_FORMS(NAME)                                                        \
  Forms{kHandler_A_##NAME##32K, kHandler_A_##NAME##32X, kHandler_G_##NAME##32K, \
        kHandler_G_##NAME##32X, kHandler_G_##NAME##64K, kHandler_G_##NAME##64X},
constexpr Forms kForms[] = {SRUN_ISA_ALU(SRUN_FORMS) SRUN_ISA_JUMP(SRUN_FORMS)};

Handler arithmetic_or_jump(const Insn& insn) {
  const int number = static_cast<int>(insn.op);
  const Forms& forms = kForms[number / 4];
  switch (number % 4) {
    case 0:
      if (insn.dst == kA) return forms.a32k;
      return insn.op == Op::kMov32K && insn.dst == kX ? kHandler_X_Mov32K : forms.g32k;
    case 1:
      if (insn.dst == kA && insn.src == kX) return forms.a32x;
      return insn.op == Op::kMov32X && insn.dst == kX && insn.src == kA ? kHandler_X_Mov32X : forms.g32x;
    case 2:
      return forms.g64k;
    default:
      return forms.g64x;
  }
}

Handler load32(const Insn& insn) {
  if (insn.dst == kA && insn.src == isa::kContext) return kHandler_A_LoadContext32;
  if (insn.dst == kX && insn.src == isa::kContext) return kHandler_X_LoadContext32;
  if (insn.dst == kA && insn.src == isa::kFrame) return kHandler_A_LoadSlot;
  if (insn.dst == kX && insn.src == isa::kFrame) return kHandler_X_LoadSlot;
  return kHandler_G_Load32;
}

Handler store32(const Insn& insn) {
  if (insn.dst == isa::kFrame && insn.src == kA) return kHandler_A_StoreSlot;
  if (insn.dst == isa::kFrame && insn.src == kX) return kHandler_X_StoreSlot;
  return kHandler_G_Store32;
}

Handler absolute(const Insn& insn, Handler checked, Handler known, Handler generic, uint8_t common) {
  if (insn.dst != common) return generic;
  return isa::high(insn.imm) == 0 ? known : checked;
}

Handler near(const Insn& insn, Handler checked, Handler known, Handler generic) {
  if (insn.src != kX) return generic;
  return absolute(insn, checked, known, generic, kA);
}

// Handlers for one instruction alone. kSwitch is bound with its table.
Handler plain_handler(const Insn& insn) {
  if (insn.op <= Op::kJnset64X) return arithmetic_or_jump(insn);
  const bool indirect = insn.dst == kA && insn.src == kX;
  switch (insn.op) {
    case Op::kNeg32:
      return insn.dst == kA ? kHandler_A_Neg32 : kHandler_G_Neg32;
    case Op::kNeg64:
      return kHandler_G_Neg64;
    case Op::kJa:
      return kHandler_Ja;
    case Op::kLoad8:
      return kHandler_G_Load8;
    case Op::kLoad16:
      return kHandler_G_Load16;
    case Op::kLoad32:
      return load32(insn);
    case Op::kLoad64:
      return kHandler_G_Load64;
    case Op::kStore32:
      return store32(insn);
    case Op::kStore64:
      return kHandler_G_Store64;
    case Op::kLdAbs8:
      return absolute(insn, kHandler_A_LdAbs8, kHandler_A_LdAbs8Known, kHandler_G_LdAbs8, kA);
    case Op::kLdAbs16:
      return absolute(insn, kHandler_A_LdAbs16, kHandler_A_LdAbs16Known, kHandler_G_LdAbs16, kA);
    case Op::kLdAbs32:
      return absolute(insn, kHandler_A_LdAbs32, kHandler_A_LdAbs32Known, kHandler_G_LdAbs32, kA);
    case Op::kLdInd8:
      return indirect ? kHandler_A_LdInd8 : kHandler_G_LdInd8;
    case Op::kLdInd16:
      return indirect ? kHandler_A_LdInd16 : kHandler_G_LdInd16;
    case Op::kLdInd32:
      return indirect ? kHandler_A_LdInd32 : kHandler_G_LdInd32;
    case Op::kLdNear8:
      return near(insn, kHandler_A_LdNear8, kHandler_A_LdNear8Known, kHandler_G_LdNear8);
    case Op::kLdNear16:
      return near(insn, kHandler_A_LdNear16, kHandler_A_LdNear16Known, kHandler_G_LdNear16);
    case Op::kLdNear32:
      return near(insn, kHandler_A_LdNear32, kHandler_A_LdNear32Known, kHandler_G_LdNear32);
    case Op::kLdMsh:
      return absolute(insn, kHandler_X_LdMsh, kHandler_X_LdMshKnown, kHandler_G_LdMsh, kX);
    case Op::kCall:
      return kHandler_Call;
    case Op::kRetK:
      return kHandler_RetK;
    default:
      return kHandler_RetA;
  }
}

struct Fusion {
  Handler load;
  Op jump;
  Handler fused;
};
#define SRUN_FUSION(LOAD, JUMP) Fusion{kHandler_##LOAD, Op::k##JUMP##32K, kHandler_##LOAD##_##JUMP},
#define SRUN_FUSIONS(LOAD) SRUN_FUSED_JUMPS(SRUN_FUSION, LOAD)
constexpr Fusion kFusions[] = {SRUN_LOADS_OF_A(SRUN_FUSIONS)};
#define SRUN_FUSION_WIDE(JUMP) Fusion{kHandler_G_Load64, Op::k##JUMP##64K, kHandler_Wide_##JUMP},
constexpr Fusion kWideFusions[] = {SRUN_FUSED_WIDE(SRUN_FUSION_WIDE)};

// The handler of an instruction that stands before `next`.
Handler fused_handler(Handler handler, const Insn& insn, const Insn& next) {
  if (next.op >= Op::kJeq32K && next.op <= Op::kJnset32K && next.dst == kA) {
    for (const Fusion& fusion : kFusions) {
      if (fusion.load == handler && fusion.jump == next.op) return fusion.fused;
    }
  }
  const bool argument = handler == kHandler_G_Load64 && insn.dst == isa::kR1 && insn.src == isa::kContext;
  if (argument && next.dst == isa::kR1) {
    for (const Fusion& fusion : kWideFusions) {
      if (fusion.jump == next.op) return fusion.fused;
    }
  }
  return handler;
}

SwitchTable switch_table(const SwitchArms& arms, uint32_t pc) {
  SwitchTable table;
  for (const SwitchArm& arm : arms) {
    table.first.push_back(arm.first);
    table.distance.push_back((static_cast<int32_t>(arm.target) - static_cast<int32_t>(pc)) * kCellBytes);
  }
  const DenseArms dense = dense_arms(arms, 0, arms.size(), kDenseValuesPerArm, kAlwaysDense);
  table.base = arms[dense.from].first;
  for (size_t arm = dense.from; arm < dense.to; ++arm) {
    table.dense.insert(table.dense.end(), arms[arm + 1].first - arms[arm].first, table.distance[arm]);
  }
  table.span = static_cast<uint32_t>(table.dense.size());
  return table;
}

using Interpret = uint32_t (*)(const Cell*, const SwitchTable*, bool, const void*, HandlerTable*) noexcept;

Interpret interpret_function(Dispatch dispatch) {
#if SANDBOX_RUN_BPF_THREADED
  if (dispatch == Dispatch::kThreaded) return interpret_threaded;
#endif
  static_cast<void>(dispatch);
  return interpret_switch;
}

}  // namespace

InterpreterCode::InterpreterCode(const isa::Code& code, Dispatch dispatch)
    : packet_(code.flavour == Flavour::kPacket), run_(interpret_function(dispatch)) {
  HandlerTable handlers = nullptr;
  run_(nullptr, nullptr, false, nullptr, &handlers);
  cells_.reserve(code.insns.size());
  switches_.resize(code.switches.size());
  for (uint32_t pc = 0; pc < code.insns.size(); ++pc) {
    const Insn& insn = code.insns[pc];
    Handler handler = kHandler_RetA;
    if (insn.op == Op::kSwitch) {
      switches_[insn.imm] = switch_table(code.switches[insn.imm], pc);
      handler = switches_[insn.imm].span != 0 ? kHandler_DenseSwitch : kHandler_SortedSwitch;
    } else {
      handler = plain_handler(insn);
      if (pc + 1 < code.insns.size()) handler = fused_handler(handler, insn, code.insns[pc + 1]);
    }
    const int32_t off = isa::is_jump(insn.op) ? (insn.off + 1) * kCellBytes : insn.off;
    cells_.push_back({handlers[handler], insn.imm, off, insn.dst, insn.src});
  }
}

}  // namespace srun::bpf
