#!/usr/bin/env python3
"""H20: random policies and random calls, installed for real: each call ends as the rules say when read by a third party
(this file), whether kernel or supervisor answers, and the two never disagree."""
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

VICTIM = os.path.join(lib.VICTIMS, "raw_calls")
# Calls that always end in a rule of the test, so what the kernel would do with the arguments does not matter. Widths as
# in the man pages: bits of each tested argument, negative where it is signed.
CALLS = {"quotactl": (179, [32, None, 32, None]), "swapon": (167, [None, -32]), "syslog": (103, [-32, None, -32]),
         "reboot": (169, [-32, -32, 32]), "mremap": (25, [64, 64, 64, 64, 64]), "ioperm": (173, [64, 64, -32])}
INTERESTING = [0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff]
WIDE = [0x100000000, 0x100000001, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff]


def value(rng, width):
    """A value that a policy may name for an argument of that width."""
    if width == 64:
        return rng.choice(INTERESTING + WIDE)
    number = rng.choice(INTERESTING)
    if width == -32 and number >= 1 << 31:
        number -= 1 << 32
    return number


def condition(rng, widths):
    arg = rng.choice([index for index, width in enumerate(widths) if width])
    width = widths[arg]
    op = rng.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not-in", "masked", "subset"])
    if op in ("in", "not-in"):
        return {"arg": arg, "op": op, "value": sorted({value(rng, width) for _ in range(rng.randint(1, 4))})}
    if op == "masked":
        mask = rng.choice([1, 3, 6, 0x7fffffff])
        return {"arg": arg, "op": op, "mask": mask, "value": mask & rng.choice(INTERESTING[:5])}
    if op == "subset":
        return {"arg": arg, "op": op, "value": rng.choice([1, 2, 3, 0x7fffffff])}
    return {"arg": arg, "op": op, "value": value(rng, width)}


def holds(test, widths, args):
    width = widths[test["arg"]]
    bits = abs(width)
    have = args[test["arg"]] & ((1 << bits) - 1)
    signed = have - (1 << bits) if width < 0 and have >> (bits - 1) else have
    wanted = test["value"]
    ops = {"==": lambda: signed == wanted, "!=": lambda: signed != wanted, "<": lambda: signed < wanted, "<=": lambda: signed <= wanted,
           ">": lambda: signed > wanted, ">=": lambda: signed >= wanted, "in": lambda: signed in wanted, "not-in": lambda: signed not in wanted,
           "masked": lambda: have & test["mask"] == wanted, "subset": lambda: have & ~wanted == 0}
    return ops[test["op"]]()


def random_policy(rng):
    """(JSON text, {call: [(conditions, errno)]}), the last row of a call being unconditional."""
    rules, model = [], {}
    for name, (_, widths) in CALLS.items():
        rows = []
        for _ in range(rng.randint(0, 6)):
            rows.append(([condition(rng, widths) for _ in range(rng.randint(1, 3))], rng.randint(1, 120)))
        rows.append(([], rng.randint(1, 120)))
        model[name] = rows
        for when, error in rows:
            rule = {"names": [name], "action": {"errno": error}}
            if when:
                rule["when"] = when
            if rng.random() < 0.5:
                rule["quiet"] = True  # decided in the kernel
            rules.append(rule)
    rules.append({"names": ["@baseline"], "action": "allow"})
    return {"version": 1, "syscalls": rules}, model


def random_calls(rng, count):
    for _ in range(count):
        name = rng.choice(list(CALLS))
        args = [rng.choice(INTERESTING + WIDE + [rng.getrandbits(64), rng.getrandbits(64) & 0x300000003]) for _ in range(6)]
        yield name, args


def loads(path):
    """A random rule may be one that can never decide, which is refused (H41); the message names it."""
    done = subprocess.run([lib.SANDBOX_RUN, "--check", "-p", path, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          timeout=20, check=False, env=lib.environment())
    return done.returncode == 0, done.stderr.decode()


def accepted_policy(rng, path):
    """Takes out what is refused until the policy loads; what is left decides the same as the model."""
    policy, model = random_policy(rng)
    rules = policy["syscalls"]
    for _ in range(60):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(policy, file)
        os.chmod(path, 0o644)
        fine, message = loads(path)
        if fine:
            return rules, model
        place = message.partition("#/syscalls/")[2]
        number = ""
        while place[len(number):len(number) + 1].isdigit():
            number += place[len(number)]
        lib.check(number, f"refused without a place: {message}")
        lib.check("never" in message or "hold" in message or "always" in message, f"refused for another reason: {message}")
        del rules[int(number)]
    raise lib.Failure("no random policy was accepted")


def expected(model, name, args):
    widths = CALLS[name][1]
    for when, error in model[name]:
        if all(holds(test, widths, args) for test in when):
            return error
    raise AssertionError("the last row has no conditions")


@lib.must
@lib.requires("arch:x86_64", "victim:raw_calls")
def test_h20_random_policies(work):
    """H20: 12 random policies x 1500 random calls end as the rules say, and no disagreement is reported"""
    for seed in range(12):
        rng = random.Random(seed)
        path = os.path.join(work, "policy.json")
        rules, model = accepted_policy(rng, path)
        calls = list(random_calls(rng, 1500))
        text = "".join(f"{CALLS[name][0]} {' '.join(map(str, args))}\n" for name, args in calls)
        with lib.Sandbox(["-p", path, "--quiet", "--", VICTIM], cwd=work, stdin=subprocess.PIPE) as box:
            out, err = box.popen.communicate(text.encode(), timeout=60)
            lib.check_equal((box.popen.returncode, err), (0, b""), f"seed {seed}: status and standard error")
        got = out.decode().split()
        lib.check_equal(len(got), len(calls), f"seed {seed}: answers")
        for (name, args), answer in zip(calls, got):
            wanted = str(expected(model, name, args))
            lib.check(answer == wanted, f"seed {seed}: {name}{tuple(map(hex, args))} gave {answer}, the rules say {wanted}: "
                      f"{json.dumps([rule for rule in rules if name in rule['names']])}")


if __name__ == "__main__":
    lib.main(globals())
