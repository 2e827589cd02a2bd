#pragma once
// The base room: what every other room may use and that knows nothing of sandboxes.
//
//   error.h       Error {code, operation, subject} and Result<T>
//   unique_fd.h   UniqueFd owns a descriptor, BorrowedFd does not
//   scope_exit.h  a clean-up that runs at the end of the scope
//   text.h        escaping of hostile text for terminals and JSON, nearest known name
//   log.h         the debug log (spdlog behind it); never used between fork and exec or in the service loop
//
// Never here: system calls other than close(2), anything about policies, seccomp or processes.
