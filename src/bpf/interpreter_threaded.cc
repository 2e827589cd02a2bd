#include "bpf/interpreter.h"

#if SANDBOX_RUN_BPF_THREADED
// Labels as values are a GNU extension; that is the point of this build.
#pragma GCC diagnostic ignored "-Wpedantic"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wgnu-label-as-value"
#endif
#define SRUN_INTERPRET interpret_threaded
#define SRUN_THREADED 1
#include "bpf/interpreter_body.inc"
#endif
