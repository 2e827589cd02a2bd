#pragma once
// The two bodies of the interpreter; interpreter.cc chooses.
#include "bpf/interpreter.h"
#include "bpf/interpreter_handlers.h"

namespace srun::bpf {

#if SANDBOX_RUN_BPF_THREADED
uint32_t interpret_threaded(const Cell* pc, const SwitchTable* switches, bool packet, const void* context,
                            HandlerTable* table) noexcept;
#endif
uint32_t interpret_switch(const Cell* pc, const SwitchTable* switches, bool packet, const void* context,
                          HandlerTable* table) noexcept;

}  // namespace srun::bpf
