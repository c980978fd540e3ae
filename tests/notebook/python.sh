# A Python with ipykernel, in a cache: sourced by the scripts beside it, which get `python`, the
# folder of its programs. Where the package index cannot be reached, `skip` is called with the reason.

pins=$(dirname "${BASH_SOURCE[0]}")/requirements.txt
command -v python3 >/dev/null || skip 'no python3 here'
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
lock=$( (echo "$version"; cat "$pins") | sha256sum | cut -c1-16)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/softland-notebook/$lock"
if [ ! -e "$cache/complete" ]; then
  rm -rf "$cache"
  mkdir -p "$cache"
  if ! { python3 -m venv "$cache/venv" && "$cache/venv/bin/python" -m pip install --quiet \
    --disable-pip-version-check --only-binary :all: --retries 1 -r "$pins"; } >"$cache/log" 2>&1; then
    # What pip says where the index cannot be reached, and venv where a system has no pip for it.
    if grep -qE 'NewConnectionError|ConnectTimeout|Name or service not known|Temporary failure|Network is unreachable|No module named (pip|venv)|ensurepip is not' \
      "$cache/log"; then
      skip 'the package index cannot be reached, or Python has no venv'
    fi
    tail -n 20 "$cache/log"
    echo 'notebook: ipykernel cannot be installed'
    exit 1
  fi
  touch "$cache/complete"
fi
python=$cache/venv/bin
