#!/usr/bin/env python3
"""H4: nothing inside acts on the supervisor, the guard or a process outside, with the kernel's help (Landlock's signal
scope) and without it; among the run's own processes the same acts work."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

REACH = os.path.join(lib.VICTIMS, "reach")
HOSTS = ([], ["--pretend-missing", "landlock"])
POLICIES = ("baseline", "none")
# What a refused act looks like; pidfd_send_signal is closed altogether where the kernel has no signal scope.
REFUSED = {"EPERM", "EACCES"}
ACTS = ["prlimit RLIMIT_CPU", "prlimit RLIMIT_NOFILE", "setpriority", "ioprio_set", "sched_setaffinity", "sched_setparam",
        "sched_setattr", "sched_setscheduler", "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
        "pidfd_send_signal", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise",
        "migrate_pages", "move_pages", "PTRACE_SEIZE", "PTRACE_ATTACH"]
FILES = ["mem", "environ", "maps", "auxv", "stack", "syscall", "personality", "fd/0", "cwd", "root", "exe", "ns/mnt"]


def variants():
    for policy in POLICIES:
        for host in HOSTS:
            yield policy, host, f"-p {policy} {' '.join(host)}".rstrip()


def results(out):
    return dict(line.rsplit(": ", 1) for line in out.decode().splitlines() if ": " in line)


def state(pid):
    """Whatever the scheduling acts would change."""
    with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
        limits = file.read()
    return (limits, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), os.sched_getaffinity(pid),
            lib.proc_field(pid, "Threads"))


def check_refused(out, variant, files):
    got = results(out)
    lib.check(out.endswith(b"end\n"), f"{variant}: the victim did not get to its end: {out!r}")
    for act in ACTS + [f"/proc/PID/{name}" for name in files]:
        allowed = REFUSED | ({"ENOSYS"} if act == "pidfd_send_signal" and "landlock" in variant else set())
        lib.check(got.get(act) in allowed, f"{variant}: {act}: {got.get(act)}")


def outside_refuses(work, whom):
    for policy, host, variant in variants():
        with lib.Sandbox(["-p", policy, "--quiet", *host, "--", REACH, whom], cwd=work) as box:
            status, out, err = box.finish(timeout=20)
            lib.check_equal((status, err), (0, b""), f"{variant}: status and standard error")
            check_refused(out, variant, FILES)
            lib.check_equal(results(out).get("PTRACE_TRACEME"), "EPERM", f"{variant}: PTRACE_TRACEME by the supervisor's child")


@lib.must
@lib.requires("victim:reach")
def test_h4_supervisor(work):
    """H4: no act on the supervisor succeeds, and it serves on"""
    outside_refuses(work, "supervisor")


@lib.must
@lib.requires("victim:reach")
def test_h4_guard(work):
    """H4: no act on the guard succeeds, and it lives on"""
    outside_refuses(work, "guard")


@lib.must
@lib.requires("victim:reach")
def test_h4_outsider(work):
    """H4: no act on a process of the same user outside succeeds, and nothing of it has changed"""
    for policy, host, variant in variants():
        outsider = subprocess.Popen(["sleep", "60"])
        lib.OWNED.add(outsider.pid)
        try:
            lib.wait_until(lambda: lib.process(outsider.pid).comm == "sleep")
            before = state(outsider.pid)
            with lib.Sandbox(["-p", policy, "--quiet", *host, "--", REACH, str(outsider.pid)], cwd=work) as box:
                status, out, err = box.finish(timeout=20)
            lib.check_equal((status, err), (0, b""), f"{variant}: status and standard error")
            # Without a domain the files of other processes fall to the rules of /proc, which no policy has yet.
            check_refused(out, variant, [] if host else FILES)
            lib.check_equal(outsider.poll(), None, f"{variant}: the outsider's status")
            lib.check_equal(state(outsider.pid), before, f"{variant}: the outsider's state")
        finally:
            outsider.kill()
            outsider.wait()
            lib.OWNED.discard(outsider.pid)


@lib.must
@lib.requires("victim:reach")
def test_h4_the_acts_are_real(work):
    """H4: natively the same victim changes and kills its neighbour"""
    neighbour = subprocess.Popen(["sleep", "60"])
    try:
        out = subprocess.run([REACH, str(neighbour.pid)], stdout=subprocess.PIPE, timeout=20, check=True).stdout
        got = results(out)
        for act in ("prlimit RLIMIT_CPU", "setpriority", "sched_setscheduler", "kill"):
            lib.check_equal(got.get(act), "ok", act)
        lib.check_equal(neighbour.wait(5), -signal.SIGKILL, "the neighbour's status")
    finally:
        neighbour.kill()
        neighbour.wait()


@lib.must
@lib.requires("victim:reach")
def test_h4_groups(work):
    """H4: kill 0, kill -1, kill -group and group owners reach members only, in the caller's own process group"""
    for policy, host, variant in variants():
        # The outsider and the shell are in the same process group as guard and supervisor (H23).
        script = (f'sleep 60 & outsider=$!; "{lib.SANDBOX_RUN}" -p {policy} --quiet {" ".join(host)} -- "{REACH}" group; '
                  'echo "status $?"; kill -0 $outsider && echo "outsider alive"; kill $outsider')
        done = subprocess.run(["sh", "-c", script], cwd=work, env=lib.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=20, start_new_session=True, check=False)
        got = results(done.stdout)
        lib.check(done.stdout.endswith(b"end\nstatus 0\noutsider alive\n"), f"{variant}: {done.stdout!r} {done.stderr!r}")
        for act in ("setpriority of the group", "setpriority of the user", "ioprio_set of the group", "ioprio_set of the user"):
            lib.check_equal(got.get(act), "EPERM", f"{variant}: {act}")
        lib.check_equal(got.get("kill 0"), "ok", f"{variant}: kill 0")


@lib.must
@lib.requires("victim:reach")
def test_h4_members(work):
    """H4: on a child and a grandchild every act works as natively"""
    native = subprocess.run([REACH, "child"], stdout=subprocess.PIPE, timeout=20, check=True).stdout
    for host in HOSTS:
        with lib.Sandbox(["-p", "baseline", "--quiet", *host, "--", REACH, "child"], cwd=work) as box:
            status, out, _ = box.finish(timeout=20)
        wanted = native.decode()
        if host:
            wanted = re.sub("pidfd_send_signal: ok", "pidfd_send_signal: ENOSYS", wanted)
            wanted = re.sub("pidfd_getfd: ok", "pidfd_getfd: EPERM", wanted)
        lib.check_equal((status, out.decode()), (0, wanted), f"status and output with {host}")


@lib.must
def test_h4_shells_signal_their_jobs(work):
    """H4: a shell's kill of jobs, of its group and of a pipeline works, with and without the signal scope"""
    script = ("sleep 50 & one=$!; setsid sleep 50 & two=$!; kill $one; wait $one; echo $?; sleep 0.1; kill -KILL $two; wait $two; echo $?;"
              " trap 'echo caught' TERM; kill -TERM 0; echo after")
    for host in HOSTS:
        with lib.Sandbox(["-p", "baseline", *host, "--", "sh", "-c", script], cwd=work, start_new_session=True) as box:
            status, out, err = box.finish(timeout=10)
        # The shell's own words about its dead jobs come or not, as the moment wants; ours would be denials.
        lib.check_equal((status, out, b"sandbox-run" in err), (0, b"143\n137\ncaught\nafter\n", False), f"status and output with {host}")


@lib.must
@lib.requires("taskset")
def test_h4_taskset_of_a_child(work):
    """H4, H21: taskset -p, renice and prlimit work on a child in every service mode"""
    script = ("sleep 50 & taskset -p $! >before; taskset -pc 0 $! >/dev/null; taskset -p $! >after; taskset -p $$ >own;"
              " renice -n 5 -p $! >/dev/null; prlimit --pid $! --nofile=64:64; kill $!; cat after | sed 's/.*: //'")
    first = min(os.sched_getaffinity(0))
    if first != 0:
        raise lib.Skip("CPU 0 is not one of this process's")
    for mode in ("async", "sync", "pinned", "auto"):
        with lib.Sandbox(["-p", "baseline", "--service", mode, "--", "sh", "-c", script], cwd=work) as box:
            status, out, err = box.finish(timeout=10)
        lib.check_equal((status, out, err), (0, b"1\n", b""), f"status and output in {mode}")


@lib.requires("strace")
def test_h4_strace_of_a_child(work):
    """H4: a tracer inside follows its own child under baseline, with and without Landlock"""
    for host in HOSTS:
        with lib.Sandbox(["-p", "baseline", *host, "--", "strace", "-f", "-o", "log", "-e", "trace=write", "sh", "-c", "echo hello; /bin/echo child"],
                         cwd=work) as box:
            status, out, err = box.finish(timeout=20)
        lib.check_equal((status, out, err), (0, b"hello\nchild\n", b""), f"status and output with {host}")
        with open(os.path.join(work, "log"), encoding="utf-8") as log:
            text = log.read()
        lib.check('write(1, "hello\\n", 6)' in text and 'write(1, "child\\n", 6)' in text, f"strace's log: {text}")


@lib.requires("strace")
def test_h4_strace_of_an_outsider(work):
    """H4: strace -p of a process outside is refused and named"""
    outsider = subprocess.Popen(["sleep", "60"])
    lib.OWNED.add(outsider.pid)
    try:
        for host in HOSTS:
            with lib.Sandbox(["-p", "baseline", *host, "--", "strace", "-p", str(outsider.pid)], cwd=work) as box:
                status, _, err = box.finish(timeout=20)
            lib.check_equal(status, 1, f"status with {host}")
            lib.check(re.search(rb"^sandbox-run: denied ptrace\(PTRACE_SEIZE, %d, .*= EPERM; \(guard layer\) ptrace" % outsider.pid, err, re.M),
                      f"standard error with {host}: {err!r}")
    finally:
        outsider.kill()
        outsider.wait()
        lib.OWNED.discard(outsider.pid)


if __name__ == "__main__":
    lib.main(globals())
