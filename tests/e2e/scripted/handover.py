#!/usr/bin/env python3
"""H24, H14, H21, H26: what the program is handed and what not: descriptors, children, CPU masks, signals."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

# The listing's own descriptor is gone by the time of the test.
LIST = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)))"
PYTHON = "/usr/bin/python3"


def run(work, arguments, **popen):
    with lib.Sandbox(arguments, cwd=work, **popen) as box:
        status, out, err = box.finish(timeout=20)
    return status, out.decode(), err.decode()


class Descriptors:
    """50 open descriptors of several kinds that a child would inherit."""

    def __enter__(self):
        self.fds = []
        for _ in range(17):
            self.fds += [*os.pipe(), os.open("/dev/null", os.O_RDWR)]
        for fd in self.fds:
            os.set_inheritable(fd, True)
        return self.fds

    def __exit__(self, *_):
        for fd in self.fds:
            os.close(fd)


@lib.must
@lib.requires("file:" + PYTHON)
def test_h24_inherited_descriptors_are_closed(work):
    """H24: of 51 inherited descriptors the program gets none, and is otherwise told nothing"""
    with Descriptors():
        native = subprocess.run([PYTHON, "-c", LIST], stdout=subprocess.PIPE, close_fds=False, timeout=20, check=True).stdout.decode()
        lib.check(len(json.loads(native)) >= 51, f"natively: {native}")
        got = run(work, ["-p", "baseline", "--", PYTHON, "-c", LIST], close_fds=False)
    lib.check_equal(got, (0, "[0, 1, 2]\n", ""), "status and output")


@lib.must
@lib.requires("file:" + PYTHON)
def test_h24_keep_fd(work):
    """H24: --keep-fd hands on exactly the descriptors that it names, at their numbers"""
    with Descriptors() as fds:
        keep = [fds[4], fds[20]]
        got = run(work, ["-p", "baseline", "--keep-fd", str(keep[0]), "--keep-fd", str(keep[1]), "--", PYTHON, "-c", LIST], close_fds=False)
    lib.check_equal(got, (0, str([0, 1, 2, *keep]) + "\n", ""), "status and output")


@lib.must
def test_h24_keep_fd_that_is_not_open(work):
    """H24: --keep-fd of a number that is closed, or that sandbox-run opened itself, is refused"""
    for number in (3, 4, 5, 9, 200, 1000000):
        status, _, err = run(work, ["-p", "baseline", "--keep-fd", str(number), "--", "touch", "ran"])
        lib.check_equal(status, 125, f"status with {number}")
        lib.check(f"--keep-fd {number}" in err, err)
    lib.check(not os.path.exists(os.path.join(work, "ran")), "the program ran")


@lib.must
@lib.requires("file:" + PYTHON)
def test_h24_descriptor_in_the_arguments(work):
    """H24: /dev/fd/N among the arguments is handed on, as bash's <(…) needs it"""
    script = f'"{lib.SANDBOX_RUN}" -p baseline -- cat <(echo one) <(echo two)'
    done = subprocess.run(["bash", "-c", script], cwd=work, env=lib.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=20, check=False)
    lib.check_equal((done.returncode, done.stdout, done.stderr), (0, b"one\ntwo\n", b""), "status and output")


@lib.must
@lib.requires("file:" + PYTHON)
def test_h24_closed_standard_descriptors(work):
    """H24: closed descriptors 0-2 stay closed for the program, and nothing of the sandbox takes their numbers"""
    program = ("import os\n"
               "out = os.open('seen', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
               "os.write(out, repr([os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2) if os.path.exists(f'/proc/self/fd/{n}') and n != out]).encode() + b'\\n')\n")
    path = os.path.join(work, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    seen = os.path.join(work, "seen")

    def outcome(prefix):
        if os.path.exists(seen):
            os.unlink(seen)
        # dash runs the program with the descriptors closed; Python itself opens what it lacks.
        subprocess.run(["sh", "-c", f"{prefix} {PYTHON} program.py <&- >&- 2>&-"], cwd=work, env=lib.environment(), timeout=20, check=True)
        with open(seen, encoding="utf-8") as file:
            return file.read()

    native = outcome("")
    for options in ("", "--events events", "--denials-to denials --events events"):
        lib.check_equal(outcome(f'"{lib.SANDBOX_RUN}" -p baseline {options} --'), native, f"descriptors with {options!r}")


@lib.must
@lib.requires("file:" + PYTHON)
def test_h14_no_descriptor_at_any_moment(work):
    """H14, H24: no member, not even the first one before its exec, keeps a listener, an output or a socket of the sandbox"""
    script = "sh -c 'ls -l /proc/self/fd; sleep 0.2' & ls -l /proc/self/fd; ls -l /proc/$$/fd; wait"
    status, out, _ = run(work, ["-p", "baseline", "--events", "events", "--denials-to", "denials", "--", "sh", "-c", script])
    lib.check_equal(status, 0, "status")
    for word in ("seccomp", "anon_inode", "socket:", "/events", "/denials", "pidfd"):
        lib.check(word not in out, f"{word} in {out}")


@lib.must
@lib.requires("make", "gcc")
def test_h24_jobserver(work):
    """H24: below make -j2 the program takes part in the jobserver: two jobs at once, never three, and no warning"""
    with open(os.path.join(work, "Makefile"), "w", encoding="utf-8") as file:
        file.write("JOBS = 1 2 3 4 5 6\n"
                   "all:\n\t+@$(RUN) $(MAKE) --no-print-directory $(addprefix job,$(JOBS))\n"
                   "job%:\n\t@date +%s.%N >start$*; sleep 0.2; date +%s.%N >end$*\n")

    def at_once(prefix):
        done = subprocess.run(["make", "-s", "-j2", f"RUN={prefix}"], cwd=work, env=lib.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        lib.check_equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), f"make with {prefix!r}")
        moments = []
        for name in os.listdir(work):
            for kind, step in (("start", 1), ("end", -1)):
                if re.fullmatch(kind + r"\d", name):
                    with open(os.path.join(work, name), encoding="utf-8") as file:
                        moments.append((float(file.read()), step))
        running = most = 0
        for _, step in sorted(moments):
            running += step
            most = max(most, running)
        return most

    lib.check_equal(at_once(""), 2, "jobs at once natively")
    lib.check_equal(at_once(f"{lib.SANDBOX_RUN} -p baseline --"), 2, "jobs at once inside")


@lib.must
@lib.requires("make", "gcc")
def test_h24_launcher_under_make(work):
    """H24, H43: as the launcher of each compiler under make -j2 nothing is said, and the jobserver's descriptors do no harm"""
    for number in range(4):
        with open(os.path.join(work, f"f{number}.c"), "w", encoding="utf-8") as file:
            file.write(f"int f{number}(void) {{ return {number}; }}\n")
    with open(os.path.join(work, "Makefile"), "w", encoding="utf-8") as file:
        file.write(f"CC = {lib.SANDBOX_RUN} -p baseline -- gcc\nall: f0.o f1.o f2.o f3.o\n")
    done = subprocess.run(["make", "-s", "-j2"], cwd=work, env=lib.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, check=False)
    lib.check_equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), "make")


@lib.must
def test_h24_wrong_makeflags(work):
    """H24: MAKEFLAGS with wild numbers hands on nothing and breaks nothing"""
    with Descriptors() as fds:
        for flags in ("--jobserver-auth=1,2", "--jobserver-auth=999999,888888", "--jobserver-auth=-3,-4", "--jobserver-auth=fifo:/nonexistent",
                      "--jobserver-auth=", f"--jobserver-auth={fds[0]}", "--jobserver-auth=99999999999999999999,3", " -j --jobserver-fds=0,1"):
            got = run(work, ["-p", "baseline", "--", PYTHON, "-c", LIST], close_fds=False, env={"MAKEFLAGS": flags})
            lib.check_equal(got, (0, "[0, 1, 2]\n", ""), f"status and output with {flags!r}")


@lib.must
def test_h3_children_from_before_are_strangers(work):
    """H3: after `server & exec sandbox-run …` the server lives on, its own children too, and the run's do not"""
    script = (f"sleep 30.1 & (sh -c 'sleep 0.2; sleep 30.2 & exit' &) ; sh -c 'sleep 0.1; sleep 30.3 & exit' & "
              f'exec "{lib.SANDBOX_RUN}" -p baseline -- sh -c "setsid sleep 30.4 & (setsid sleep 30.5 &) ; sleep 0.6; exit 7"')
    with subprocess.Popen(["bash", "-c", script], cwd=work, env=lib.environment()) as shell:
        lib.OWNED.add(shell.pid)
        status = shell.wait(10)
        lib.OWNED.discard(shell.pid)
    lib.reap_orphans()
    alive = sorted(one.command_line() for one in lib.descendants(os.getpid()) if one.alive)
    lib.kill_all([one for one in lib.descendants(os.getpid()) if one.alive])
    lib.check_equal((status, alive), (7, ["sleep 30.1", "sleep 30.2", "sleep 30.3"]), "status and who is left")


@lib.must
def test_h3_children_from_before_and_a_killed_supervisor(work):
    """H3: with children from before the run, kill -9 of the supervisor still leaves no member, and the children stay"""
    script = f'sleep 30.1 & exec "{lib.SANDBOX_RUN}" -p baseline -- sh -c "setsid sleep 30.4 & (setsid sleep 30.5 &) ; sleep 30.6"'
    with subprocess.Popen(["bash", "-c", script], cwd=work, env=lib.environment(), stderr=subprocess.PIPE) as shell:
        lib.OWNED.add(shell.pid)
        lib.wait_until(lambda: len([one for one in lib.descendants(shell.pid) if one.comm == "sleep"]) == 4, what="four sleeps")
        supervisor = [one for one in lib.descendants(shell.pid) if one.comm.startswith("srun-")][0]
        os.kill(supervisor.pid, 9)
        status = shell.wait(10)
        lib.OWNED.discard(shell.pid)
    lib.reap_orphans()
    alive = sorted(one.command_line() for one in lib.descendants(os.getpid()) if one.alive)
    lib.kill_all([one for one in lib.descendants(os.getpid()) if one.alive])
    lib.check_equal((status, alive), (125, ["sleep 30.1"]), "status and who is left")


RUNNER = """
import os, sys, time
for _ in range(8):
    if os.fork() == 0:
        while True:           # each process forks once and ends at once
            if os.fork(): os._exit(0)
            if sys.argv[1:]: os.setsid()
time.sleep(0.1)
os._exit(3)
"""


@lib.must
@lib.requires("file:" + PYTHON)
def test_h3_processes_that_never_stay(work):
    """H3: chains of processes that fork and end at once are ended with the run, in own sessions too"""
    for argument in ([], ["sessions"]):
        with lib.Sandbox(["-p", "baseline", "--", PYTHON, "-c", RUNNER, *argument], cwd=work) as box:
            status, _, _ = box.finish(timeout=20)
            lib.check_equal(status, 3, "status")
            lib.check(not box.survivors(grace=0.3), "survivors")


@lib.must
@lib.only("root")
@lib.requires("unshare", "mount")
def test_h7_mounts_that_come_later(work):
    """H7: what the host mounts below /proc/sys or on a masked path during the run does not appear writable inside"""
    inner = ('echo up >ready; while [ ! -e mounted ]; do sleep 0.02; done; touch /proc/sys/fs/binfmt_misc/file 2>/dev/null && echo writable; '
             '[ -z "$(ls -A /sys/firmware)" ] || echo unmasked; echo end')
    outer = (f'mount --make-rshared / && "{lib.SANDBOX_RUN}" -p none -- sh -c \'{inner}\' & '
             'n=0; while [ ! -e ready ] && [ $n -lt 500 ]; do sleep 0.02; n=$((n+1)); done; '
             'mount -t tmpfs none /proc/sys/fs/binfmt_misc && touch /proc/sys/fs/binfmt_misc/host || echo "no mount"; '
             'mount -t tmpfs none /sys/firmware && touch /sys/firmware/host; touch mounted; wait')
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", outer], cwd=work, env=lib.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
    if b"no mount" in done.stdout:
        raise lib.Skip("nothing can be mounted on /proc/sys/fs/binfmt_misc here")
    lib.check_equal((done.stdout, done.stderr), (b"end\n", b""), "output")


@lib.must
@lib.only("root")
@lib.requires("unshare", "mount")
def test_h7_control_files_elsewhere(work):
    """H7: a second procfs, sysfs or cgroup tree (a chroot's) is read-only inside, odd names included"""
    os.mkdir(os.path.join(work, "a b\\c"))
    os.mkdir(os.path.join(work, "sys"))
    inner = ('for file in "a b\\\\c/sys/vm/swappiness" sys/kernel/uevent_helper sys/kernel/mm/lru_gen/enabled; do '
             '[ -e "$file" ] || continue; echo seen; if (: >>"$file") 2>/dev/null; then printf "%s is writable\\n" "$file"; fi; done')
    outer = f'mount -t proc none "a b\\\\c" && mount -t sysfs none sys && "{lib.SANDBOX_RUN}" -p none -- sh -c \'{inner}\''
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", outer], cwd=work, env=lib.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
    lib.check_equal(done.stderr, b"", "standard error")
    lib.check(b"seen\n" in done.stdout and b"writable" not in done.stdout, f"output {done.stdout!r}")


@lib.must
@lib.only("user")
def test_h4_files_of_the_supervisor(work):
    """H4: as a user no file of the supervisor or the guard in /proc can be written"""
    script = ("guard=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status); for pid in $PPID $guard; do "
              "for file in oom_score_adj comm timerslack_ns autogroup coredump_filter clear_refs sched mem; do "
              "[ ! -e /proc/$pid/$file ] || (echo 1 >/proc/$pid/$file) 2>/dev/null && [ -e /proc/$pid/$file ] && echo \"$file is writable\"; done; done; echo end")
    lib.check_equal(run(work, ["-p", "none", "--", "sh", "-c", script]), (0, "end\n", ""), "status and output")


@lib.must
@lib.requires("nproc", "taskset")
def test_h21_masks(work):
    """H21: nproc inside equals nproc outside in every service mode, under a hot caller and for its children"""
    native = subprocess.run(["nproc"], stdout=subprocess.PIPE, timeout=10, check=True).stdout.decode()
    hot = "import os, subprocess\nfor _ in range(3000): os.getpriority(0, 0)\nsubprocess.run(['nproc'])\nprint(len(os.sched_getaffinity(0)))\n"
    path = os.path.join(work, "policy.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"version": 1, "syscalls": [{"names": ["getpriority"], "action": "log"}, {"names": ["@baseline"], "action": "allow"}]}')
    os.chmod(path, 0o644)
    for mode in ("async", "sync", "pinned", "auto"):
        for missing in ([], ["--pretend-missing", "sync-wake"]):
            got = run(work, ["-p", path, "--denials", "none", "--quiet", "--service", mode, *missing, "--", PYTHON, "-c", hot])
            lib.check_equal(got, (0, native * 2, ""), f"status and output in {mode} {missing}")


@lib.must
@lib.requires("victim:timers")
def test_h26_signals(work):
    """H26: with SA_RESTART no notified call sees EINTR; a call that is not notified sees none without it either"""
    timers = os.path.join(lib.VICTIMS, "timers")
    path = os.path.join(work, "policy.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"version": 1, "syscalls": [{"names": ["getpriority"], "action": "log"}, {"names": ["@baseline"], "action": "allow"}]}')
    os.chmod(path, 0o644)
    for mode in ("async", "sync", "auto"):
        for arguments in (["getpriority", "3000", "restart"], ["getppid", "20000"], ["openat", "3000"]):
            native = subprocess.run([timers, *arguments], stdout=subprocess.PIPE, timeout=30, check=True).stdout.decode()
            status, out, err = run(work, ["-p", path, "--quiet", "--service", mode, "--", timers, *arguments])
            lib.check_equal((status, out), (0, native), f"status and output of {arguments} in {mode}; {err}")


if __name__ == "__main__":
    lib.main(globals())
