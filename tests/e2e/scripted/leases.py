#!/usr/bin/env python3
"""What /proc shows of a hot program's CPUs while it sees its own mask: proof that affinity.case meets pinned programs."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

# Hot until told to stop; prints the distinct masks that it saw of itself and of a thread.
PROGRAM = """
import os, threading
seen = set()
def hot():
    while not os.path.exists("stop"):
        for _ in range(100): os.getppid()
        seen.add(tuple(sorted(os.sched_getaffinity(0))))
        if not os.path.exists("hot"): open("hot", "w").close()
thread = threading.Thread(target=hot)
thread.start()
hot()
thread.join()
print(sorted(seen))
"""
POLICY = {"version": 1, "syscalls": [{"names": ["getppid"], "action": "log"}, {"names": ["@baseline"], "action": "allow"}]}


def masks(pid):
    """Cpus_allowed_list of each thread, as the kernel has it."""
    found = set()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found.add(lib.proc_field(f"{pid}/task/{thread}", "Cpus_allowed_list"))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def watch(work, *options):
    """Runs the hot program until some thread of it was seen on a single CPU."""
    policy = os.path.join(work, "policy.json")
    with open(policy, "w", encoding="utf-8") as file:
        json.dump(POLICY, file)
    with lib.Sandbox([*options, "--quiet", "-p", policy, "--", sys.executable, "-c", PROGRAM], cwd=work) as box:
        lib.wait_until(lambda: os.path.exists(os.path.join(work, "hot")), 20, "the first answers")
        pid = box.wait_for_target(os.path.basename(sys.executable)[:15])
        lib.wait_until(lambda: any(mask.isdigit() for mask in masks(pid)), 20, "a thread on a single CPU")
        with open(os.path.join(work, "stop"), "wb"):
            pass
        status, out, err = box.finish()
        lib.check_equal((status, out.decode(), err.decode()), (0, f"[{tuple(sorted(os.sched_getaffinity(0)))}]\n", ""),
                        "status, masks seen inside, stderr")


@lib.must
@lib.requires("cpus:2")
def test_pinned(work):
    """pinned mode: the kernel has the program on one CPU, the program sees all"""
    watch(work, "--service", "pinned")


@lib.must
@lib.requires("cpus:2")
def test_lease(work):
    """auto mode without synchronous wake-up: the same while a lease lasts"""
    watch(work, "--service", "auto", "--pretend-missing", "sync-wake")


if __name__ == "__main__":
    lib.main(globals())
