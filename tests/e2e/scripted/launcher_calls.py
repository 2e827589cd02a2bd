#!/usr/bin/env python3
"""The filter must not catch sandbox-run's own hand-over (case 71): whatever a policy does to the calls that a launcher
makes, the program starts, or the run fails with a clear message, at once."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

CALLS = ["sendmsg", "recvmsg", "read", "write", "close", "openat", "execve", "mmap", "prctl", "seccomp", "pidfd_getfd",
         "exit_group"]
# What only a launcher would need: `true` does not, so it must start as if nothing were denied.
LAUNCHERS_ONLY = ["sendmsg", "recvmsg", "write", "prctl", "seccomp", "pidfd_getfd"]
# Generous, since the machine may be busy: what this looks for is a run that never ends.
PATIENCE = 20


def run(work, names, action):
    policy = os.path.join(work, "policy.json")
    with open(policy, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "default": "allow", "syscalls": [{"names": names, "action": action}]}, file)
    start = time.monotonic()
    try:
        done = subprocess.run([lib.SANDBOX_RUN, "-p", policy, "--", "true"], cwd=work, env=lib.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                              check=False)
    except subprocess.TimeoutExpired as hang:
        raise lib.Failure(f"{action} of {names}: still not over after {time.monotonic() - start:.0f} s") from hang
    return done.returncode, done.stderr.decode()


def check_end(names, action, status, err):
    """Started and ended by itself, or told why not."""
    what = f"{action} of {' '.join(names)}: status {status}, {err!r}"
    lib.check(status not in (124, 125), what)
    if status == 126:
        lib.check("execve" in names and "/true: " in err, what)
    elif status == 159:
        lib.check("sandbox-run: killed by policy" in err, what)
    elif status not in (0, 127, 139):  # 127 and 139: the dynamic loader's own ways to end without reading or mapping
        raise lib.Failure(what)


@lib.must
def test_deny(work):
    """deny, one call at a time"""
    for name in CALLS:
        status, err = run(work, [name], "deny")
        check_end([name], "deny", status, err)
        if name in LAUNCHERS_ONLY:
            lib.check_equal(status, 0, f"status with {name} denied ({err!r})")


@lib.must
def test_kill(work):
    """kill, one call at a time"""
    for name in CALLS:
        status, err = run(work, [name], "kill")
        check_end([name], "kill", status, err)
        lib.check_equal(status, 0 if name in LAUNCHERS_ONLY else 159, f"status with a kill at {name} ({err!r})")


@lib.must
def test_trap(work):
    """trap, one call at a time"""
    for name in CALLS:
        status, err = run(work, [name], "trap")
        check_end([name], "trap", status, err)
        lib.check_equal(status, 0 if name in LAUNCHERS_ONLY else 159, f"status with a trap at {name} ({err!r})")


@lib.must
def test_notified(work):
    """asked about by notification, one call at a time and all together"""
    allowed = [name for name in CALLS if name not in ("close", "exit_group")]  # these two are never notified (H19)
    for names in [[name] for name in allowed] + [allowed]:
        status, err = run(work, names, "log")
        lib.check_equal((status, err), (0, ""), f"status and stderr with {' '.join(names)} notified")


@lib.must
def test_all_together(work):
    """all together: deny, kill, trap"""
    for action in ("deny", "kill", "trap", {"errno": "ENOSYS"}, {"return": 0}):
        names = [name for name in CALLS if not (isinstance(action, dict) and "return" in action and name in ("close", "exit_group"))]
        status, err = run(work, names, action)
        if action in ("kill", "trap"):
            lib.check_equal(status, 159, f"status with {action} ({err!r})")
            lib.check("sandbox-run: killed by policy" in err, err)
        elif action == {"return": 0}:
            lib.check(status not in (0, 124), f"status {status} though execve did nothing ({err!r})")
        else:
            lib.check_equal(status, 126, f"status with {action} ({err!r})")


@lib.must
def test_denied_exec(work):
    """a denied execve: the program is not run, 126, and the rule is named"""
    for names in (["execve"], ["execve", "execveat"]):
        status, err = run(work, names, {"errno": "EACCES"})
        lib.check_equal(status, 126, f"status ({err!r})")
        lib.check("sandbox-run: denied execve(" in err and "policy.json:1 #/syscalls/0" in err, err)
        lib.check("sandbox-run: run " in err, err)


@lib.must
def test_default_kill(work):
    """a policy that allows nothing at all ends at once"""
    policy = os.path.join(work, "policy.json")
    with open(policy, "w", encoding="utf-8") as file:
        file.write('{"version": 1, "default": "kill", "syscalls": []}')
    done = subprocess.run([lib.SANDBOX_RUN, "-p", policy, "--", "true"], cwd=work, env=lib.environment(), timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    lib.check_equal(done.returncode, 159, f"status ({done.stderr!r})")
    lib.check(b"killed by policy" in done.stderr, f"{done.stderr!r}")


if __name__ == "__main__":
    lib.main(globals())
