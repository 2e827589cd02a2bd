#!/bin/sh
# tools/setup.sh with stand-ins for dpkg-query, apt-get, sudo and id: what is installed, by whom, and when nothing is done.
source=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf -- "$work"' EXIT
mkdir "$work/bin" "$work/tools"
cat >"$work/tools/packages.txt" <<'END'
# a comment
[build]
one          # reason
two | other  # either will do
three        # reason

[test]
four         # reason
END

stand_in() {
  cat >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
stand_in dpkg-query <<'END'
#!/bin/sh
for package in $INSTALLED; do echo "+$package installed"; done
echo "+removed config-files"
END
stand_in apt-get <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -o) shift 2 ;; *) shift ;; esac; done
echo "apt-get $*" >>"$LOG"
for word; do case " $BROKEN " in *" $word "*) echo "E: no $word"; exit 100 ;; esac; done
END
stand_in sudo <<'END'
#!/bin/sh
echo "sudo" >>"$LOG"
[ "$1" = -n ] && shift
exec "$@"
END
stand_in id <<'END'
#!/bin/sh
echo "$USER_ID"
END

failures=0
# check TITLE INSTALLED USER_ID SECTION KIND EXPECTED-STATUS EXPECTED-LOG [BROKEN]
check() {
  : >"$work/log"
  cat >"$work/tools/run" <<END
. "$source/tools/setup.sh"
root=$work
ensure_packages "$4" "$5"
END
  INSTALLED=$2 USER_ID=$3 LOG=$work/log BROKEN=$8 PATH="$work/bin:$PATH" sh "$work/tools/run" >"$work/out" 2>&1
  status=$?
  got=$(sed 's, --no-install-recommends -y,,' "$work/log" | tr '\n' ';')
  if [ "$status" = "$6" ] && [ "$got" = "$7" ]; then
    echo "ok      $1"
  else
    echo "FAILED  $1: status $status, expected $6; did '$got', expected '$7'"
    cat "$work/out"
    failures=$((failures + 1))
  fi
}

check "nothing is called when all is there" "one two three" 0 build required 0 ""
check "one of two alternatives is enough" "one other three" 0 build required 0 ""
check "root installs what is missing, and that only" "two" 0 build required 0 \
  "apt-get update;apt-get install one three;"
check "the first alternative is the one installed" "one three" 0 build required 0 \
  "apt-get update;apt-get install two;"
check "a package that was removed counts as missing" "two three removed" 0 build required 0 \
  "apt-get update;apt-get install one;"
check "an ordinary user goes through sudo" "one three" 1000 build required 0 \
  "sudo;apt-get update;sudo;apt-get install two;"
check "what is required and cannot be installed is an error" "one three" 0 build required 1 \
  "apt-get update;apt-get install two;" two
check "what is optional and cannot be installed is not" "" 0 test optional 0 \
  "apt-get update;apt-get install four;apt-get install four;" four
check "each section has its own packages" "four" 0 test optional 0 ""
rm "$work/bin/sudo"
if ! command -v sudo >/dev/null; then
  check "without root and sudo required packages are an error" "one three" 1000 build required 1 ""
  check "… and optional ones are not" "" 1000 test optional 0 ""
fi
[ "$failures" = 0 ]
