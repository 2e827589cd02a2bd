# Sourced by tools/quickstart and tools/test: installs what is missing and builds. Plain sh, nothing printed when there
# is nothing to do.

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)

say() { printf 'sandbox-run %s: %s\n' "$(basename "$0")" "$*" >&2; }

# packages_of SECTION: the lines of that section of packages.txt, without reasons.
packages_of() {
  sed -n -e 's/[[:space:]]*#.*//' -e "/^\[$1\]/,/^\[/{/^\[/d;/./p;}" "$root/tools/packages.txt"
}

# missing_of SECTION: the packages to install, found with one query.
missing_of() {
  {
    dpkg-query -W -f '+${Package} ${db:Status-Status}\n'
    packages_of "$1"
  } | awk '
    /^\+/ { if ($2 == "installed") have[substr($1, 2)] = 1; next }
    { found = 0; for (i = 1; i <= NF; i++) if ($i in have) found = 1; if (!found) print $1 }'
}

apt() {
  if [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
  else
    sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null ||
      sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
  fi
}

# ensure_packages SECTION required|optional
ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: the packages of tools/packages.txt [$1] are expected to be there already"
    return 0
  fi
  missing=$(missing_of "$1" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "missing packages, and neither root nor sudo to install them: apt-get install $missing"
    [ "$2" = optional ] && return 0
    return 1
  fi
  say "installing $missing"
  log=$(mktemp) || return 1
  apt update >"$log" 2>&1 || say "apt-get update failed; trying with the lists that are there"
  if apt install --no-install-recommends -y $missing >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  if [ "$2" = optional ]; then
    # One package that this mirror lacks must not cost the others. Tests name what they miss when they are skipped.
    for package in $missing; do
      apt install --no-install-recommends -y "$package" >>"$log" 2>&1 || say "could not install $package"
    done
    rm -f "$log"
    return 0
  fi
  cat "$log" >&2
  rm -f "$log"
  say "could not install: $missing"
  return 1
}

# build_preset PRESET [TARGET…]: configures once (ninja repeats it when needed), builds, shows output only if it fails.
build_preset() {
  preset=$1
  shift
  directory=$root/build/$preset
  # A tree that was configured at another place (a moved or copied checkout) cannot be used.
  if [ -f "$directory/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$directory/CMakeCache.txt"; then
    rm -rf -- "$directory"
  fi
  mkdir -p "$directory" || return 1
  log=$directory/build-output.txt
  # Where ccache is used, checkouts at different places share what is cached.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
  if [ ! -f "$directory/build.ninja" ]; then
    say "building preset $preset; the first time takes some minutes"
    launcher=
    if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
    (cd "$root" && cmake --preset "$preset" $launcher) >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  fi
  ninja -C "$directory" -j "$(build_jobs)" "$@" >"$log" 2>&1 || { cat "$log" >&2; say "building preset $preset failed"; return 1; }
}

# One compiler per CPU, but no more than the memory carries: a heavy source takes about 1 GiB.
build_jobs() {
  cpus=$(nproc)
  gigabytes=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  if [ "${gigabytes:-1}" -lt "$cpus" ]; then cpus=$gigabytes; fi
  [ "$cpus" -ge 1 ] || cpus=1
  echo "$cpus"
}
