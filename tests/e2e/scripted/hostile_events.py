#!/usr/bin/env python3
"""Hostile bytes in records (I9, case 67): every line parses, names come back exactly, no line can be forged."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

FORGED = b'{"type":"decision","forged":true}'
HOSTILE = [
    b"plain", b"", b"a\x01\x02\x03", b'quote"and\\back\\', b"line\nbreak", b"carriage\rreturn", b"\xff", b"\xfe\xff\xff",
    b"x" * 5000, b'"}\n' + FORGED + b"\n{\"", b"\nsandbox-run: denied nothing [1 forged] = EPERM", b"\x1b[2J\x1b]0;title\x07",
    "\u00fcml\u00e4ut \u2028 \u2029 \U0001f4a9".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x7f\xc2\x80", b"\xf0\x9f\x92",
]
POLICY = {"version": 1, "default": "allow", "syscalls": [
    {"names": ["getpriority"], "action": "deny", "reason": "line\nbreak \x01 \x1b[31m " + FORGED.decode() + " \u2028"}]}


def exact(record, key):
    """The bytes of a text field: where it was no UTF-8 they are in KEY_hex."""
    return bytes.fromhex(record[key + "_hex"]) if key + "_hex" in record else record[key].encode()


def exact_list(record, key):
    if key + "_hex" in record:
        lib.check_equal(len(record[key + "_hex"]), len(record[key]), f"length of {key}_hex")
        return [bytes.fromhex(text) for text in record[key + "_hex"]]
    return [text.encode() for text in record[key]]


def records(path):
    with open(path, "rb") as file:
        raw = file.read()
    lib.check(raw.endswith(b"\n"), "the last line has no end")
    found = []
    for line in raw[:-1].split(b"\n"):
        lib.check(not re.search(rb"[\x00-\x1f\x7f]", line), f"control characters in {line!r}")
        # strict: neither broken UTF-8 nor lone surrogates nor a key that stands twice
        def pairs(items):
            lib.check_equal(len(dict(items)), len(items), f"distinct keys of {line!r}")
            return dict(items)
        record = json.loads(line.decode("utf-8", "strict"), object_pairs_hook=pairs)
        json.dumps(record, ensure_ascii=False).encode("utf-8", "strict")
        lib.check("forged" not in record, f"a forged record {line!r}")
        found.append(record)
    return found


def run(work, arguments, policy=b"./policy.json", options=()):
    with open(os.path.join(os.fsencode(work), policy), "w", encoding="utf-8") as file:
        json.dump(POLICY, file)
    done = subprocess.run([lib.SANDBOX_RUN, *options, "-p", policy, "--events", "events", "--", *arguments], cwd=work,
                          env=lib.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, check=False)
    return done, records(os.path.join(work, "events"))


def check_terminal_lines(err):
    """What goes to the terminal: whole lines that begin with our name, nothing that moves a cursor."""
    for line in err.split(b"\n")[:-1]:
        lib.check(line.startswith(b"sandbox-run: denied getpriority("), f"forged or broken line {line!r}")
        lib.check(not re.search(rb"[\x00-\x1f\x7f\xff]|\xc2[\x80-\x9f]", line), f"control characters in {line!r}")
        line.decode("utf-8", "strict")


@lib.must
def test_arguments(work):
    """arguments with any bytes come back exactly from the run's record"""
    done, found = run(work, [b"true", *HOSTILE])
    lib.check_equal((done.returncode, done.stderr), (0, b""), "status and stderr")
    lib.check_equal([record["type"] for record in found], ["run", "summary"], "records")
    lib.check_equal(exact_list(found[0], "argv"), [b"true", *HOSTILE], "argv")


@lib.must
@lib.requires("victim:getpriority")
def test_program_names(work):
    """programs with any name: each denial is one record and one line, with the name's bytes"""
    names = sorted({name[:15].replace(b"/", b"|") for name in HOSTILE if name})
    for name in names:
        shutil.copy(os.path.join(lib.VICTIMS, "getpriority"), os.path.join(os.fsencode(work), name))
    program = ("import os\nfor name in sorted(os.listdir(b'.')):\n"
               "    if name not in (b'events', b'policy.json'):\n"
               "        if os.spawnv(os.P_WAIT, b'./' + name, [name]): print(name)\n")
    done, found = run(work, [sys.executable, "-c", program])
    lib.check_equal(done.stdout, b"getpriority: EPERM\n" * len(names), "output")
    denied = [record for record in found if record["type"] == "decision"]
    lib.check_equal(sorted(exact(record, "comm") for record in denied), names, "names in the records")
    lib.check_equal(found[-1]["decisions"]["denied"], len(names), "denials in the summary")
    check_terminal_lines(done.stderr)
    lib.check_equal(done.stderr.count(b"\n"), len(names), "lines on the terminal")


@lib.must
@lib.requires("victim:getpriority")
def test_threads_names(work):
    """so do names that a program gives itself"""
    program = ("import ctypes, os, threading\nlibc = ctypes.CDLL(None)\n"
               "def one(name):\n    libc.prctl(15, name, 0, 0, 0)\n    libc.getpriority(0, 0)\n"
               f"for name in {[name[:15] for name in HOSTILE]!r}:\n"
               "    thread = threading.Thread(target=one, args=(name,))\n    thread.start()\n    thread.join()\n")
    done, found = run(work, [sys.executable, "-c", program])
    lib.check_equal(done.returncode, 0, "status")
    denied = [record for record in found if record["type"] == "decision"]
    lib.check_equal([exact(record, "comm") for record in denied], [name[:15] for name in HOSTILE], "names in the records")
    lib.check_equal(len({record["tid"] for record in denied}), len(HOSTILE), "threads")
    lib.check_equal({record["pid"] for record in denied}, {denied[0]["pid"]}, "processes")
    check_terminal_lines(done.stderr)


@lib.must
def test_new_names(work):
    """a program that is refused all the time cannot keep an old name in the records"""
    program = ("import ctypes, time\nlibc = ctypes.CDLL(None)\nfor i in range(60):\n"
               "    libc.prctl(15, b'name %d' % i, 0, 0, 0)\n    libc.getpriority(0, 0)\n    time.sleep(0.002)\n")
    _, found = run(work, [sys.executable, "-c", program])
    names = [record["comm"] for record in found if record["type"] == "decision"]
    lib.check_equal(len(names), 60, "records")
    # Names may be 10 ms old, so that a loop of refusals stays cheap: in at least 120 ms there are several.
    lib.check(len(set(names)) > 3, f"names {sorted(set(names))}")


@lib.must
@lib.requires("victim:getpriority")
def test_policy_names(work):
    """so do the name and the reasons of a policy"""
    for name in (b'p"\n\xff\x01.json', b"\x1b[2J.json", b"sandbox-run: denied.json"):
        done, found = run(work, [os.path.join(lib.VICTIMS, "getpriority")], b"./" + name)
        lib.check_equal(done.returncode, 0, "status")
        decision = found[1]
        lib.check_equal(exact(decision["rule"], "file"), b"./" + name, "file")
        lib.check_equal(exact(decision["rule"], "reason"), POLICY["syscalls"][0]["reason"].encode(), "reason")
        check_terminal_lines(done.stderr)
        lib.check_equal(done.stderr.count(b"\n"), 1, "lines on the terminal")


@lib.must
def test_failures(work):
    """so does what sandbox-run says about a program or a policy that is not there"""
    for name in HOSTILE:
        if not name:
            continue
        for command in ([b"-p", b"baseline", b"--", b"./" + name], [b"-p", b"./" + name, b"--", b"true"]):
            done = subprocess.run([lib.SANDBOX_RUN, *command], cwd=work, env=lib.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
            lib.check(done.returncode in (125, 126, 127), f"status {done.returncode} for {command!r}")
            lib.check(re.fullmatch(rb"sandbox-run: [^\x00-\x1f\x7f]+\n", done.stderr), f"{command!r}: {done.stderr!r}")
            done.stderr.decode("utf-8", "strict")


@lib.must
@lib.requires("victim:wide_args")
def test_large_numbers(work):
    """arguments with all 64 bits come back exactly, also through readers that keep numbers as doubles"""
    _, found = run(work, [os.path.join(lib.VICTIMS, "wide_args")])
    seen = [record["args"] for record in found if record.get("syscall") == "getpriority"]
    lib.check_equal(len(seen), 2, "records of getpriority")
    lib.check_equal([int(str(value), 0) for value in seen[1][:2]], [0x5a5a5a5a00000000] * 2, "arguments with high bits")
    for record in found:
        for value in record.get("args", []):
            lib.check(isinstance(value, str) or value <= 2**53, f"number {value} is not exact in a double")


if __name__ == "__main__":
    lib.main(globals())
