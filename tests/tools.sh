# What the scripts in the folders beside this need; each sources it from its own folder, and says
# `what` it tests. What cannot be had here is said, and the script passes.

root=$(cd ../.. && pwd)
binary='' shots=''

skip() { echo "$what: skipped: $1"; exit 0; }

# options USAGE "$@": --binary FILE, and --shots DIR where the usage has it.
options() {
  local usage=$1
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      --binary) binary=$(cd "$from" && realpath "$2"); shift 2 ;;
      --shots)
        case "$usage" in *--shots*) ;; *) echo "usage: $usage" >&2; exit 2 ;; esac
        shots=$(cd "$from" && mkdir -p "$2" && realpath "$2"); shift 2 ;;
      *) echo "usage: $usage" >&2; exit 2 ;;
    esac
  done
}

# program NAME PACKAGE…: its path; Debian gives the packages where it is not there and root asks.
program() {
  local name=$1 found
  shift
  find_it() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$name" || true; }
  found=$(find_it)
  if [ -z "$found" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -q && apt-get install -qy --no-install-recommends "$@"; } >/dev/null 2>&1 || true
    found=$(find_it)
  fi
  echo "$found"
}

# The two packages of npm that look at pages, in a cache: sets `modules`.
take_modules() {
  local here=$root/tests/pages lock cache
  command -v node >/dev/null && command -v npm >/dev/null || skip 'no node and npm here'
  lock=$(cd "$here" && cat package.json package-lock.json | sha256sum | cut -c1-16)
  cache="${XDG_CACHE_HOME:-$HOME/.cache}/softland-pages/$lock"
  if [ ! -e "$cache/complete" ]; then
    rm -rf "$cache"
    mkdir -p "$cache"
    cp "$here/package.json" "$here/package-lock.json" "$cache/"
    (cd "$cache" && npm ci --ignore-scripts --no-audit --no-fund >"$cache/log" 2>&1) \
      || skip 'npm has not given playwright-core and axe-core'
    touch "$cache/complete"
  fi
  modules=$cache/node_modules
}

# A browser: sets `chromium`.
take_chromium() {
  chromium=$(command -v chromium-browser || program chromium chromium fonts-dejavu-core)
  [ -n "$chromium" ] || skip 'no chromium here, and Debian has not given one'
}

take_nginx() {
  nginx=$(program nginx nginx-light)
  [ -n "$nginx" ] || skip 'no nginx here, and Debian has not given one'
}

# The binary that was named, or else the one that `cargo run` builds.
take_binary() {
  [ -n "$binary" ] && return
  (cd "$root" && cargo build --quiet --locked --workspace --bin softland)
  binary=$(cd "$root" && cargo metadata --format-version 1 --no-deps \
    | node -e 'let t="";process.stdin.on("data",d=>t+=d).on("end",()=>console.log(JSON.parse(t).target_directory))')/debug/softland
}

# A folder that goes with the script: sets `work`. Workers of nginx have a user of their own.
take_work() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
}
