#!/usr/bin/env python3
"""H6: the guard layer holds under no policy, under --audit and under a policy that allows everything, and only
"unsafe" lifts its parts, one at a time."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

GUARDED = os.path.join(lib.VICTIMS, "guarded")
ALL = '{"version": 1, "syscalls": [{"names": ["@known"], "action": "allow"}]}'
# Parts that `guarded` tries, each with how many of its calls are told (fork's relatives are closed unseen, H19).
PARTS = {"io_uring": 3, "namespaces": 10, "mount": 11, "open-by-handle": 1, "bpf": 1, "perf": 1, "userfaultfd": 1,
         "kernel-modules": 5, "keyctl": 3, "terminal-injection": 5}
ENOSYS = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
# One call for each part that a rule of a policy would open.
NAMES = {"io_uring": "io_uring_setup", "namespaces": "setns", "mount": "mount", "open-by-handle": "open_by_handle_at",
         "bpf": "bpf", "perf": "perf_event_open", "userfaultfd": "userfaultfd", "kernel-modules": "init_module", "keyctl": "add_key"}


def policy(work, text):
    path = os.path.join(work, "policy.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o644)
    return path


def run(work, *arguments):
    with lib.Sandbox(arguments, cwd=work) as box:
        status, out, err = box.finish(timeout=20)
    return status, out.decode(), err.decode()


def guard_events(path):
    """{part: calls} of the guard layer's denials in an --events file."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            rule = record.get("rule") or {}
            if record.get("type") == "decision" and rule.get("file") == "(guard layer)":
                found[rule["pointer"]] = found.get(rule["pointer"], 0) + record["repeats"]
    return found


def modes(work):
    path = policy(work, ALL)
    return [["-p", "none"], ["--audit", "-p", path], ["-p", path], ["--denials", "none", "-p", path]]


@lib.must
@lib.requires("victim:guarded")
def test_h6_closed_in_every_mode(work):
    """H6: each call of the guard layer is refused under none, --audit, an allow-all policy and without reports"""
    for mode in modes(work):
        status, out, _ = run(work, "--quiet", *mode, "--", GUARDED)
        lib.check_equal(status, 0, f"status with {mode}")
        lines = dict(line.rsplit(": ", 1) for line in out.splitlines())
        lib.check_equal(len(lines), 49, f"calls tried with {mode}")
        for call, result in lines.items():
            lib.check_equal(result, "ENOSYS" if call in ENOSYS else "EPERM", f"{call} with {mode}")


@lib.must
@lib.requires("victim:guarded")
def test_h6_each_is_told(work):
    """H6: each refused call of the guard layer is an event that names its part, in every mode"""
    for mode in modes(work)[:3]:
        status, _, _ = run(work, "--quiet", "--events", "events", *mode, "--", GUARDED)
        lib.check_equal(status, 0, f"status with {mode}")
        lib.check_equal(guard_events(os.path.join(work, "events")), PARTS, f"events with {mode}")


@lib.must
@lib.requires("victim:guarded")
def test_h6_unsafe_lifts_one_part(work):
    """H6: "unsafe" lifts the part that it names, loudly, and no other"""
    for part in PARTS:
        path = policy(work, json.dumps({"version": 1, "unsafe": [part], "syscalls": [{"names": ["@known"], "action": "allow"}]}))
        status, out, err = run(work, "--events", "events", "-p", path, "--", GUARDED)
        lib.check_equal(status, 0, f"status with unsafe {part}")
        # Its flags lie in memory, so it stays closed even where namespaces are lifted.
        lib.check("clone3: ENOSYS\n" in out, out)
        lib.check(re.search(rf'^sandbox-run: UNSAFE: .*"unsafe": \["{part}"\]', err, re.M), f"no loud line for {part}: {err}")
        wanted = {name: count for name, count in PARTS.items() if name != part}
        lib.check_equal(guard_events(os.path.join(work, "events")), wanted, f"events with unsafe {part}")


@lib.must
def test_h6_a_rule_is_not_enough(work):
    """H6: a rule that allows a call of the guard layer is refused with 125 and names the remedy"""
    for part, name in NAMES.items():
        path = policy(work, json.dumps({"version": 1, "syscalls": [{"names": [name, "@known"], "action": "allow"}]}))
        status, _, err = run(work, "-p", path, "--", "true")
        lib.check_equal(status, 125, f"status with {name}")
        lib.check('#/syscalls/0' in err and f'add "unsafe": ["{part}"]' in err, f"{name}: {err}")
        path = policy(work, json.dumps({"version": 1, "unsafe": [part], "syscalls": [{"names": [name, "@known"], "action": "allow"}]}))
        lib.check_equal(run(work, "-p", path, "--quiet", "--", "true")[0], 0, f"status with {name} and unsafe")


@lib.must
@lib.requires("victim:guarded")
def test_h6_one_layer_lifts_nothing(work):
    """H6: what one policy of a stack lifts and another does not stays closed"""
    path = policy(work, '{"version": 1, "unsafe": ["keyctl"], "syscalls": [{"names": ["@known"], "action": "allow"}]}')
    status, out, err = run(work, "-p", path, "-p", "baseline", "--", GUARDED, "keyctl")
    lib.check_equal((status, out), (0, "keyctl: EPERM\nadd_key: EPERM\nrequest_key: EPERM\n"), "status and output")
    lib.check('lifts "keyctl" of the guard layer in vain' in err, err)


@lib.must
def test_h6_the_supervisor_part_is_never_lifted(work):
    """H6: the protection of the supervisor has no "unsafe" name, and an unknown one is refused"""
    for name in ("supervisor", "io-uring"):
        path = policy(work, json.dumps({"version": 1, "unsafe": [name]}))
        status, _, err = run(work, "-p", path, "--", "true")
        lib.check_equal(status, 125, f"status with {name}")
        lib.check("#/unsafe/0" in err, err)


@lib.must
@lib.requires("victim:second_listener")
def test_h6_listener(work):
    """H6: a second listener is refused in every mode and takes "unsafe" to try"""
    for mode in modes(work):
        status, out, _ = run(work, "--quiet", *mode, "--", os.path.join(lib.VICTIMS, "second_listener"))
        lib.check_equal(status, 0, f"status with {mode}")
        lib.check("listener: EPERM\nlistener high bits: EPERM\n" in out, f"with {mode}: {out}")
    path = policy(work, '{"version": 1, "unsafe": ["listener"], "syscalls": [{"names": ["@known"], "action": "allow"}]}')
    _, out, _ = run(work, "--quiet", "-p", path, "--", os.path.join(lib.VICTIMS, "second_listener"))
    # The kernel takes one listener for each process, and ours is there.
    lib.check("listener: EBUSY\n" in out, f"lifted: {out}")


@lib.must
@lib.requires("arch:x86_64", "victim:x32", "victim:int80")
def test_h6_foreign_abis(work):
    """H6: x32 and i386 calls are answered ENOSYS in every mode, and no call of theirs has an effect"""
    for mode in modes(work):
        for victim in ("x32", "int80"):
            status, out, _ = run(work, "--quiet", *mode, "--", os.path.join(lib.VICTIMS, victim))
            lib.check(status in (0, lib.SKIPPED), f"{victim} with {mode}: status {status}")
            if status == 0:
                results = [line.rsplit(": ", 1)[1] for line in out.splitlines() if ": " in line]
                lib.check(results and set(results) == {"ENOSYS"}, f"{victim} with {mode}: {out}")


@lib.must
@lib.requires("victim:getpriority")
def test_h6_audit_says_what_it_is(work):
    """H6, H42: --audit begins with "not a sandbox" and lets pass what the policy denies"""
    path = policy(work, '{"version": 1, "syscalls": [{"names": ["getpriority"], "action": {"errno": "EACCES"}}, {"names": ["@baseline"], "action": "allow"}]}')
    status, out, err = run(work, "--audit", "-p", path, "--", os.path.join(lib.VICTIMS, "getpriority"))
    lib.check_equal((status, out), (0, f"getpriority: returned {20 - os.nice(0)}\n"), "status and output")
    lines = err.splitlines()
    lib.check(lines[0].startswith("sandbox-run: not a sandbox: "), err)
    lib.check(re.match(r"sandbox-run: would deny getpriority\(.*EACCES; .*policy\.json:1 #/syscalls/0", lines[1]), err)


if __name__ == "__main__":
    lib.main(globals())
