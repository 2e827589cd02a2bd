#include "cli/exit_status.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

using srun::cli::exec_failure_status;
using srun::cli::exit_status;
using srun::cli::RunEnd;

namespace {
// As wait(2) encodes them on Linux: status in bits 8-15, signal in bits 0-6, core dump in bit 7.
constexpr int exited(int status) { return status << 8; }
constexpr int signalled(int signal) { return signal; }
constexpr int kCoreDumped = 0x80;
constexpr int kStopped = 0x137f;
}  // namespace

TEST_CASE("exit status: the program's own status is handed on unchanged, even one that means something of ours") {
  for (const int status : {0, 1, 2, 123, 124, 125, 126, 127, 128, 159, 255})
    CHECK(exit_status({.wait_status = exited(status)}, false) == status);
}

TEST_CASE("exit status: 128+N when the program died of signal N, with or without a core") {
  CHECK(exit_status({.wait_status = signalled(SIGABRT)}, false) == 134);
  CHECK(exit_status({.wait_status = signalled(SIGTERM)}, false) == 143);
  CHECK(exit_status({.wait_status = signalled(SIGKILL)}, false) == 137);
  CHECK(exit_status({.wait_status = signalled(SIGSEGV) | kCoreDumped}, false) == 139);
}

TEST_CASE("exit status: 159 when the policy killed the program, also when the supervisor did it with SIGKILL") {
  CHECK(exit_status({.wait_status = signalled(SIGSYS) | kCoreDumped, .killed_by_policy = true}, false) == 159);
  CHECK(exit_status({.wait_status = signalled(SIGKILL), .killed_by_policy = true, .denied = true}, true) == 159);
}

TEST_CASE(
    "exit status: --fail-on-denial gives 123 whatever the program exited with, and only if something was denied") {
  CHECK(exit_status({.wait_status = exited(0), .denied = true}, true) == 123);
  CHECK(exit_status({.wait_status = exited(7), .denied = true}, true) == 123);
  CHECK(exit_status({.wait_status = exited(7), .denied = false}, true) == 7);
  CHECK(exit_status({.wait_status = exited(7), .denied = true}, false) == 7);
  CHECK(exit_status({.wait_status = signalled(SIGINT), .denied = true}, true) == 130);
}

TEST_CASE("exit status: a program that only stopped is our failure, never success") {
  CHECK(exit_status({.wait_status = kStopped}, false) == 125);
}

TEST_CASE("exit status: 127 when the program was not found, 126 when it could not be executed") {
  CHECK(exec_failure_status(ENOENT) == 127);
  CHECK(exec_failure_status(EACCES) == 126);
  CHECK(exec_failure_status(ENOEXEC) == 126);
  CHECK(exec_failure_status(ENOTDIR) == 126);
  CHECK(exec_failure_status(ENOMEM) == 126);
}
