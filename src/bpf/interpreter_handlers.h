#pragma once
// The interpreter's handlers. A_ and X_ forms have A or X as destination, and the other of the two as register source;
// they keep both in machine registers. G_ forms work on any registers. Fused forms do a load and the conditional jump
// behind it; the jump's own cell stays in place for those who jump to it.
#include "bpf/isa.h"

// One family per line.
// clang-format off
#define SRUN_ALU_HANDLERS(NAME) \
  H(A_##NAME##32K) H(A_##NAME##32X) H(G_##NAME##32K) H(G_##NAME##32X) H(G_##NAME##64K) H(G_##NAME##64X)
#define SRUN_JUMP_HANDLERS(NAME) \
  H(A_##NAME##32K) H(A_##NAME##32X) H(G_##NAME##32K) H(G_##NAME##32X) H(G_##NAME##64K) H(G_##NAME##64X)

// The loads into A that are fused with a conditional jump on A with a constant, and those jumps.
#define SRUN_LOADS_OF_A(F) \
  F(A_LoadContext32) \
  F(A_LdAbs8) F(A_LdAbs16) F(A_LdAbs32) F(A_LdAbs8Known) F(A_LdAbs16Known) F(A_LdAbs32Known) \
  F(A_LdNear8) F(A_LdNear16) F(A_LdNear32) F(A_LdNear8Known) F(A_LdNear16Known) F(A_LdNear32Known) \
  F(A_LdInd8) F(A_LdInd16) F(A_LdInd32)
#define SRUN_FUSED_JUMPS(F, LOAD) \
  F(LOAD, Jeq) F(LOAD, Jne) F(LOAD, Jgt) F(LOAD, Jle) F(LOAD, Jge) F(LOAD, Jlt) F(LOAD, Jset) F(LOAD, Jnset)
#define SRUN_FUSED_WIDE(F) \
  F(Jeq) F(Jne) F(Jgt) F(Jle) F(Jge) F(Jlt)

#define SRUN_OTHER_HANDLERS \
  H(X_Mov32K) H(X_Mov32X) \
  H(X_LoadContext32) H(A_LoadSlot) H(X_LoadSlot) H(A_StoreSlot) H(X_StoreSlot) \
  H(G_Load8) H(G_Load16) H(G_Load32) H(G_Load64) H(G_Store32) H(G_Store64) \
  H(X_LdMsh) H(X_LdMshKnown) \
  H(G_LdAbs8) H(G_LdAbs16) H(G_LdAbs32) H(G_LdMsh) \
  H(G_LdNear8) H(G_LdNear16) H(G_LdNear32) \
  H(G_LdInd8) H(G_LdInd16) H(G_LdInd32) \
  H(A_Neg32) H(G_Neg32) H(G_Neg64) \
  H(Ja) H(Call) H(DenseSwitch) H(SortedSwitch) H(RetK) H(RetA)

#define SRUN_FUSED_HANDLER(LOAD, JUMP) H(LOAD##_##JUMP)
#define SRUN_LOAD_HANDLERS(LOAD) H(LOAD) SRUN_FUSED_JUMPS(SRUN_FUSED_HANDLER, LOAD)
#define SRUN_FUSED_WIDE_HANDLER(JUMP) H(Wide_##JUMP)

#define SRUN_ALL_HANDLERS \
  SRUN_ISA_ALU(SRUN_ALU_HANDLERS) SRUN_ISA_JUMP(SRUN_JUMP_HANDLERS) SRUN_OTHER_HANDLERS \
  SRUN_LOADS_OF_A(SRUN_LOAD_HANDLERS) SRUN_FUSED_WIDE(SRUN_FUSED_WIDE_HANDLER)
// clang-format on

namespace srun::bpf {

enum Handler : uint16_t {
#define H(NAME) kHandler_##NAME,
  SRUN_ALL_HANDLERS
#undef H
      kHandlerCount
};

// The address (threaded) or number (switch) of each handler.
using HandlerTable = const uintptr_t*;

}  // namespace srun::bpf
