#include "bpf/interpreter.h"

#define SRUN_INTERPRET interpret_switch
#define SRUN_THREADED 0
#include "bpf/interpreter_body.inc"
