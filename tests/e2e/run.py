#!/usr/bin/env python3
"""Runs end-to-end cases written as data: run.py [--half root|user|any] [--filter REGEX] [--keep] FILE.case…

The format is described in README.md beside this file. Exit status: 0 all passed, 1 something failed, 77 all skipped.
"""
import argparse
import difflib
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lib  # noqa: E402  (found beside this file, wherever it was started)

MODES = ("async", "sync", "pinned", "auto")
# Directives that may come several times; of the others the last one of a case (or of the file's head) holds.
REPEATED = ("POLICY", "FILE", "ENV", "REQUIRES", "EXPECT_STDOUT", "EXPECT_STDERR", "CHECK", "TREE_IGNORE")
SINGLE = ("NAME", "RUN", "SETUP", "STDIN", "EXPECT_STATUS", "COMPARE_NATIVE", "TIMEOUT", "USER", "REPEAT", "MODES",
          "MUST", "GRACE", "SHELL")
MATCHERS = ("exact", "contains", "absent", "regex", "count", "empty", "any")


class FormatError(Exception):
    pass


class Case:
    """The directives of one case, already checked; see README.md for their meaning."""

    def __init__(self, file, line, directives):
        self.file, self.line = file, line
        values = {}
        for name, value in directives:
            if name in REPEATED:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value

        def fail(text):
            raise FormatError(f"{file}:{line}: {values.get('NAME', '?')}: {text}")

        self.name = values["NAME"]
        if "RUN" not in values:
            fail("no RUN")
        self.run, self.setup, self.stdin = values["RUN"], values.get("SETUP", ""), values.get("STDIN")
        self.checks = values.get("CHECK", [])
        self.shell = values.get("SHELL", "sh")
        self.user = values.get("USER", "both")
        if self.user not in ("root", "user", "both"):
            fail("USER is root, user or both")
        self.must = values.get("MUST", "no") == "yes"
        self.timeout, self.grace = float(values.get("TIMEOUT", 30)), float(values.get("GRACE", 0.2))
        self.repeat = int(values.get("REPEAT", 1))
        modes = values.get("MODES", "").split()
        self.modes = list(MODES) if modes == ["all"] else modes or [""]
        if any(mode and mode not in MODES for mode in self.modes):
            fail(f"MODES are {' '.join(MODES)} or all")
        self.requires = [word for line_ in values.get("REQUIRES", []) for word in line_.split()]
        self.environment = dict(line_.split("=", 1) for line_ in values.get("ENV", []))
        compare = values.get("COMPARE_NATIVE", "").split()
        if any(word not in ("yes", "tree", "stderr") for word in compare):
            fail("COMPARE_NATIVE takes yes, tree and stderr")
        self.compare, self.compare_tree, self.compare_stderr = bool(compare), "tree" in compare, "stderr" in compare
        if self.compare and " -- " not in self.run:
            fail("COMPARE_NATIVE needs `sandbox-run options -- program` in RUN, so that the options can be taken off")
        self.tree_ignore = values.get("TREE_IGNORE", [])
        self.status = values.get("EXPECT_STATUS", None if self.compare else "0")
        self.policies, self.policy_name = [], None
        for value in values.get("POLICY", []):
            head, text = value
            if text is None and not head.startswith("{"):
                self.policy_name = head
            else:
                self.policies.append((head if text is not None and head else "policy.json", text or head))
        self.files = []
        for head, text in values.get("FILE", []):
            words = head.split()
            if text is None or len(words) not in (1, 2):
                fail("FILE NAME [MODE] <<END")
            self.files.append((words[0], int(words[1], 8) if len(words) == 2 else 0o644, text))
        self.expected = []
        for stream in ("EXPECT_STDOUT", "EXPECT_STDERR"):
            for head, text in values.get(stream, []):
                kind, _, rest = head.partition(" ")
                if kind not in MATCHERS:
                    fail(f"{stream} begins with one of {' '.join(MATCHERS)}")
                number = None
                if kind == "count":
                    number, _, rest = rest.partition(" ")
                    if not number.isdigit():
                        fail(f"{stream} count N TEXT")
                self.expected.append((stream[7:].lower(), kind, number, rest if text is None else text, text is not None))


HEREDOC = re.compile(r"^(.*?)\s*<<(\w+)$")


def parse(path):
    """All cases of a file. What stands before the first NAME holds for every case."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    head, cases, current, start = [], [], None, 0
    number = 0
    while number < len(lines):
        line = lines[number].rstrip()
        number += 1
        if not line or line.startswith("#"):
            continue
        word, _, value = line.partition(" ")
        value = value.strip()
        if word not in REPEATED and word not in SINGLE:
            raise FormatError(f"{path}:{number}: unknown directive {word!r}")
        text = None
        match = HEREDOC.match(value) or (HEREDOC.match(value + " ") if value.startswith("<<") else None)
        if match:
            first, value = number, match.group(1).strip()
            body = []
            while number < len(lines) and lines[number] != match.group(2):
                body.append(lines[number])
                number += 1
            if number == len(lines):
                raise FormatError(f"{path}:{first}: no line {match.group(2)!r} ends this text")
            number += 1
            text = "".join(one + "\n" for one in body)
        if word in ("POLICY", "FILE", "EXPECT_STDOUT", "EXPECT_STDERR"):
            value = (value, text)
        elif text is not None:
            if value:
                raise FormatError(f"{path}:{number}: {word} takes a line or a text, not both")
            value = text
        elif word == "STDIN":
            value += "\n"
        if word == "NAME":
            if current:
                cases.append(Case(path, start, head + current))
            current, start = [(word, value)], number
        elif current is None:
            head.append((word, value))
        else:
            current.append((word, value))
    if current:
        cases.append(Case(path, start, head + current))
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise FormatError(f"{path}: two cases are named {name!r}")
    if not cases:
        raise FormatError(f"{path}: no NAME, so no case")
    return cases


class Outcome:
    def __init__(self, status, stdout, stderr, tree):
        self.status, self.stdout, self.stderr, self.tree = status, stdout, stderr, tree


class Run:
    """One execution of a case: a fresh folder, SETUP, RUN, CHECK, and a look for what survived."""

    def __init__(self, case, mode, place):
        self.case, self.mode, self.place = case, mode, place
        self.problems = []
        self.work = os.path.join(place, "work")

    def variables(self, marker):
        case = self.case
        policy = case.policy_name or os.path.join(self.place, "policy.json")
        path = os.path.join(self.place, "shim") + os.pathsep + lib.environment()["PATH"]
        values = lib.environment(HOME=os.path.join(self.place, "home"), TMPDIR=os.path.join(self.place, "tmp"),
                                 PATH=path, CASE=self.place, WORK=self.work, POLICY=policy, MODE=self.mode,
                                 SANDBOX_RUN=lib.SANDBOX_RUN, USER=lib.user_name(), LOGNAME=lib.user_name())
        # The product sets it inside; a value from here would hide that it does not.
        del values["SANDBOX_RUN"]
        values[lib.MARKER] = marker
        values.update(case.environment)
        return values

    def prepare(self, native):
        for name in ("work", "home", "tmp", "shim"):
            shutil.rmtree(os.path.join(self.place, name), ignore_errors=True)
            os.makedirs(os.path.join(self.place, name))
        shim = os.path.join(self.place, "shim", "sandbox-run")
        if native:
            text = ('#!/bin/sh\nwhile [ $# -gt 0 ]; do word=$1; shift; if [ "$word" = -- ]; then exec "$@"; fi; done\n'
                    'echo "native run: no -- in the command" >&2; exit 125\n')
        elif self.mode:
            text = f"#!/bin/sh\nexec {shlex.quote(lib.SANDBOX_RUN)} --service {self.mode} \"$@\"\n"
        else:
            text = None
            os.symlink(lib.SANDBOX_RUN, shim)
        if text:
            with open(shim, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(shim, 0o755)
        for name, text in self.case.policies:
            with open(os.path.join(self.place, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(self.place, name), 0o644)  # whatever our umask: its owner and mode are checked (H16)
        for name, mode, text in self.case.files:
            full = os.path.join(self.work, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(full, mode)

    def shell(self, text, marker, timeout, stdin=None):
        """Runs one shell text in the work folder; (status or None on timeout, stdout, stderr, survivors)."""
        streams = {name: os.path.join(self.place, name) for name in ("stdin", "stdout", "stderr")}
        with open(streams["stdin"], "w", encoding="utf-8") as file:
            file.write(stdin or "")
        # Files, not pipes: a process that outlives the run and holds its output must not make us wait for it.
        with open(streams["stdin"] if stdin is not None else os.devnull, "rb") as in_, \
                open(streams["stdout"], "wb") as out, open(streams["stderr"], "wb") as err:
            child = subprocess.Popen([self.case.shell, "-c", text], cwd=self.work, env=self.variables(marker),
                                     stdin=in_, stdout=out, stderr=err, start_new_session=True)
            lib.OWNED.add(child.pid)
            try:
                status = child.wait(timeout)
                if status < 0:
                    status = 128 - status
            except subprocess.TimeoutExpired:
                status = None
                self.problems.append("still running at the timeout:\n" + "\n".join(
                    f"  {one}" for one in lib.descendants(os.getpid()) if one.alive))
                child.kill()
                child.wait()
            lib.OWNED.discard(child.pid)
        left = lib.survivors(marker, self.case.grace if status is not None else 0)
        lib.kill_all(left)
        found = []
        for name in ("stdout", "stderr"):
            with open(streams[name], "rb") as file:
                found.append(file.read().decode("utf-8", "surrogateescape"))
        return status, found[0], found[1], left

    def execute(self, native):
        self.prepare(native)
        case = self.case
        marker = f"{os.getpid()}-{time.monotonic_ns()}"
        if case.setup:
            status, out, err, _ = self.shell(case.setup, marker, case.timeout)
            if status != 0:
                self.problems.append(f"SETUP ended with {status}\n{out}{err}")
                return None
        status, out, err, left = self.shell(case.run, marker, case.timeout, case.stdin)
        who = "the native run" if native else "the run"
        if status is None:
            self.problems.append(f"{who} did not end within {case.timeout:g} s\nstdout:\n{shorten(out)}\nstderr:\n{shorten(err)}")
            return None
        if left and not native:
            self.problems.append("left behind:\n" + "\n".join(f"  {one}" for one in left))
        tree = snapshot(self.work, case.tree_ignore) if case.compare_tree else None
        if not native:
            for text in case.checks:
                check_status, check_out, check_err, _ = self.shell(text, marker, case.timeout)
                if check_status != 0:
                    self.problems.append(f"CHECK {text.strip()}\nended with {check_status}\n{check_out}{check_err}")
        return Outcome(status, out, err, tree)

    def substitute(self, text):
        values = {"WORK": self.work, "CASE": self.place, "MODE": self.mode, "UID": str(os.geteuid()),
                  "POLICY": self.case.policy_name or os.path.join(self.place, "policy.json")}
        return re.sub(r"@([A-Z]+)@", lambda match: values.get(match.group(1), match.group(0)), text)

    def compare(self, got, native):
        case = self.case
        if case.status is not None:
            wanted = case.status.split()
            if str(got.status) not in wanted:
                self.problems.append(f"exit status {got.status}, expected {' or '.join(wanted)}")
        elif got.status != native.status:
            self.problems.append(f"exit status {got.status}, natively {native.status}")
        told = {"stdout": False, "stderr": False}
        for stream, kind, number, text, is_block in case.expected:
            told[stream] = True
            have = getattr(got, stream)
            problem = match(have, kind, number, self.substitute(text), is_block)
            if problem:
                self.problems.append(f"{stream} {problem}")
        if native and got.stdout != native.stdout:
            self.problems.append("stdout differs from the native run:\n" + diff(native.stdout, got.stdout))
        if native and case.compare_stderr and got.stderr != native.stderr:
            self.problems.append("stderr differs from the native run:\n" + diff(native.stderr, got.stderr))
        if native and case.compare_tree and got.tree != native.tree:
            self.problems.append("files differ from the native run:\n" + diff(native.tree, got.tree))
        if not told["stderr"]:
            # H43: apart from denials nothing is printed; where a case names none there must be none.
            noise = [line for line in got.stderr.split("\n") if line.startswith("sandbox-run")]
            if noise:
                self.problems.append("unexpected lines on stderr:\n" + "\n".join(noise[:20]))

    def all(self):
        native = self.execute(native=True) if self.case.compare else None
        if self.problems:
            return
        got = self.execute(native=False)
        if got:
            self.compare(got, native)
            if self.problems:
                self.problems.append(f"stdout:\n{shorten(got.stdout)}\nstderr:\n{shorten(got.stderr)}")


def shorten(text, limit=4000):
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= limit else f"{text[:limit // 2]}\n… {len(text) - limit} characters …\n{text[-limit // 2:]}"


def diff(expected, got):
    lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), "expected", "got", lineterm="", n=1)
    return shorten("\n".join(lines))


def match(have, kind, number, text, is_block):
    """None, or what is wrong. A block's text includes its newlines; for the searching kinds its last one is dropped."""
    wanted = text[:-1] if is_block and kind != "exact" else text
    if kind == "any":
        return None
    if kind == "empty":
        return None if have == "" else "is not empty"
    if kind == "exact":
        wanted = text if is_block else text + "\n"
        return None if have == wanted else "is not as expected:\n" + diff(wanted, have)
    if kind == "contains":
        return None if wanted in have else f"does not contain {wanted!r}"
    if kind == "absent":
        return None if wanted not in have else f"contains {wanted!r}"
    if kind == "regex":
        return None if re.search(wanted, have, re.MULTILINE) else f"does not match {wanted!r}"
    lines = sum(1 for line in have.split("\n") if wanted in line)
    return None if lines == int(number) else f"has {lines} lines with {wanted!r}, expected {number}"


def snapshot(top, ignored):
    """A text with one line per file: path, kind, mode, size and digest, or link target."""
    lines = []
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            full = os.path.join(path, name)
            short = os.path.relpath(full, top)
            if any(re.fullmatch(pattern, short) for pattern in ignored):
                continue
            info = os.lstat(full)
            text = f"{short} {stat.filemode(info.st_mode)}"
            if stat.S_ISLNK(info.st_mode):
                text += f" -> {os.readlink(full)}"
            elif stat.S_ISREG(info.st_mode):
                with open(full, "rb") as file:
                    text += f" {info.st_size} {hashlib.sha256(file.read()).hexdigest()[:16]}"
            lines.append(text)
    return "\n".join(sorted(lines)) + "\n"


def run_case(case, report, keep):
    lacking = [text for text in map(lib.missing_requirement, case.requires + [case.shell]) if text]
    if lacking:
        report.skip(case.name, f"needs {', '.join(lacking)}", case.must)
        return
    for mode in case.modes:
        name = f"{case.name} [{mode}]" if mode else case.name
        start = time.monotonic()
        problems = []
        for turn in range(case.repeat):
            place = tempfile.mkdtemp(prefix="sandbox-run-e2e-")
            os.chmod(place, 0o755)
            run = Run(case, mode, place)
            run.all()
            if keep:
                print(f"        kept {place}")
            else:
                shutil.rmtree(place, ignore_errors=True)
            if run.problems:
                problems = ([f"turn {turn + 1} of {case.repeat}"] if case.repeat > 1 else []) + run.problems
                break
        if problems:
            report.fail(name, f"{case.file}:{case.line}\nRUN {case.run.strip()}\n" + "\n".join(problems))
        else:
            report.ok(name, time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--half", choices=["root", "user", "any"], default="any",
                        help="run only if this process is root / is not root")
    parser.add_argument("--filter", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the cases and print their names")
    parser.add_argument("--list", action="store_true", help="parse the files and print the names")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    try:
        cases = [case for path in options.files for case in parse(path)]
    except (FormatError, OSError) as error:
        sys.exit(f"run.py: {error}")
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    title = " ".join(os.path.basename(path) for path in options.files)
    reason = lib.wrong_half(options.half)
    if reason:
        print(f"skipped {title}: {reason}")
        return lib.SKIPPED
    if not os.access(lib.SANDBOX_RUN, os.X_OK):
        sys.exit(f"run.py: {lib.SANDBOX_RUN} is not there or not executable")
    lib.become_subreaper()
    half = "root" if os.geteuid() == 0 else "user"
    report = lib.Report(title)
    for case in cases:
        if case.user in (half, "both") and re.search(options.filter, case.name):
            run_case(case, report, options.keep)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
