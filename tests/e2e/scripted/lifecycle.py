#!/usr/bin/env python3
"""Whatever is killed, nothing of the run survives (I8, H3; cases 45 of real reports)."""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

# Children, a grandchild in its own session, a double-forked daemon, a stopped one; each a different comm-less sleep.
TREE = """
sleep 300 &
setsid sleep 301 &
(setsid sh -c 'sleep 302 & sleep 303' &)
sh -c 'kill -STOP $$; sleep 304' &
trap '' TERM INT HUP
echo ready
while :; do sleep 0.05; done
"""


def start_tree(work, *options):
    return lib.Sandbox(["-p", "baseline", *options, "--", "sh", "-c", TREE], cwd=work)


def wait_ready(box):
    line = box.popen.stdout.readline()
    lib.check_equal(line, b"ready\n", "first line of the program")


def gone(box, timeout=1.0):
    left = box.survivors(grace=timeout)
    lib.check(not left, "survivors:\n" + "\n".join(str(one) for one in left))


@lib.must
def test_kill_supervisor(work):
    """kill -9 of the supervisor ends the tree within a second, and the guard says 125"""
    with start_tree(work) as box:
        wait_ready(box)
        os.kill(box.supervisors()[0], signal.SIGKILL)
        status, _, err = box.finish(timeout=5)
        lib.check_equal(status, 125, "status")
        lib.check(b"the supervisor was killed" in err, f"stderr {err!r}")
        gone(box)


@lib.must
def test_kill_guard(work):
    """kill -9 of the guard ends the tree within a second"""
    with start_tree(work) as box:
        wait_ready(box)
        box.popen.kill()
        box.popen.wait(5)
        gone(box)


@lib.must
def test_kill_guard_at_each_stage(work):
    """kill -9 of the guard at 40 moments of the start leaves nothing"""
    for step in range(40):
        with start_tree(work) as box:
            time.sleep(step * 0.0005)
            box.popen.kill()
            box.popen.wait(5)
            gone(box)


@lib.must
def test_kill_supervisor_at_each_stage(work):
    """kill -9 of the supervisor at 40 moments of the start leaves nothing"""
    for step in range(40):
        with start_tree(work) as box:
            end = time.monotonic() + 5
            while not (children := [one.pid for one in lib.descendants(box.guard) if one.ppid == box.guard]):
                if box.popen.poll() is not None or time.monotonic() > end:
                    raise lib.Failure("no supervisor appeared")
            time.sleep(step * 0.0005)
            os.kill(children[0], signal.SIGKILL)
            status, _, _ = box.finish(timeout=5)
            lib.check_equal(status, 125, "status")
            gone(box)


@lib.must
def test_kill_supervisor_during_denials(work):
    """after kill -9 of the supervisor no call that it would have denied succeeds"""
    policy = os.path.join(work, "p.json")
    with open(policy, "w", encoding="utf-8") as file:
        file.write('{"version": 1, "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "deny"}, {"names": ["@baseline"], "action": "allow"}]}')
    program = "import os\nprint('ready', flush=True)\nn=0\nwhile True:\n  n+=1\n  try: os.mkdir(f'd{n}')\n  except OSError: pass\n"
    with lib.Sandbox(["-p", policy, "--quiet", "--", sys.executable, "-c", program], cwd=work) as box:
        wait_ready(box)
        time.sleep(0.05)
        os.kill(box.supervisors()[0], signal.SIGKILL)
        box.finish(timeout=5)
        gone(box)
    lib.check_equal([name for name in os.listdir(work) if name.startswith("d")], [], "directories made")


@lib.must
def test_daemons_die_at_the_end(work):
    """setsid and double-fork children die when the program ends, and the status is the program's"""
    script = "setsid sleep 300 & (setsid sleep 301 &) ; exit 7"
    with lib.Sandbox(["-p", "baseline", "--", "sh", "-c", script], cwd=work) as box:
        status, out, err = box.finish(timeout=5)
        lib.check_equal((status, out, err), (7, b"", b""), "status and output")
        gone(box)


@lib.must
def test_wait_all(work):
    """--wait all lets the background process finish"""
    script = "(sleep 0.3; echo late >late) & exit 3"
    with lib.Sandbox(["-p", "baseline", "--wait", "all", "--", "sh", "-c", script], cwd=work) as box:
        status, _, _ = box.finish(timeout=5)
        lib.check_equal(status, 3, "status")
    lib.check(os.path.exists(os.path.join(work, "late")), "the background process did not finish")


@lib.must
def test_wait_all_can_be_cancelled(work):
    """--wait all after the program's end: SIGTERM reaches the background process"""
    script = "trap '' HUP; (echo ready; exec sleep 300) & exit 3"
    with lib.Sandbox(["-p", "baseline", "--wait", "all", "--", "sh", "-c", script], cwd=work) as box:
        wait_ready(box)
        time.sleep(0.1)
        os.kill(box.guard, signal.SIGTERM)
        status, _, _ = box.finish(timeout=5)
        lib.check_equal(status, 3, "status")


@lib.must
def test_sigterm_reaches_the_program(work):
    """SIGTERM, SIGINT, SIGHUP and SIGUSR1 sent to sandbox-run reach the program once"""
    script = ("import os, signal, time\n"
              "got=[]\n"
              "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):\n"
              "  signal.signal(s, lambda n, f: got.append(n))\n"
              "print('ready', flush=True)\n"
              "end=time.time()+5\n"
              "while len(got)<4 and time.time()<end: time.sleep(0.01)\n"
              "time.sleep(0.2)\n"
              "print(sorted(got), flush=True)\n")
    with lib.Sandbox(["-p", "baseline", "--", sys.executable, "-c", script], cwd=work) as box:
        wait_ready(box)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            os.kill(box.guard, number)
            time.sleep(0.03)
        status, out, _ = box.finish(timeout=10)
        lib.check_equal((status, out), (0, b"[1, 2, 10, 15]\n"), "status and signals")


@lib.must
def test_group_signal_arrives_once(work):
    """a signal to the whole process group reaches the program exactly once"""
    script = ("import signal, time\n"
              "got=[]\n"
              "signal.signal(signal.SIGTERM, lambda n, f: got.append(n))\n"
              "print('ready', flush=True)\n"
              "end=time.time()+5\n"
              "while not got and time.time()<end: time.sleep(0.01)\n"
              "time.sleep(0.3)\n"
              "print(len(got), flush=True)\n")
    with lib.Sandbox(["-p", "baseline", "--", sys.executable, "-c", script], cwd=work, start_new_session=True) as box:
        wait_ready(box)
        os.killpg(box.guard, signal.SIGTERM)
        status, out, _ = box.finish(timeout=10)
        lib.check_equal((status, out), (0, b"1\n"), "status and count")


@lib.must
def test_killed_by_signal(work):
    """128+N when the program dies of a signal (case 40: abort, TERM and KILL without handlers)"""
    for name, expected in (("ABRT", 134), ("TERM", 143), ("KILL", 137), ("SEGV", 139), ("HUP", 129)):
        with lib.Sandbox(["-p", "baseline", "--", "sh", "-c", f"kill -{name} $$"], cwd=work) as box:
            status, _, err = box.finish(timeout=10)
            lib.check_equal((status, err), (expected, b""), f"status after {name}")


@lib.must
def test_started_from_a_thread_that_ends(work):
    """started by a thread that then ends, nothing dies (case 45)"""
    boxes = []

    def start():
        boxes.append(lib.Sandbox(["-p", "baseline", "--", "sh", "-c", "sleep 0.5; echo alive"], cwd=work))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with boxes[0] as box:
        status, out, _ = box.finish(timeout=10)
        lib.check_equal((status, out), (0, b"alive\n"), "status and output")


@lib.must
def test_target_clears_pdeathsig(work):
    """a program that clears its parent-death signal still dies with the supervisor"""
    script = ("import ctypes, time\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\nprint('ready', flush=True)\ntime.sleep(300)\n")
    for victim in ("supervisor", "guard"):
        with lib.Sandbox(["-p", "baseline", "--", sys.executable, "-c", script], cwd=work) as box:
            wait_ready(box)
            os.kill(box.supervisors()[0] if victim == "supervisor" else box.guard, signal.SIGKILL)
            box.popen.wait(5)
            gone(box)


@lib.must
def test_job_is_signalled_by_a_ci_runner(work):
    """SIGINT to the entry process only, as a CI runner cancels, ends the job with the program's own status"""
    with lib.Sandbox(["-p", "baseline", "--", "sleep", "300"], cwd=work) as box:
        box.wait_for_target("sleep")
        os.kill(box.guard, signal.SIGINT)
        status, _, err = box.finish(timeout=5)
        lib.check_equal((status, err), (130, b""), "status")
        gone(box)


@lib.must
def test_output_ends_with_the_program_closing_it(work):
    """a program that closes its output and goes on lets the reader of the pipe go on; so does its input"""
    with lib.Sandbox(["-p", "baseline", "--", "sh", "-c", "echo one; exec >&- <&-; sleep 5"], cwd=work, stdin=subprocess.PIPE) as box:
        start = time.monotonic()
        lib.check_equal(box.popen.stdout.read(), b"one\n", "output up to its end")
        lib.check(time.monotonic() - start < 3, "the end of the output came with the end of the run only")
        lib.check(box.popen.poll() is None, "the program has ended already")

        def write_fails():
            try:
                os.write(box.popen.stdin.fileno(), b"x")
            except BrokenPipeError:
                return True
            return False
        lib.wait_until(write_fails, 3, "a broken pipe at the program's closed input")


@lib.must
def test_inherited_pipe_ends_with_the_program_closing_it(work):
    """the same for a descriptor handed on by --keep-fd"""
    reading, writing = os.pipe()
    with lib.Sandbox(["-p", "baseline", "--keep-fd", str(writing), "--", "sh", "-c", f"exec {writing}>&-; sleep 5"], cwd=work,
                     pass_fds=[writing]) as box:
        os.close(writing)
        start = time.monotonic()
        lib.check_equal(os.read(reading, 1), b"", "end of the pipe")
        lib.check(time.monotonic() - start < 3, "the end of the pipe came with the end of the run only")
        lib.check(box.popen.poll() is None, "the program has ended already")
    os.close(reading)


if __name__ == "__main__":
    lib.main(globals())
