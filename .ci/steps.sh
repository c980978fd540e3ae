# What `.ci/run` and `tests/long` share: steps, and the account of them at the end. Sourced from the
# repository's root.

# What builds write here has no colours, and no second build to be quick for: that would take half of
# the disk.
export CI=1 CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never NO_COLOR=1 TERM=dumb

# Where `tests/long` puts the cargo-deny that it builds.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/softland-ci
PATH=$PATH:$tools/bin

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ran=() skipped=() failed=() flaky=()
began=$SECONDS

# GiB of disk that are free.
free() { df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }'; }

# step NAME COMMAND…: runs it and remembers how it went.
step() {
  local name=$1 since=$SECONDS
  shift
  printf '\n==> %s\n    $ %s\n' "$name" "$*"
  if "$@"; then
    ran+=("$name ($((SECONDS - since)) s)")
  else
    failed+=("$name ($((SECONDS - since)) s)")
    printf '!!! failed: %s\n' "$name"
  fi
}

# skip NAME WHY
skip() {
  printf '\n==> %s\n    skipped: %s\n' "$1" "$2"
  skipped+=("$1: $2")
}

# built KIND CRATE: the programs of that kind (`test`, `example`) that `cargo test --workspace` builds for a
# crate. To choose a package would have cargo build its dependencies anew, with fewer features.
built() {
  cargo test --locked --workspace --no-run --message-format=json 2>/dev/null |
    grep -F "/crates/$2#" | grep -F "\"kind\":[\"$1\"]" |
    sed -n 's|.*"executable":"\([^"]*\)".*|\1|p'
}

# adversary CRATE CASES [MODULE]: prints what the generator met; the panics of the hostile tools are shown only if
# it fails. A case takes about 2 ms as the tests are built.
adversary() {
  local tests module=${3:-adversary}
  tests=$(built test "$1" | grep '/it-[^/]*$') || { echo "no tests of $1 are built"; return 1; }
  if (cd "crates/$1" && SOFTLAND_CASES=$2 "$tests" "$module::" --nocapture) \
    >"$work/met" 2>"$work/panics" && grep -q "^test $module::" "$work/met"; then
    sed 's/^/    /' "$work/met"
  else
    tail -n 200 "$work/met" "$work/panics"
    return 1
  fi
}

# What cargo-deny says, where the tidy tests say the same without it and where only it can.
deny() {
  step 'licences, bans and sources' cargo deny --offline check licenses bans sources
  if ls "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/crates >/dev/null 2>&1; then
    step 'advisories' cargo deny --offline check advisories
  else
    skip 'advisories' 'the RustSec database is not here (cargo deny fetch db)'
  fi
}

# account: what ran, was skipped and failed; fails where a step did.
account() {
  printf '\n==== ran, %s steps in %s s\n' "${#ran[@]}" "$((SECONDS - began))"
  [ "${#ran[@]}" -eq 0 ] || printf '  ok       %s\n' "${ran[@]}"
  [ "${#skipped[@]}" -eq 0 ] || printf '  skipped  %s\n' "${skipped[@]}"
  [ "${#flaky[@]}" -eq 0 ] || printf '  FLAKY    %s: failed once; to be mended before anything else\n' "${flaky[@]}"
  [ "${#failed[@]}" -eq 0 ] || printf '  FAILED   %s\n' "${failed[@]}"
  printf '  disk     %s GiB free\n' "$(free)"
  [ "${#failed[@]}" -eq 0 ]
}
