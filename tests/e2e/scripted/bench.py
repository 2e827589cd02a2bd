#!/usr/bin/env python3
# ctest: serial
"""sandbox-bench measures and says so in the agreed shape. No figure is judged here."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib

BENCH = os.path.join(lib.BIN, "sandbox-bench")


def run(*arguments):
    return subprocess.run([BENCH, *arguments], env=lib.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)


def check_shape(case, needed_rows):
    done = run(case, "--json", "--rounds", "1")
    lib.check_equal((done.returncode, done.stderr), (0, ""), f"status and stderr of {case}")
    result = json.loads(done.stdout)
    for key in ("kernel", "cpu", "case", "rows", "bars"):
        lib.check(key in result, f"no {key} in {sorted(result)}")
    lib.check_equal(result["case"], case, "case")
    rows = {row["name"]: row for row in result["rows"]}
    for name in needed_rows:
        row = rows.get(name)
        lib.check(row is not None, f"no row {name!r} in {sorted(rows)}")
        lib.check(row["median_ns"] and row["median_ns"] > 0, f"{name} has no figure: {row}")
        lib.check_equal(row["rounds"], 1, f"rounds of {name}")
    for row in result["rows"]:
        lib.check(row["median_ns"] is not None or row["missing"], f"neither figure nor reason: {row}")
    for bar in result["bars"]:
        lib.check_equal(sorted(bar), ["limit", "name", "ok", "value"], "keys of a bar")
    return result


@lib.must
def test_notify(work):
    """sandbox-bench notify measures floors and product in every service mode, and counts interrupted calls"""
    modes = [f"sandbox-run {mode}, {what}" for mode in ("async", "sync", "pinned", "auto")
             for what in ("continue (log rule)", "value (deny rule)")]
    result = check_shape("notify", ["native getppid", "bare loop, one CPU, continue", "bare loop, free, no flag", *modes])
    with_restart = [bar for bar in result["bars"] if bar["name"] == "interrupted calls with SA_RESTART"]
    lib.check_equal([(bar["value"], bar["ok"]) for bar in with_restart], [(0, True)], "interrupted calls with SA_RESTART")


@lib.must
def test_startup(work):
    """sandbox-bench startup measures true natively and under the shipped policies"""
    check_shape("startup", ["true", "sandbox-run -p none", "sandbox-run -p baseline", "sandbox-run -p offline"])


@lib.must
def test_kernel(work):
    """sandbox-bench kernel measures getpid without filters, under some, and what installing them costs"""
    check_shape("kernel", ["getpid, no filter", "getpid, 1 constant filter", "getpid, 2 filters that load an argument",
                           "getpid, 300 rules, ours", "first filter that runs", "install, 300 rules, ours"])


def test_usage(work):
    """An unknown case or option is an error that names it"""
    for arguments, text in ((["nonsense"], "no case 'nonsense'"), (["startup", "--fast"], "does not know '--fast'"),
                            (["notify", "--rounds", "x"], "not 'x'")):
        done = run(*arguments)
        lib.check(done.returncode == 1 and text in done.stderr, f"{arguments}: {done.returncode}, {done.stderr!r}")


if __name__ == "__main__":
    lib.main(globals())
