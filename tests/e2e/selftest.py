#!/usr/bin/env python3
"""The runner tested on a stand-in for sandbox-run: what must pass passes, and each kind of fault is reported."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# Takes options up to "--" like the real one. FAKE selects a fault.
STAND_IN = """#!/bin/sh
mode=none
while [ $# -gt 0 ]; do
  word=$1; shift
  case $word in
    --service) mode=$1; shift;;
    --) break;;
  esac
done
case $FAKE in
  noise) echo "sandbox-run: hello" >&2;;
  leftover) setsid sleep 30 & ;;
  mode) echo "$mode"; exit 0;;
  litter) : >litter;;
esac
exec "$@"
"""

# Each row: title, case text, the exit status of the runner, texts that its output must contain.
ROWS = [
    ("a case that does as expected passes",
     "NAME a\nRUN sandbox-run -- sh -c 'echo out; echo err >&2; exit 3'\nEXPECT_STATUS 3\nEXPECT_STDOUT exact out\n"
     "EXPECT_STDERR contains err\n", 0, ["ok      a", "1 passed, 0 failed, 0 skipped"]),
    ("a wrong status is reported", "NAME a\nRUN sandbox-run -- false\n", 1, ["exit status 1, expected 0"]),
    ("a signal counts as 128+N", "NAME a\nRUN kill -9 $$\nEXPECT_STATUS 137\n", 0, ["ok      a"]),
    ("exact compares whole lines", "NAME a\nRUN echo one two\nEXPECT_STDOUT exact one\n", 1, ["-one", "+one two"]),
    ("a block is exact text",
     "NAME a\nRUN printf 'x\\ny\\n'\nEXPECT_STDOUT exact <<END\nx\ny\nEND\n", 0, ["ok      a"]),
    ("absent and regex and count and empty",
     "NAME a\nRUN printf 'x1\\nx2\\n'\nEXPECT_STDOUT absent y\nEXPECT_STDOUT regex ^x[0-9]$\nEXPECT_STDOUT count 2 x\n"
     "EXPECT_STDERR empty\n", 0, ["ok      a"]),
    ("absent finds what is there", "NAME a\nRUN echo y\nEXPECT_STDOUT absent y\n", 1, ["contains 'y'"]),
    ("count is exact", "NAME a\nRUN echo y\nEXPECT_STDOUT count 2 y\n", 1, ["has 1 lines with 'y', expected 2"]),
    ("a denial line that no expectation names is a failure",
     "NAME a\nENV FAKE=noise\nRUN sandbox-run -- true\n", 1, ["unexpected lines on stderr", "sandbox-run: hello"]),
    ("a process that outlives the run is reported and killed",
     "NAME a\nENV FAKE=leftover\nRUN sandbox-run -- true\n", 1, ["left behind", "(sleep, state"]),
    ("the same in its own session from the program",
     "NAME a\nRUN sandbox-run -- sh -c 'setsid sleep 30 >/dev/null 2>&1 & exit 0'\n", 1, ["left behind"]),
    ("a hang is ended and reported with its processes",
     "NAME a\nTIMEOUT 0.5\nRUN sandbox-run -- sleep 30\n", 1, ["still running at the timeout", "did not end within 0.5 s"]),
    ("a native run is compared: same output and status pass",
     "NAME a\nCOMPARE_NATIVE yes\nRUN sandbox-run -p x -- sh -c 'pwd; exit 4'\n", 0, ["ok      a"]),
    ("a native run is compared: other output is reported",
     "NAME a\nCOMPARE_NATIVE yes\nENV FAKE=mode\nRUN sandbox-run -p x -- echo native\n", 1,
     ["stdout differs from the native run", "-native"]),
    ("a native run is compared: files",
     "NAME a\nCOMPARE_NATIVE tree\nENV FAKE=litter\nRUN sandbox-run -p x -- sh -c 'echo >file'\n", 1,
     ["files differ from the native run", "+litter -rw-r--r-- 0"]),
    ("the same with the litter ignored",
     "NAME a\nCOMPARE_NATIVE tree\nTREE_IGNORE lit.*\nENV FAKE=litter\nRUN sandbox-run -p x -- sh -c 'echo >file'\n", 0,
     ["ok      a"]),
    ("comparing needs the two dashes", "NAME a\nCOMPARE_NATIVE yes\nRUN sandbox-run true\n", 1, ["COMPARE_NATIVE needs"]),
    ("a case runs once per service mode",
     "NAME a\nMODES all\nENV FAKE=mode\nRUN sandbox-run -- true\nEXPECT_STDOUT exact @MODE@\n", 0,
     ["ok      a [async]", "ok      a [sync]", "ok      a [pinned]", "ok      a [auto]", "4 passed"]),
    ("the head of a file holds for every case",
     "EXPECT_STATUS 5\nFILE five <<END\nexit 5\nEND\nNAME a\nRUN sh five\nNAME b\nRUN sh ./five\n", 0, ["2 passed"]),
    ("inline policy, named policy, second policy",
     "NAME a\nPOLICY {\"version\": 1}\nPOLICY two.json <<END\n{}\nEND\nRUN cat $POLICY; cat $CASE/two.json; echo; echo $POLICY\n"
     "EXPECT_STDOUT exact <<END\n{\"version\": 1}{}\n\n@POLICY@\nEND\nNAME b\nPOLICY baseline\nRUN echo $POLICY\n"
     "EXPECT_STDOUT exact baseline\n", 0, ["2 passed"]),
    ("stdin, setup and check",
     "NAME a\nSTDIN hello\nSETUP mkdir d\nRUN cat >d/f\nCHECK test \"$(cat d/f)\" = hello\n", 0, ["ok      a"]),
    ("a failing check is reported", "NAME a\nRUN true\nCHECK echo because; false\n", 1, ["CHECK echo because", "because"]),
    ("what is missing skips the case by name",
     "NAME a\nREQUIRES no-such-program\nRUN true\n", 77, ["skipped a: needs program no-such-program", "1 skipped"]),
    ("a case for the other kind of user is left out",
     f"NAME a\nUSER {'user' if os.geteuid() == 0 else 'root'}\nRUN false\n", 77, ["0 passed, 0 failed, 0 skipped"]),
    ("a case is repeated", "NAME a\nREPEAT 3\nRUN echo x >>$V; wc -l <$V\nENV V=/dev/null\nEXPECT_STDOUT exact 0\n", 0, ["ok      a"]),
    ("an unknown directive is refused", "NAME a\nRUNS true\n", 1, ["unknown directive 'RUNS'"]),
    ("an unended text is refused", "NAME a\nRUN <<END\ntrue\n", 1, ["no line 'END' ends this text"]),
    ("two cases of one name are refused", "NAME a\nRUN true\nNAME a\nRUN true\n", 1, ["two cases are named 'a'"]),
]


def run(folder, text, **variables):
    case = os.path.join(folder, "x.case")
    with open(case, "w", encoding="utf-8") as file:
        file.write(text)
    environment = dict(os.environ, SANDBOX_RUN_BINARY=os.path.join(folder, "sandbox-run"), **variables)
    done = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), case], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def main():
    failures = 0
    rows = [(title, text, {}, status, texts) for title, text, status, texts in ROWS]
    rows.append(("a skip of what must work is a failure where that is demanded",
                 "NAME a\nMUST yes\nREQUIRES no-such-program\nRUN true\n", {"SANDBOX_RUN_MUST_WORK": "1"}, 1,
                 ["must work, but was skipped: needs program no-such-program"]))
    rows.append(("… and only there", "NAME a\nMUST yes\nREQUIRES no-such-program\nRUN true\n",
                 {"SANDBOX_RUN_MUST_WORK": ""}, 77, ["skipped a"]))
    for title, text, variables, status, texts in rows:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sandbox-run"), "w", encoding="utf-8") as file:
                file.write(STAND_IN)
            os.chmod(os.path.join(folder, "sandbox-run"), 0o755)
            got, output = run(folder, text, **variables)
        lacking = [one for one in texts if one not in output]
        good = got == status and not lacking
        failures += not good
        print(f"{'ok     ' if good else 'FAILED '} {title}")
        if not good:
            print(f"status {got}, expected {status}; lacking {lacking}; output:\n{output}")
    print(f"runner self-test: {len(rows) - failures} passed, {failures} failed")
    return 1 if failures else 0


sys.exit(main())
