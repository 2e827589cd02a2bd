#!/usr/bin/env python3
"""Compares sandbox-strace with the installed strace on small programs (trace-programs), per task and normalised.

  differential.py [--only REGEX] [--verbose] BIN_DIR

Exit status 0: no difference that allowed_differences.txt does not explain; 77: no strace, or another version than the one
whose format is followed; 1: the differences are printed as a diff.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "6.1"
PREFIX = re.compile(r"^(\d+) +")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")


def run(tracer, program, folder, extra=()):
    """The lines of one traced run, and the status that it ended with."""
    work = tempfile.mkdtemp(dir=folder)
    os.chmod(work, 0o777)
    log = os.path.join(work, "log")
    env = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}
    inner = os.path.join(work, "in")
    os.mkdir(inner)
    done = subprocess.run(["setarch", "-R", tracer, "-f", "-o", log, *extra, *program], cwd=inner, env=env, timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open(log, encoding="latin-1") as file:
        lines = file.read().splitlines()
    shutil.rmtree(work)
    return lines, done


def tasks(lines):
    """Lines by task in order of appearance, cut lines joined (N6)."""
    result, open_lines = {}, {}
    for line in lines:
        match = PREFIX.match(line)
        if not match:
            raise ValueError("no task id: " + line)
        tid, text = match[1], line[match.end():]
        mine = result.setdefault(tid, [])
        if text.endswith(" <unfinished ...>"):
            open_lines[tid] = text[:-len(" <unfinished ...>")]
            continue
        resumed = RESUMED.match(text)
        if resumed:
            start = open_lines.pop(tid, None)
            if start is None:
                raise ValueError("resumed but never cut: " + line)
            text = start + resumed[2]
        superseded = re.match(r"\+\+\+ superseded by execve in pid (\d+) ", text)
        if superseded and superseded[1] in open_lines:
            open_lines[tid] = open_lines.pop(superseded[1])  # the executing thread goes on under the leader's id (R33)
        mine.append(text)
    if open_lines:
        raise ValueError("never resumed: %r" % open_lines)
    return result


def normalise(by_task):
    ids = {tid: "T%d" % i for i, tid in enumerate(by_task)}
    out = []
    for lines in by_task.values():
        addresses = {}
        mine = []
        for line in lines:
            line = re.sub(r"(?<![\w.])(\d+)(?!\w)", lambda m: ids.get(m[1], m[1]), line)
            line = re.sub(r"0x[0-9a-f]{6,}", lambda m: addresses.setdefault(m[0], "A%d" % len(addresses)), line)
            line = re.sub(r"\) += ", ") = ", line)
            line = re.sub(r"\[\d{4,}\]", "[INODE]", line)
            line = re.sub(r"htons\(\d{4,}\)", "htons(PORT)", line)
            line = re.sub(r'^getrandom\("[^"]*"', 'getrandom("RANDOM"', line)
            line = re.sub(r"tv_(sec|usec|nsec)=\d+(?=.*\.\.\.\})", r"tv_\1=N", line) if "rusage" in line or "wait4" in line else line
            line = re.sub(r"=\d+", "=N", line) if line.startswith(("sysinfo", "statfs")) else line
            line = re.sub(r"loads=\[[\d, ]*\]", "loads=[]", line)
            line = re.sub(r"/\* \d+ vars? \*/", "/* N vars */", line) if "[" in line and False else line
            line = re.sub(r"si_[us]time=\d+( /\* \S+ s \*/)?", "si_time=N", line)
            line = re.sub(r"left \{tv_sec=0, tv_(usec|nsec)=\d+\}", r"left {tv_\1=N}", line)
            line = re.sub(r"it_value=\{tv_sec=0, tv_usec=[1-9]\d*\}", "it_value=N", line)
            line = re.sub(r"^getppid\(\) = \d+", "getppid() = N", line)
            # A thread that ends at once has cleared the word again (CLONE_CHILD_CLEARTID points to the same).
            line = re.sub(r"=> \{parent_tid=\[(0|T\d+)\]\}", "=> {parent_tid=[TID]}", line)
            mine.append(line)
        # When a child's death is noticed is up to the scheduler: those lines are compared apart from the order.
        deaths = sorted(line for line in mine if line.startswith("--- SIGCHLD"))
        out.append([line for line in mine if not line.startswith("--- SIGCHLD")] + deaths)
    return out


def load_allowed():
    rows = []
    with open(os.path.join(HERE, "allowed_differences.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                program, pattern, reason = line.rstrip("\n").split("\t")
                rows.append([program, re.compile(pattern), reason, 0])
    return rows


def main():
    args = sys.argv[1:]
    only = re.compile(args.pop(args.index("--only") + 1)) if "--only" in args else None
    args = [a for a in args if a != "--only"]
    bin_dir = os.path.abspath(args[-1])
    strace = shutil.which("strace")
    if strace is None:
        print("SKIP: strace is not installed")
        return 77
    version = subprocess.run([strace, "--version"], capture_output=True, text=True).stdout.split()[3:4]
    if version != [VERSION]:
        print("SKIP: strace is %s, the comparison is made for %s" % (version, VERSION))
        return 77
    programs = subprocess.run([os.path.join(bin_dir, "trace-programs")], capture_output=True, text=True, check=True).stdout.split()
    allowed = load_allowed()
    bad = 0
    compared = 0
    with tempfile.TemporaryDirectory(prefix="trace-diff-") as folder:
        os.chmod(folder, 0o777)
        for name in programs:
            if only and not only.search(name):
                continue
            command = [os.path.join(bin_dir, "trace-programs"), name]
            sides = []
            try:
                for tracer in (strace, os.path.join(bin_dir, "sandbox-strace")):
                    lines, done = run(tracer, command, folder)
                    sides.append((normalise(tasks(lines)), done.returncode, len(lines)))
            except (ValueError, subprocess.TimeoutExpired) as error:
                print("FAIL %s: %s" % (name, error))
                bad += 1
                continue
            (theirs, status, count), (ours, our_status, _) = sides
            compared += count
            report = []
            if status != our_status:
                report.append("exit status %s, ours %s" % (status, our_status))
            if len(theirs) != len(ours):
                report.append("%d tasks, ours %d" % (len(theirs), len(ours)))
            for task, (left, right) in enumerate(zip(theirs, ours)):
                for row in allowed:
                    if row[0] not in ("*", name):
                        continue
                    kept = [[line for line in side if not row[1].search(line)] for side in (left, right)]
                    row[3] += len(left) + len(right) - len(kept[0]) - len(kept[1])
                    left, right = kept
                report += list(difflib.unified_diff(left, right, "strace task %d" % task, "ours task %d" % task, lineterm="", n=0))
            if report:
                bad += 1
                print("FAIL " + name)
                print("\n".join("  " + line for line in report))
            else:
                print("ok " + name)
    for program, pattern, _, used in allowed:
        if used == 0 and not only:
            print("FAIL allowed_differences.txt: nothing matches %s %s" % (program, pattern.pattern))
            bad += 1
    print("%d programs differ, %d lines of strace compared" % (bad, compared))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
