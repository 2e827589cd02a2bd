#!/usr/bin/env python3
"""Runs a test again as an unprivileged user when the suite runs as root.

  as_user.py prepare                       CTest fixture: make the user and, if need be, a stage that it can reach
  as_user.py run [--only-as-root] -- cmd…  cmd as that user; exits with its status
  as_user.py remove                        CTest fixture: remove the stage

Environment: SANDBOX_RUN_SOURCE_DIR, SANDBOX_RUN_BIN_DIR (both set by CTest) and optionally SANDBOX_RUN_DATA_DIR.

The checkout may lie below a folder that nobody but root may enter. Then binaries, policies and tests are copied into a
fresh world-readable folder, and every argument and variable that names the old place is rewritten to the new one.
Run by an ordinary user, `run` simply executes the command; with --only-as-root it says "skipped" (exit 77), because
the plain test was already an unprivileged one.
"""
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

USER = "sandbox-run-test"
SKIPPED = 77
# What the copy must hold so that the unit tests and the end-to-end runner find everything they read.
STAGED = ["policies", "tests", "src", "tools", "README.md", "CMakeLists.txt"]
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS",
                  "TSAN_OPTIONS")


def directories():
    source = os.path.realpath(os.environ["SANDBOX_RUN_SOURCE_DIR"])
    binaries = os.path.realpath(os.environ["SANDBOX_RUN_BIN_DIR"])
    data = os.environ.get("SANDBOX_RUN_DATA_DIR") or os.path.join(os.path.dirname(source), "shared", "data")
    return source, binaries, os.path.realpath(data)


def state_file():
    return os.path.join(os.path.dirname(os.environ["SANDBOX_RUN_BIN_DIR"].rstrip("/")), "user-stage.json")


def find_or_make_user():
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        pass
    made = subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
                           "--shell", "/usr/sbin/nologin", USER], capture_output=True, text=True, check=False)
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        # A read-only /etc: nobody serves as well, it only has to be unprivileged and have a passwd entry.
        print(f"as_user: no user {USER} ({made.stderr.strip()}); using nobody")
        return pwd.getpwnam("nobody")


def drop_privileges(user):
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


def reachable(user, tops):
    """Whether `user` can read everything below the folders `tops`, and execute what root can."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            drop_privileges(user)
            status = 0 if all(readable(top) for top in tops) else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def readable(top):
    if not os.access(top, os.R_OK | os.X_OK):
        return False
    for path, dirs, files in os.walk(top):
        if not all(os.access(os.path.join(path, name), os.R_OK | os.X_OK) for name in dirs):
            return False
        for name in files:
            full = os.path.join(path, name)
            executable = os.path.exists(full) and os.stat(full).st_mode & 0o111
            if not os.access(full, os.R_OK | (os.X_OK if executable else 0)):
                return False
    return True


def open_up(top):
    for path, dirs, files in os.walk(top):
        for name in dirs + files:
            full = os.path.join(path, name)
            if not os.path.islink(full):
                os.chmod(full, 0o755 if os.path.isdir(full) or os.stat(full).st_mode & 0o100 else 0o644)


def prepare():
    remove()
    if os.geteuid() != 0:
        return
    user = find_or_make_user()
    source, binaries, data = directories()
    stage = tempfile.mkdtemp(prefix="sandbox-run-user-", dir="/tmp")
    os.chmod(stage, 0o755)
    home = os.path.join(stage, "home")
    os.mkdir(home, 0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    moves = []
    needed = [binaries, os.path.join(source, "policies"), os.path.join(source, "tests"), os.path.join(source, "src")]
    if not reachable(user, needed):
        # sandbox-run looks for the shipped policies three folders above its own, as in a build tree.
        staged_binaries = os.path.join(stage, "source", "build", "staged", "bin")
        shutil.copytree(binaries, staged_binaries, symlinks=True)
        for name in STAGED:
            place, copy = os.path.join(source, name), os.path.join(stage, "source", name)
            if os.path.isdir(place):
                shutil.copytree(place, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            elif os.path.exists(place):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy2(place, copy)
        open_up(os.path.join(stage, "source"))
        moves += [[binaries, staged_binaries], [source, os.path.join(stage, "source")]]
    if os.path.isdir(data) and not reachable(user, [data]):
        shutil.copytree(data, os.path.join(stage, "data"), symlinks=True)
        open_up(os.path.join(stage, "data"))
        moves.append([data, os.path.join(stage, "data")])
    # The longest name first: the binaries usually lie below the source folder.
    moves.sort(key=lambda move: -len(move[0]))
    with open(state_file(), "w", encoding="utf-8") as file:
        json.dump({"stage": stage, "user": user.pw_name, "moves": moves}, file)
    print(f"as_user: user {user.pw_name}, stage {stage}{'' if moves else ' (home only, the checkout is readable)'}")


def remove():
    try:
        with open(state_file(), encoding="utf-8") as file:
            stage = json.load(file)["stage"]
    except FileNotFoundError:
        return
    if os.path.basename(stage).startswith("sandbox-run-user-"):
        shutil.rmtree(stage, ignore_errors=True)
    os.unlink(state_file())


def run(arguments):
    only_as_root = arguments[:1] == ["--only-as-root"]
    command = arguments[arguments.index("--") + 1:]
    source, _, data = directories()
    if os.geteuid() != 0:
        if only_as_root:
            print("skipped: the suite already runs unprivileged, the plain test is this test")
            sys.exit(SKIPPED)
        os.execvp(command[0], command)
    with open(state_file(), encoding="utf-8") as file:
        state = json.load(file)
    user = pwd.getpwnam(state["user"])

    def moved(word):
        place = os.path.realpath(word) if os.path.isabs(word) else word
        for old, new in state["moves"]:
            if place == old or place.startswith(old + "/"):
                return new + place[len(old):]
        return word

    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment.update({name: moved(value) for name, value in os.environ.items() if name.startswith("SANDBOX_RUN_")})
    environment["SANDBOX_RUN_SOURCE_DIR"] = moved(source)
    if os.path.isdir(data):
        environment["SANDBOX_RUN_DATA_DIR"] = moved(data)
    home = os.path.join(state["stage"], "home")
    environment.update({"HOME": home, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": "/bin/sh"})
    command = [moved(word) for word in command]
    os.chdir(home)
    drop_privileges(user)
    environment["PATH"] = os.pathsep.join(place for place in environment.get("PATH", os.defpath).split(os.pathsep)
                                          if os.access(place, os.X_OK))
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def main():
    actions = {"prepare": prepare, "remove": remove}
    if len(sys.argv) == 2 and sys.argv[1] in actions:
        actions[sys.argv[1]]()
    elif len(sys.argv) > 3 and sys.argv[1] == "run" and "--" in sys.argv:
        run(sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
