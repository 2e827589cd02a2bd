#!/usr/bin/env python3
"""What must hold of sandbox-strace whatever it traces: invariants.py BIN_DIR. Exit status 0, or 1 with what failed."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[-1])
STRACE = os.path.join(BIN, "sandbox-strace")
PROGRAMS = os.path.join(BIN, "trace-programs")
ENV = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}
FAILED = []
CHECKS = 0


def check(condition, text):
    global CHECKS
    CHECKS += 1
    if not condition:
        FAILED.append(text)
        print("FAIL " + text)


class Folder:
    def __enter__(self):
        self.box = tempfile.TemporaryDirectory(prefix="trace-inv-")
        return self.box.name

    def __exit__(self, *_):
        self.box.cleanup()


def trace(folder, options, program, log="log", **more):
    path = os.path.join(folder, log)
    done = subprocess.run(["setarch", "-R", STRACE, *options, "-o", path, *program], cwd=folder, env=ENV, timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if not os.path.exists(path):
        return [], done
    with open(path, encoding="latin-1") as file:
        return file.read().splitlines(), done


def plain(line):
    """What may differ between two runs of one program."""
    line = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", line)
    line = re.sub(r"\) += ", ") = ", line)
    line = re.sub(r"\b\d{3,}\b", "N", line)
    line = re.sub(r"si_[us]time=\d+( /\* \S+ s \*/)?", "", line)
    line = re.sub(r"tv_(sec|usec|nsec)=\d+", "T", line)
    return re.sub(r'getrandom\("[^"]*"', "getrandom(", line)


def name_of(line):
    match = re.match(r"(\w+)\(", line)
    return match[1] if match else None


CALM = ["nothing", "files", "strings", "bad_pointers", "descriptors", "vectors", "memory", "prctls", "futexes", "open_flags", "unknown_calls"]


def filters():
    for program in CALM:
        with Folder() as folder:
            full, _ = trace(folder, [], [PROGRAMS, program])
            full = [plain(line) for line in full]
            # I1, I3
            for line in full:
                check(re.match(r"(\w+\(.*\) = (-?\d+|0x[0-9a-f]+|\?|ADDRESS|N|-?N).*|--- .* ---|\+\+\+ .* \+\+\+)$", line), "I1 %s: %s" % (program, line))
            check(full[0].startswith("execve(") and full[-1].startswith("+++ exited with 0"), "I3 " + program)
            # I4
            for expression in ("openat,write", "%file", "!%memory", "/^(read|mmap)", "?nosuchcall,close", "@file-system"):
                lines, done = trace(folder, ["-e", "trace=" + expression], [PROGRAMS, program])
                check(done.returncode == 0, "I4 status %s %s: %s" % (program, expression, done.stderr))
                names = {name_of(plain(line)) for line in lines}
                expected = [line for line in full if name_of(line) in names or name_of(line) is None]
                check([plain(line) for line in lines] == expected, "I4 %s -e trace=%s" % (program, expression))
            # I5
            plain_f, _ = trace(folder, ["-f", "-e", "trace=openat,write,close"], [PROGRAMS, program])
            quick, _ = trace(folder, ["-f", "--seccomp-bpf", "-e", "trace=openat,write,close"], [PROGRAMS, program])
            check([plain(line) for line in plain_f] == [plain(line) for line in quick], "I5 " + program)
            # I6
            good, _ = trace(folder, ["-z"], [PROGRAMS, program])
            bad, _ = trace(folder, ["-Z"], [PROGRAMS, program])
            calls = [line for line in full if name_of(line) and not line.endswith("= ?")]
            count = sum(1 for line in good + bad if name_of(line))
            check(count == len(calls), "I6 %s: %d + %d, full %d" % (program, len(good), len(bad), len(calls)))
            # I7
            table, _ = trace(folder, ["-c"], [PROGRAMS, program])
            total = [line.split() for line in table if line.endswith(" total")]
            errors = sum(1 for line in full if " = -1 E" in line)
            check(len(total) == 1 and int(total[0][3]) == len(calls) and (int(total[0][4]) if len(total[0]) > 5 else 0) == errors,
                  "I7 %s: %s, full %d calls, %d errors" % (program, total, len(calls), errors))
            # I9
            records, _ = trace(folder, ["--json"], [PROGRAMS, program])
            check([plain(line) for line in map(as_text, records) if line] == full, "I9 " + program)


def as_text(record):
    event = json.loads(record)
    if event["event"] == "call":
        result = event.get("result_text", "?")
        return "%s(%s) = %s" % (event["call"], ", ".join(arg["text"] for arg in event["args"]), result)
    if event["event"] == "exit":
        return "+++ exited with %d +++" % event["status"]
    if event["event"] == "killed":
        return "+++ killed by %s +++" % event["signal"]
    if event["event"] == "signal":
        return "--- %s %s ---" % (event["signal"], event["text"])
    return None


def contract():
    with Folder() as folder:
        # I10
        for program, status in (("exit_status", 42), ("killed", -9), ("killed_term", -15), ("segfault", -11), ("nothing", 0)):
            for options in ([], ["-f"], ["-c"], ["-f", "--seccomp-bpf"], ["--json"]):
                _, done = trace(folder, options, [PROGRAMS, program])
                check(done.returncode == status, "I10 %s %s: %d" % (program, options, done.returncode))
        # I11
        lines, done = trace(folder, ["-f"], ["/bin/sh", "-c", "echo out; echo err >&2; ls /nonexistent"])
        alone = subprocess.run(["/bin/sh", "-c", "echo out; echo err >&2; ls /nonexistent"], env=ENV, capture_output=True)
        kept = b"".join(line for line in done.stderr.splitlines(True) if not line.startswith(b"sandbox-strace: Process"))
        check((done.stdout, kept, done.returncode) == (alone.stdout, alone.stderr, alone.returncode), "I11")
        # Refused before anything starts.
        for options in (["-e", "trace=nosuchcall"], ["-e", "nosuchkey=1"], ["-e", "inject=read"], ["--seccomp-bpf"], ["--nosuch"], ["-X", "odd"],
                        ["-e", "inject=read:error=ENOSUCH"], ["-e", "signal=SIGNONE"], ["-e", "status=odd"], ["-w"]):
            lines, done = trace(folder, options, ["/bin/touch", "made"], log="none")
            check(done.returncode == 1 and not os.path.exists(os.path.join(folder, "made")), "refused: %s" % options)
        _, done = trace(folder, [], ["nosuchprogram"], log="none2")
        check(done.returncode == 1 and b"Can't stat 'nosuchprogram'" in done.stderr, "not found: %s" % done.stderr)
        # -ff, -o |command
        trace(folder, ["-ff"], [PROGRAMS, "forks"], log="many")
        check(len([name for name in os.listdir(folder) if name.startswith("many.")]) == 4, "-ff: one file per task")
        done = subprocess.run([STRACE, "-o", "|cat >piped", PROGRAMS, "nothing"], cwd=folder, env=ENV, capture_output=True)
        with open(os.path.join(folder, "piped")) as file:
            check(file.read().splitlines()[-1] == "+++ exited with 0 +++", "-o |command")
        # -E, -n, -i, -T, -t, -y
        lines, _ = trace(folder, ["-v", "-E", "EXTRA=1", "-E", "TZ", "-e", "trace=execve"], ["/bin/true"])
        check('"EXTRA=1"' in lines[0] and "TZ=" not in lines[0], "-E: " + lines[0])
        lines, _ = trace(folder, ["-n", "-i", "-T", "-ttt", "-r"], ["/bin/true"])
        check(re.match(r"\d+\.\d{6} \(\+ +\d+\.\d{6}\) \[  59\] \[[0-9a-f]{16}\] execve\(.* = 0 <\d+\.\d{6}>$", lines[0]), "times: " + lines[0])
        lines, _ = trace(folder, ["-y", "-e", "trace=openat,read"], ["/bin/cat", "/etc/hostname"])
        check(any(re.search(r"= 3</etc/hostname>$", line) for line in lines), "-y")
        lines, _ = trace(folder, ["-yy", "-e", "trace=openat"], ["/bin/cat", "/dev/null"])
        check(any(line.endswith("= 3</dev/null<char 1:3>>") for line in lines), "-yy")
        # paths and errnos
        os.mkdir(os.path.join(folder, "sub"))
        with open(os.path.join(folder, "sub", "file"), "w") as file:
            file.write("x")
        lines, _ = trace(folder, ["--trace-path-prefix=" + os.path.join(folder, "sub"), "-e", "trace=openat"], ["/bin/sh", "-c", "cat <sub/../sub/file"])
        check(len([line for line in lines if name_of(line)]) == 1, "--trace-path-prefix: %s" % lines)
        lines, _ = trace(folder, ["--errno=ENOENT"], ["/bin/sh", "-c", ": </nonexistent"])
        check(lines and all("ENOENT" in line for line in lines if name_of(line)), "--errno")
        # inject
        lines, _ = trace(folder, ["-e", "trace=openat", "-e", "inject=openat:error=EMFILE:when=2"], ["/bin/cat", "/etc/hostname"])
        opens = [line for line in lines if name_of(line)]
        check(" EMFILE " in opens[1] and opens[1].endswith("(INJECTED)") and "INJECTED" not in opens[0], "inject error: %s" % opens)
        lines, done = trace(folder, ["-e", "trace=getppid,exit_group", "-e", "inject=getppid:retval=7"], [PROGRAMS, "identities"])
        check(any(re.match(r"getppid\(\) += 7 \(INJECTED\)$", line) for line in lines), "inject retval: %s" % lines)
        _, done = trace(folder, ["-e", "inject=exit_group:signal=KILL"], ["/bin/true"])
        check(done.returncode == -9, "inject signal: %d" % done.returncode)


def attaching():
    with Folder() as folder:
        log = os.path.join(folder, "log")
        # A running tree: attach, detach by a signal, the program goes on.
        victim = subprocess.Popen(["/bin/sh", "-c", "while :; do /bin/sleep 0.05; done"])
        tracer = subprocess.Popen([STRACE, "-f", "-o", log, "-p", str(victim.pid)], stderr=subprocess.PIPE, env=ENV)
        time.sleep(0.7)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)
        check(tracer.returncode == -signal.SIGINT, "detach: tracer's status %s" % tracer.returncode)
        time.sleep(0.2)
        with open("/proc/%d/status" % victim.pid) as file:
            status = file.read()
        check("TracerPid:\t0" in status and victim.poll() is None, "detach: the program goes on untraced")
        victim.kill()
        victim.wait()
        with open(log) as file:
            text = file.read()
        check("wait4(" in text and "execve(" in text, "attach: the tree is followed")
        # A tracer that is killed takes the program with it that it started.
        marker = "77.%d" % os.getpid()
        tracer = subprocess.Popen([STRACE, "-f", "-o", log, "/bin/sleep", marker], stderr=subprocess.PIPE, env=ENV)
        time.sleep(0.5)
        children = subprocess.run(["pgrep", "-P", str(tracer.pid)], capture_output=True, text=True).stdout.split()
        tracer.kill()
        tracer.wait()
        time.sleep(0.3)
        check(len(children) == 1 and not alive(children[0]), "EXITKILL")
        # A program that traces itself: PTRACE_TRACEME fails with EPERM for it, it is not broken by it.
        lines, done = trace(folder, ["-f"], [STRACE, "-o", os.path.join(folder, "inner"), "/bin/true"])
        check(done.returncode == 1 and b"Operation not permitted" in done.stderr, "nested: %s" % done.stderr[-200:])


def alive(pid):
    try:
        with open("/proc/%s/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


filters()
contract()
attaching()
print("%d checks, %d failed" % (CHECKS, len(FAILED)))
sys.exit(1 if FAILED else 0)
