"""Makes wheel and sdist of softland-ai: the build backend that pyproject.toml names (PEP 517).

`pip install .` and pip with the sdist come here and have the program built by cargo. `scripts/package`
gives a program that is built already. Needs nothing but Python's standard library.
"""

import base64
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

from notices import write_notices

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
# What cargo and this file need.
SDIST = ["Cargo.toml", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE", "pyproject.toml", "packages", "crates", "python"]
# The licences of what the program contains.
NOTICES = "THIRD-PARTY.txt"
IGNORED = {"target", "__pycache__", ".git"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
VERSION = WORKSPACE["version"]
NAME = PROJECT["name"].replace("-", "_")
# The module's native part, as cargo builds it and as Python imports it. One serves every Python from 3.10 on.
LIBRARIES = {"linux": "libsoftland_python.so", "darwin": "libsoftland_python.dylib", "win32": "softland_python.dll"}
PYTHON = "cp310-abi3"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    program, module = build_both()
    tag = re.sub("[-.]", "_", sysconfig.get_platform())
    return write_wheel(Path(wheel_directory), program, module, tag, write_notices(ROOT)).name


def build_sdist(sdist_directory, config_settings=None):
    return write_sdist(Path(sdist_directory)).name


def build_both():
    """Has cargo build the program and the module for this machine; returns their paths."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    environment = os.environ | {"CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    for wanted in [["-p", "softland-cli"], ["--manifest-path", "python/Cargo.toml"]]:
        command = ["cargo", "build", "--release", "--locked", *wanted]
        try:
            subprocess.run(command, cwd=ROOT, check=True, env=environment)
        except FileNotFoundError:
            rust = WORKSPACE["rust-version"]
            sys.exit(f"softland-ai is built by cargo, which is not here: install Rust {rust} or newer (https://rustup.rs)")
    built = target / "release"
    return built / ("softland.exe" if os.name == "nt" else "softland"), built / LIBRARIES[sys.platform]


def write_wheel(folder, program, module, platform, notices):
    """A wheel with program and module, for every Python from 3.10 on, on `platform`, a tag; returns its path."""
    info, data = f"{NAME}-{VERSION}.dist-info", f"{NAME}-{VERSION}.data"
    licences = PROJECT["license-files"]
    tags = "".join(f"Tag: {PYTHON}-{tag}\n" for tag in platform.split("."))
    native = "_native.pyd" if module.suffix == ".dll" else "_native.abi3.so"
    files = {f"softland/{path.name}": path.read_bytes() for path in module_files()}
    files |= {
        f"softland/{native}": module.read_bytes(),
        "softland_ai.py": (ROOT / "packages/python/softland_ai.py").read_bytes(),
        f"{data}/scripts/{program.name}": program.read_bytes(),
        f"{info}/METADATA": metadata([*licences, NOTICES]).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: softland_build\nRoot-Is-Purelib: false\n{tags}".encode(),
        f"{info}/entry_points.txt": entry_points().encode(),
        f"{info}/licenses/{NOTICES}": notices.encode(),
    }
    files |= {f"{info}/licenses/{name}": (ROOT / name).read_bytes() for name in licences}
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{NAME}-{VERSION}-{PYTHON}-{platform}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes whenever it is made
            runs = "/scripts/" in name or name.endswith(native)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return path


def module_files():
    """The files of the module, without its native part."""
    return sorted(path for path in (ROOT / "python/softland").iterdir() if path.suffix in (".py", ".pyi", ".typed"))


def write_sdist(folder):
    """The sources, at the paths that they have in the repository; returns its path."""
    top = f"{NAME}-{VERSION}"
    path = folder / f"{top}.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as sdist:
        information = metadata(PROJECT["license-files"]).encode()
        entry = tarfile.TarInfo(f"{top}/PKG-INFO")
        entry.size = len(information)
        sdist.addfile(entry, io.BytesIO(information))
        for name in SDIST:
            sdist.add(ROOT / name, f"{top}/{name}", filter=plain)
    return path


def plain(entry):
    """An entry without what only this machine knows; nothing of what is built."""
    if IGNORED & set(entry.name.split("/")):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def metadata(licence_files):
    """METADATA of the wheel, PKG-INFO of the sdist."""
    lines = ["Metadata-Version: 2.4", f"Name: {PROJECT['name']}", f"Version: {VERSION}"]
    lines += [f"Summary: {PROJECT['description']}", f"Keywords: {','.join(PROJECT['keywords'])}"]
    lines += [f"Classifier: {classifier}" for classifier in PROJECT["classifiers"]]
    lines += [f"License-Expression: {PROJECT['license']}"]
    lines += [f"License-File: {name}" for name in licence_files]
    lines += [f"Project-URL: {name}, {url}" for name, url in PROJECT["urls"].items()]
    lines += [f"Requires-Python: {PROJECT['requires-python']}"]
    lines += ["Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM"]
    return "\n".join(lines) + "\n\n" + (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")


def entry_points():
    scripts = "".join(f"{name} = {function}\n" for name, function in PROJECT["scripts"].items())
    return f"[console_scripts]\n{scripts}"


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
