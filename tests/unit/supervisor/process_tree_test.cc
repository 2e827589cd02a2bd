#include "supervisor/process_tree.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>

using namespace srun::supervisor;

TEST_CASE("process tree: members are descendants of the supervisor, not it, nor the guard, nor others") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  REQUIRE(child > 0);
  const Membership membership(getpid(), getppid());
  CHECK(membership.is_member(child));
  CHECK_FALSE(membership.is_member(getpid()));
  CHECK_FALSE(membership.is_member(getppid()));
  CHECK_FALSE(membership.is_member(1));
  CHECK_FALSE(membership.is_member(0));
  CHECK_FALSE(membership.is_member(-1));
  const auto found = descendants(getpid());
  CHECK(std::find(found.begin(), found.end(), child) != found.end());
  char comm[16];
  CHECK(read_comm(child, comm));
  CHECK(std::string(comm) == "unit-supervisor");
  kill(child, SIGKILL);
  CHECK(waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(membership.is_member(child));
  CHECK_FALSE(read_comm(child, comm));
}

TEST_CASE("process tree: end_all ends double-forked, own-session and stopped descendants and reaps them") {
  // In a child of its own: end_all() ends every child of the caller.
  const pid_t keeper = fork();
  if (keeper == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ready[2];
    if (pipe(ready) != 0) _exit(9);
    for (int kind = 0; kind < 4; ++kind) {
      if (fork() == 0) {
        if (kind == 1) setsid();
        if (kind == 2 && fork() != 0) _exit(0);
        if (kind == 2) setsid();
        char one = 1;
        if (write(ready[1], &one, 1) != 1) _exit(9);
        if (kind == 3) raise(SIGSTOP);
        signal(SIGTERM, SIG_IGN);
        while (true) pause();
      }
    }
    char got;
    for (int i = 0; i < 4; ++i)
      if (read(ready[0], &got, 1) != 1) _exit(8);
    end_all();
    _exit(waitpid(-1, nullptr, WNOHANG) == -1 && descendants(getpid()).empty() ? 0 : 7);
  }
  REQUIRE(keeper > 0);
  int status = 0;
  REQUIRE(waitpid(keeper, &status, 0) == keeper);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
