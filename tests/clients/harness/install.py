"""Installs the pinned clients into a cache, once per lock file. Nothing is built and no install
script is run; what a lock file does not name is not installed."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCKS = Path(__file__).resolve().parent.parent / "locks"
# What the installers say where the registry cannot be reached: npm's codes, then pip's texts.
UNREACHABLE = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "ERR_SOCKET_TIMEOUT",
    "NewConnectionError",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "ConnectTimeoutError",
    "Could not find a suitable TLS CA certificate bundle",
    "ProxyError",
)
INSTALL_SECONDS = 600


class NotHere(Exception):
    """A client cannot be had on this machine, for a reason that is not the repository's."""


class Broken(Exception):
    """A lock file does not install."""


def cache_root():
    own = os.environ.get("SOFTLAND_CLIENTS_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "softland-clients"


def python(needed=""):
    """The Python to use: this one, or one of the version that a client needs."""
    if needed in ("", "%d.%d" % sys.version_info[:2]):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    name = f"python{needed}"
    of_pyenv = sorted(map(str, versions.glob(f"{needed}.*/bin/{name}")))
    for one in filter(None, [shutil.which(name), *of_pyenv]):
        # One of pyenv's shims is there and yet starts nothing.
        if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0:
            return one
    raise NotHere(f"Python {needed} is not installed")


def installed(lock, needed=""):
    """The folder of a lock's packages; installs them where they are not there yet.

    `lock` is a folder with an npm lock file, or the name of a `.txt` of exact pins for pip, which
    may need a Python of some version.
    """
    by_pip = lock.endswith(".txt")
    source = LOCKS / lock if by_pip else LOCKS / lock / "package-lock.json"
    of_pip = (needed or sys.version_info[:2]) if by_pip else ""
    about = f"{platform.system()} {platform.machine()} {of_pip}"
    digest = hashlib.sha256(source.read_bytes() + about.encode()).hexdigest()[:12]
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    home = root / f"{lock.removesuffix('.txt')}-{digest}"
    if home.exists():
        return home
    with open(root / ".lock", "w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not home.exists():
            # An install that was broken off must not look whole: it is moved when it is done.
            with tempfile.TemporaryDirectory(dir=root, prefix=".partial-") as partial:
                packages = Path(partial) / "packages"
                packages.mkdir()
                print(f"         installing {lock} into {home}", flush=True)
                if by_pip:
                    pip(source, packages, python(needed))
                else:
                    npm(source, packages)
                packages.rename(home)
    return home


def npm(lock, folder):
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotHere("node and npm are not installed")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(lock.with_name(name), folder)
    quiet = ["--no-audit", "--no-fund", "--fetch-retries=1"]
    install(["npm", "ci", "--ignore-scripts", *quiet], folder)


def pip(lock, folder, interpreter):
    command = [interpreter, "-m", "pip"]
    if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode != 0:
        raise NotHere("pip is not installed for this Python")
    command += ["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-warn-conflicts"]
    command += ["--disable-pip-version-check", "--root-user-action", "ignore"]
    install([*command, "--target", str(folder), "-r", str(lock)], folder)


def install(command, folder):
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise NotHere(f"the registry gave nothing within {INSTALL_SECONDS} s") from late
    if done.returncode == 0:
        return
    if any(sign in done.stdout for sign in UNREACHABLE):
        raise NotHere("the package registry cannot be reached")
    raise Broken(f"{' '.join(command[:3])} … failed:\n{done.stdout[-2000:]}")
