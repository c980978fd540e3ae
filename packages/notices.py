"""The licences of what is linked into the program, as its packages must carry them."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

PATTERNS = ["LICEN[SC]E*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*"]
HEAD = """\
softland is MIT OR Apache-2.0. Its program, and the native part of its module for Python, contain the Rust
standard library (MIT OR Apache-2.0, the Rust Project Developers) and the packages below, each under the
licence that is named beside it.
"""
# What is built, by the workspace that it is in.
BUILT = {"Cargo.toml": "softland-cli", "python/Cargo.toml": "softland-python"}


def write_notices(root, triple=None):
    """Returns the text for program and module as they are built for `triple`, or for this machine."""
    found = {}
    for manifest, name in BUILT.items():
        linked = linked_packages(root / manifest, name, triple or host())
        found |= {(package["name"], package["version"]): package for package in linked}
    packages = [found[key] for key in sorted(found)]
    texts = defaultdict(list)
    for package in packages:
        for text in licence_texts(package):
            texts[text].append(f"{package['name']} {package['version']}")
    for path in sorted(root.glob("crates/*/assets/*/LICENSE")):
        texts[path.read_text(encoding="utf-8").strip()].append(path.parent.name)
    lines = [f"{p['name']} {p['version']}: {p['license']}, {p['repository'] or ''}" for p in packages]
    parts = [HEAD, "\n".join(lines)]
    parts += [f"{'=' * 80}\n{', '.join(names)}\n\n{text}" for text, names in texts.items()]
    return "\n\n".join(parts) + "\n"


def linked_packages(manifest, name, triple):
    """Packages from elsewhere of which the package `name` has code: no macros, no build scripts, no tests."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    command += ["--manifest-path", manifest]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in said["packages"]}
    nodes = {node["id"]: node["deps"] for node in said["resolve"]["nodes"]}
    open_, found = [id_ for id_, p in packages.items() if p["name"] == name], set()
    while open_:
        id_ = open_.pop()
        if id_ in found or "proc-macro" in packages[id_]["targets"][0]["kind"]:
            continue
        found.add(id_)
        open_ += [dep["pkg"] for dep in nodes[id_] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return [packages[id_] for id_ in found if packages[id_]["source"]]


def licence_texts(package):
    """The texts in a package's folder, and in those of C libraries below it."""
    folder = Path(package["manifest_path"]).parent
    found = set()
    for pattern in PATTERNS:
        for path in [*folder.glob(pattern), *folder.glob(f"*/{pattern}"), *folder.glob(f"*/*/{pattern}")]:
            if path.is_file():
                found.add(path.read_text(encoding="utf-8", errors="replace").strip())
    return sorted(found)


def host():
    said = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host: "))
