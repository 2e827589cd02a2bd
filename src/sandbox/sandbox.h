#pragma once
// The sandbox room builds the jail and starts the program in it; after the hand-over of the listener its work is done.
//
//   launch_plan.h     everything that will be done to the child, as data; `--check` prints it
//   launcher.h        clones the child, which puts the plan into force and becomes the program (H24)
//   child.h           the child's side: async-signal-safe only, system calls and nothing else
//   capabilities.h    the capability set of a root target (H7)
//   mounts.h          the private mount namespace of a root target (H7)
//   descriptors.h     which inherited descriptors the program keeps
//   program.h         finding the program on PATH
//
// Never here: anything that runs after the program has started; the supervisor room (neither includes the other).
