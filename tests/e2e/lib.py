"""What end-to-end tests need besides a shell: where things are, processes, terminals, and a small harness for scripted
tests (tests/e2e/scripted/*.py). Standard library only. Every wait has a timeout; nothing here sleeps without one.
"""
import argparse
import ctypes
import errno
import fcntl
import functools
import os
import pty
import pwd
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("SANDBOX_RUN_SOURCE_DIR") or os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("SANDBOX_RUN_BIN_DIR") or os.path.join(SOURCE, "build", "release", "bin")
DATA = os.environ.get("SANDBOX_RUN_DATA_DIR") or os.path.join(os.path.dirname(SOURCE), "shared", "data")
POLICIES = os.path.join(SOURCE, "policies")
VICTIMS = os.path.join(BIN, "victims")
SANDBOX_RUN = os.environ.get("SANDBOX_RUN_BINARY") or os.path.join(BIN, "sandbox-run")
MARKER = "SANDBOX_RUN_E2E_MARKER"
MUST_WORK = os.environ.get("SANDBOX_RUN_MUST_WORK") == "1"
SKIPPED = 77
OWN_NAMES = ("sandbox-run", "srun-")  # comm of guard and supervisor
PR_SET_CHILD_SUBREAPER = 36


class Skip(Exception):
    """Raised by a test that cannot run here; the text names what is missing."""


class Failure(AssertionError):
    """Raised by a test that did not see what it expects; the text says what it saw."""


# ---------------------------------------------------------------- requirements

def missing_requirement(word):
    """None if the host has it, else a text that names what is missing. The words are listed in README.md."""
    kind, _, rest = word.partition(":")
    if not rest:
        return None if shutil.which(word) else f"program {word}"
    if kind == "victim":
        return None if os.access(os.path.join(VICTIMS, rest), os.X_OK) else f"victim {rest} (not built here)"
    if kind == "arch":
        return None if os.uname().machine == rest else f"processor {rest}"
    if kind == "kernel":
        running = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
        return None if running >= tuple(int(part) for part in rest.split(".")) else f"Linux {rest} or newer"
    if kind == "data":
        return None if os.path.exists(os.path.join(DATA, rest)) else f"{rest} in SANDBOX_RUN_DATA_DIR ({DATA})"
    if kind == "file":
        return None if os.path.exists(rest) else f"file {rest}"
    if kind == "cpus":
        return None if len(os.sched_getaffinity(0)) >= int(rest) else f"{rest} CPUs"
    if kind == "feature":
        return None if FEATURES[rest]() else f"feature {rest}"
    raise ValueError(f"unknown requirement {word!r}")


def _runs(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=20, check=False).returncode == 0


def _int80():
    victim = os.path.join(VICTIMS, "int80")
    return os.access(victim, os.X_OK) and _runs(victim, "probe")


FEATURES = {
    "int80": functools.lru_cache(_int80),  # the kernel takes i386 calls
    "x32": functools.lru_cache(lambda: _runs(os.path.join(VICTIMS, "x32"), "probe")),  # … and x32 calls
    "userns": functools.lru_cache(lambda: _runs("unshare", "--user", "true")),
    "go": functools.lru_cache(lambda: _runs("go", "version")),
}


# ---------------------------------------------------------------- processes

class Process:
    """One row of /proc/PID/stat (proc(5)); a snapshot."""

    def __init__(self, pid):
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.comm = head.partition(b"(")[2].decode("utf-8", "replace")
        self.state = fields[0].decode()
        self.ppid, self.pgrp, self.session, self.tty = (int(field) for field in fields[1:5])
        self.start_time = int(fields[19])

    @property
    def alive(self):
        return self.state not in "ZX"

    def command_line(self):
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as file:
                return file.read().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            return ""

    def __str__(self):
        return f"{self.pid} ({self.comm}, state {self.state}, parent {self.ppid}, session {self.session}): {self.command_line()}"


def process(pid):
    """The process, or None if it is gone."""
    try:
        return Process(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def processes():
    found = [process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    return [one for one in found if one]


def descendants(pid):
    """All processes below `pid`, not `pid` itself; zombies included."""
    children = {}
    for one in processes():
        children.setdefault(one.ppid, []).append(one)
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += [one.pid for one in below]
    return found


def marked(value):
    """Living processes with MARKER=value in their initial environment: also those that left the tree. Only what this
    user may read is seen (root sees all)."""
    wanted = f"{MARKER}={value}".encode()
    found = []
    for one in processes():
        try:
            with open(f"/proc/{one.pid}/environ", "rb") as file:
                if one.alive and wanted in file.read().split(b"\0"):
                    found.append(one)
        except OSError:
            continue
    return found


def proc_field(pid, field):
    """A line of /proc/PID/status: proc_field(pid, "NoNewPrivs") == "1"."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    raise Failure(f"/proc/{pid}/status has no field {field}")


def wait_until(predicate, timeout=5.0, what="the condition"):
    """Polls until predicate() is true and returns its value; Failure after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what} did not come about within {timeout} s")
        time.sleep(0.005)


def become_subreaper():
    """Orphans of the tests become this process's children, so that none can get away unseen (prctl(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


# Children that a Sandbox or Pty object waits for itself. Reaping one of them here would make subprocess report status 0.
OWNED = set()


def reap_orphans():
    """Collects dead children that no object of this module waits for."""
    for one in descendants(os.getpid()):
        if one.ppid == os.getpid() and one.state == "Z" and one.pid not in OWNED:
            try:
                os.waitpid(one.pid, os.WNOHANG)
            except ChildProcessError:
                pass


def survivors(marker=None, grace=0.2):
    """Living descendants of this process (and marked processes), the OWNED ones aside, that are still there after
    `grace` seconds."""
    end = time.monotonic() + grace
    while True:
        reap_orphans()
        left = {one.pid: one for one in descendants(os.getpid()) if one.alive and one.pid not in OWNED}
        if marker:
            left.update({one.pid: one for one in marked(marker) if one.pid not in OWNED})
        if not left or time.monotonic() > end:
            return list(left.values())
        time.sleep(0.005)


def kill_all(found):
    """Kills the given processes and whatever they left behind below this process."""
    for one in found:
        now = process(one.pid)
        if now and now.start_time == one.start_time:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
    end = time.monotonic() + 5
    while time.monotonic() < end:
        left = [one for one in descendants(os.getpid()) if one.alive and one.pid not in OWNED]
        if not left:
            break
        for one in left:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.005)
    reap_orphans()


# ---------------------------------------------------------------- running the product

def _policies_as_configuration():
    folder = os.path.join(os.path.dirname(BIN.rstrip("/")), "test-config")
    os.makedirs(os.path.join(folder, "sandbox-run"), exist_ok=True)
    try:
        os.symlink(POLICIES, os.path.join(folder, "sandbox-run", "policies"))
    except FileExistsError:
        pass
    return folder


def environment(**more):
    """A clean environment for a run; HOME and TMPDIR are the caller's to set."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SANDBOX_RUN_DATA_DIR") if name in os.environ}
    path = os.environ.get("PATH", os.defpath)
    if not os.path.exists(os.path.join(os.path.realpath(BIN), "../../../policies")):
        # A build folder outside the source tree: the shipped policies are found as the user's own.
        kept["XDG_CONFIG_HOME"] = _policies_as_configuration()
    kept.update(PATH=f"{BIN}{os.pathsep}{path}", LANG="C.UTF-8", TZ="UTC", TERM="dumb", V=VICTIMS, POLICIES=POLICIES)
    kept.update(more)
    return kept


class Sandbox:
    """A running sandbox-run: `with Sandbox(["-p", "baseline", "sleep", "100"]) as box:`. Kills what is left at the end."""

    def __init__(self, arguments, cwd=None, env=None, binary=None, **popen):
        self.marker = f"{os.getpid()}-{time.monotonic_ns()}"
        variables = environment(**(env or {}))
        variables[MARKER] = self.marker
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        self.popen = subprocess.Popen([binary or SANDBOX_RUN, *arguments], cwd=cwd, env=variables, **popen)
        OWNED.add(self.popen.pid)

    @property
    def guard(self):
        return self.popen.pid

    def supervisors(self):
        """Descendants that run sandbox-run's own binary: the supervisor (one process in the present design), and for a
        moment before its exec the target."""
        return [one.pid for one in descendants(self.guard) if one.alive and one.comm.startswith(OWN_NAMES)]

    def targets(self):
        return [one.pid for one in descendants(self.guard) if one.alive and not one.comm.startswith(OWN_NAMES)]

    def wait_for_target(self, comm, timeout=10):
        """The pid of the first living descendant with that comm."""
        def look():
            return [one.pid for one in descendants(self.guard) if one.alive and one.comm == comm]
        return wait_until(look, timeout, f"a process {comm} below sandbox-run")[0]

    def survivors(self, grace=1.0):
        """What is left of the run besides sandbox-run's first process; other Sandboxes' members are counted too."""
        return survivors(self.marker, grace)

    def finish(self, timeout=30):
        """(status, stdout, stderr); a status below 0 means that sandbox-run itself died of a signal."""
        out, err = self.popen.communicate(timeout=timeout)
        return self.popen.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(10)
        OWNED.discard(self.popen.pid)
        kill_all(survivors(self.marker, 0.0))
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream:
                stream.close()


# ---------------------------------------------------------------- terminals

class Pty:
    """A program on its own terminal, as session leader: `with Pty(["bash", "--norc", "-i"]) as shell:`."""

    def __init__(self, argv, cwd=None, env=None, rows=24, columns=80):
        variables = env if env is not None else environment(TERM="dumb", PS1="$ ")
        self.output = b""
        self.position = 0  # everything before it has been matched by expect()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                if cwd:
                    os.chdir(cwd)
                os.execvpe(argv[0], argv, variables)
            finally:
                os._exit(127)
        OWNED.add(self.pid)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.status = None

    def send(self, data):
        os.write(self.fd, data.encode() if isinstance(data, str) else data)

    def send_line(self, text):
        self.send(text + "\r")

    def interrupt(self):
        self.send(b"\x03")

    def suspend(self):
        self.send(b"\x1a")

    def _read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:  # EIO: the last process has closed the terminal
            if error.errno != errno.EIO:
                raise
            data = b""
        self.output += data
        return bool(data)

    def expect(self, pattern, timeout=10.0):
        """Waits until the output after the last match matches the regular expression; returns the match."""
        compiled = re.compile(pattern.encode() if isinstance(pattern, str) else pattern)
        end = time.monotonic() + timeout
        open_ = True
        while True:
            match = compiled.search(self.output, self.position)
            if match:
                self.position = match.end()
                return match
            left = end - time.monotonic()
            if left <= 0 or not open_:
                raise Failure(f"expected {pattern!r} on the terminal, have {self.output[self.position:]!r}")
            open_ = self._read(left)

    def foreground_group(self):
        return os.tcgetpgrp(self.fd)

    def modes(self):
        """termios attributes of the terminal, to compare before and after."""
        return termios.tcgetattr(self.fd)

    def wait(self, timeout=10.0):
        """Exit status of the program (128+N for a signal), reading its output meanwhile."""
        end = time.monotonic() + timeout
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
            elif time.monotonic() > end:
                raise Failure(f"{self.pid} did not end within {timeout} s; terminal: {self.output[-2000:]!r}")
            else:
                self._read(0.01)
        while self._read(0) and select.select([self.fd], [], [], 0)[0]:
            pass
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        found = descendants(self.pid)
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        OWNED.discard(self.pid)
        os.close(self.fd)
        kill_all(found)


# ---------------------------------------------------------------- harness for scripted tests

def must(function):
    """With SANDBOX_RUN_MUST_WORK=1 a skip of this test is a failure."""
    function.must = True
    return function


def only(half):
    """@only("root") or @only("user")."""
    def mark(function):
        function.half = half
        return function
    return mark


def requires(*words):
    def mark(function):
        function.requirements = words
        return function
    return mark


def check(condition, text):
    if not condition:
        raise Failure(text)


def check_equal(got, expected, what):
    if got != expected:
        raise Failure(f"{what}: expected {expected!r}, got {got!r}")


class Report:
    """Counts and prints outcomes; the exit status that CTest reads comes from here."""

    def __init__(self, title):
        self.title = title
        self.passed = self.failed = self.skipped = 0

    def ok(self, name, seconds):
        self.passed += 1
        print(f"ok      {name} ({seconds:.2f} s)", flush=True)

    def fail(self, name, text):
        self.failed += 1
        print(f"FAILED  {name}", flush=True)
        for line in text.rstrip("\n").split("\n"):
            print(f"        {line}", flush=True)

    def skip(self, name, reason, must_work):
        if must_work and MUST_WORK:
            self.fail(name, f"must work, but was skipped: {reason}")
        else:
            self.skipped += 1
            print(f"skipped {name}: {reason}", flush=True)

    def close(self):
        print(f"{self.title}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        if self.failed:
            return 1
        return 0 if self.passed else SKIPPED


def wrong_half(half):
    """None if this process may run that half ("root", "user" or "any"), else why not."""
    if half == "root" and os.geteuid() != 0:
        return "the root half needs root"
    if half == "user" and os.geteuid() == 0:
        return "the user half must not run as root (see tests/support/as_user.py)"
    return None


def user_name():
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def main(tests):
    """End of every scripted test: `if __name__ == "__main__": lib.main(globals())`. Runs the functions test_*(work) in
    order of definition, each with a fresh work folder; the first line of the docstring is the test's sentence."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=["root", "user", "any"], default="any")
    parser.add_argument("--filter", default="", help="regular expression on names")
    parser.add_argument("--keep", action="store_true", help="keep the work folders")
    options = parser.parse_args()
    title = os.path.basename(sys.argv[0]).removesuffix(".py")
    reason = wrong_half(options.half)
    if reason:
        print(f"skipped {title}: {reason}")
        sys.exit(SKIPPED)
    become_subreaper()
    half = "root" if os.geteuid() == 0 else "user"
    report = Report(title)
    for name, function in list(tests.items()):
        if not name.startswith("test_") or getattr(function, "half", half) != half:
            continue
        sentence = (function.__doc__ or name).strip().split("\n")[0].rstrip(".")
        if not re.search(options.filter, sentence) and not re.search(options.filter, name):
            continue
        lacking = [text for text in map(missing_requirement, getattr(function, "requirements", ())) if text]
        must_work = getattr(function, "must", False)
        if lacking:
            report.skip(sentence, f"needs {', '.join(lacking)}", must_work)
            continue
        work = tempfile.mkdtemp(prefix="sandbox-run-e2e-")
        start = time.monotonic()
        try:
            function(work)
            left = survivors(grace=0.2)
            if left:
                raise Failure("left behind:\n" + "\n".join(str(one) for one in left))
            report.ok(sentence, time.monotonic() - start)
        except Skip as skip:
            report.skip(sentence, str(skip), must_work)
        except Failure as failure:
            report.fail(sentence, str(failure))
        except Exception:  # a broken test is a failed test, the next ones still run
            report.fail(sentence, traceback.format_exc())
        finally:
            kill_all(survivors(grace=0.0))
            if options.keep:
                print(f"        kept {work}")
            else:
                shutil.rmtree(work, ignore_errors=True)
    sys.exit(report.close())
