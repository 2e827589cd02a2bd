#pragma once
// The supervisor room: everything that runs while the program runs.
//
//   guard.h          the front process: watches the supervisor, passes signals on, kills the tree if it is the last
//   (H3) session.h        the supervisor process from the hand-over to the exit status: ties the parts below together
//   service_loop.h   receive → decide → answer; one thread, no allocation, no lock, no formatting
//   dispatcher.h     what to answer: the copy of the filter, then the checks that only a supervisor can make
//   affinity.h       which CPU service thread and asking tasks share, and what the program sees of it
//   task_table.h     what is known of each asking task
//   event_ring.h     from the service thread to the control plane
//   control_plane.h  signals, timers, child events, reports: Boost.Asio, on the main thread
//   process_tree.h   who belongs to the run, and ending all of it
//   terminal.h       the terminal as it was
//
// Never here: parsing of policies, set-up of the child (sandbox room; neither includes the other).
