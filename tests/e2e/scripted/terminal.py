#!/usr/bin/env python3
"""Job control and the state of the terminal (cases 46 of real reports, I8)."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib


def shell(work):
    box = lib.Pty(["bash", "--norc", "-i"], cwd=work)
    box.expect(r"\$ ")
    return box


def settled_modes(box):
    """The modes at the prompt: readline sets its own right after it has printed it"""
    time.sleep(0.1)
    return box.modes()


def running(box, comm):
    return [one for one in lib.descendants(box.pid) if one.comm == comm]


@lib.must
@lib.requires("bash")
def test_interrupt(work):
    """Ctrl-C ends the program with 130 and leaves the terminal as it was"""
    with shell(work) as box:
        before = settled_modes(box)
        box.send_line("sandbox-run -p baseline sleep 100; echo status=$?")
        lib.wait_until(lambda: running(box, "sleep"))
        box.interrupt()
        box.expect("status=130")
        box.expect(r"\$ ")
        lib.wait_until(lambda: box.modes() == before, what="the terminal's former modes")  # readline sets its own at the prompt
        lib.wait_until(lambda: not running(box, "sleep"))


@lib.must
@lib.requires("bash")
def test_suspend_and_resume(work):
    """Ctrl-Z stops sandbox-run and program and gives the prompt back, fg resumes, Ctrl-C ends with 130"""
    with shell(work) as box:
        box.send_line("sandbox-run -p baseline sleep 100")
        lib.wait_until(lambda: running(box, "sleep"))
        time.sleep(0.1)
        box.suspend()
        box.expect("Stopped")
        lib.wait_until(lambda: all(one.state == "T" for one in running(box, "sleep")))
        box.send_line("echo prompt=back")
        box.expect("prompt=back")
        for _ in range(3):
            box.send_line("fg")
            lib.wait_until(lambda: all(one.state == "S" for one in running(box, "sleep")))
            time.sleep(0.1)
            box.suspend()
            box.expect("Stopped")
        box.send_line("fg; echo status=$?")
        lib.wait_until(lambda: all(one.state == "S" for one in running(box, "sleep")))
        time.sleep(0.1)
        box.interrupt()
        box.expect("status=130")


@lib.must
@lib.requires("bash")
def test_background_and_kill(work):
    """a job in the background goes on, kill %1 ends it"""
    with shell(work) as box:
        box.send_line("sandbox-run -p baseline sh -c 'sleep 0.4; echo done >file; sleep 100' &")
        lib.wait_until(lambda: os.path.exists(os.path.join(work, "file")))
        box.send_line("kill %1; wait %1; echo status=$?")
        box.expect("status=143")


@lib.must
@lib.requires("bash")
def test_background_read_is_stopped(work):
    """a background job that reads the terminal is stopped, and fg lets it read"""
    with shell(work) as box:
        box.send_line("sandbox-run -p baseline sh -c 'read line; echo got=$line' &")
        lib.wait_until(lambda: any(one.state == "T" for one in running(box, "sh")))
        box.send_line("")
        box.expect("Stopped")
        box.send_line("fg")
        lib.wait_until(lambda: any(one.state == "S" for one in running(box, "sh")))
        box.send_line("hello")
        box.expect("got=hello")


@lib.must
@lib.requires("bash")
def test_inner_shell_gives_the_terminal_back(work):
    """after an interactive shell inside, the outer script's read works"""
    script = os.path.join(work, "outer.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write("sandbox-run -p baseline bash --norc -i\necho inner=$?\nread line\necho outer=$line\n")
    with shell(work) as box:
        before = settled_modes(box)
        box.send_line("sh outer.sh")
        lib.wait_until(lambda: len(running(box, "bash")) == 1)
        time.sleep(0.2)
        box.send_line("sleep 50")
        lib.wait_until(lambda: running(box, "sleep"))
        time.sleep(0.1)
        box.interrupt()
        lib.wait_until(lambda: not running(box, "sleep"))
        box.send_line("exit 4")
        box.expect("inner=4")
        box.send_line("typed")
        box.expect("outer=typed")
        box.expect(r"\$ ")
        lib.wait_until(lambda: box.modes() == before, what="the terminal's former modes")


@lib.must
@lib.requires("bash")
def test_terminal_restored_after_a_kill(work):
    """an inner shell killed in the foreground, with raw modes set: modes and foreground group come back"""
    program = "import os,tty,signal; os.setpgid(0,0); signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.tcsetpgrp(0,os.getpgrp()); tty.setraw(0); os.kill(os.getpid(),9)"
    script = os.path.join(work, "outer.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'sandbox-run -p baseline {sys.executable} -c "{program}"\necho inner=$?\nread line\necho outer=$line\n')
    with shell(work) as box:
        before = settled_modes(box)
        box.send_line("sh outer.sh")
        box.expect("inner=137")
        box.send_line("typed")
        box.expect("outer=typed")
        box.expect(r"\$ ")
        lib.wait_until(lambda: box.modes() == before, what="the terminal's former modes")


@lib.must
@lib.requires("bash")
def test_terminal_restored_after_killed_guard(work):
    """kill -9 of the guard: the supervisor restores the terminal"""
    program = "import sys,tty,time; tty.setraw(0); print('raw', flush=True); time.sleep(100)"
    with shell(work) as box:
        box.send_line("stty -a >before; true")
        box.expect(r"\$ ")
        box.send_line(f'sandbox-run -p baseline {sys.executable} -c "{program}"; stty -a >after; echo sum=$?')
        box.expect("raw\r?\n")
        guard = lib.wait_until(lambda: running(box, "sandbox-run"))[0]
        os.kill(guard.pid, signal.SIGKILL)
        box.expect("sum=0")
        with open(os.path.join(work, "before"), encoding="utf-8") as file:
            before = file.read()
        with open(os.path.join(work, "after"), encoding="utf-8") as file:
            after = file.read()
        lib.check_equal(after, before, "stty -a")


if __name__ == "__main__":
    lib.main(globals())
