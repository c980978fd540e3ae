#!/usr/bin/env python3
"""Shows that the tests of docs/behaviours.md can fail.

    scripts/mutants.py            every mutation
    scripts/mutants.py b04 b36    these

Each row of the table names tests and one mutation of the code, a patch in mutants/. The patch is
applied to a copy of the tree, and the first test of its row is run there: it has to fail. A
mutation that does not compile, that hangs, or whose test was not run does not count. Before that,
the same tests have to pass on the copy as it is.

The copy and what is built of it stay in target/mutants, so that a second run is quick. The tree
itself is never touched. Exit status: 0 all were caught, 1 one was not, 2 it could not be tried.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
# What a build and its tests need.
PARTS = ["Cargo.toml", "Cargo.lock", "crates", "deploy", "docs", "examples", "mutants", "tests"]
# Seconds that one test may take.
PATIENCE = 120
ENV = os.environ | {
    "CARGO_TARGET_DIR": str(WORK / "build"),
    "CARGO_PROFILE_TEST_OPT_LEVEL": "0",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_TERM_COLOR": "never",
    "RUST_BACKTRACE": "0",
    # The copy lies within a repository; `git apply` must not look for it.
    "GIT_CEILING_DIRECTORIES": str(WORK),
}


def main() -> int:
    rows = table(ROOT / "docs" / "behaviours.md")
    wanted = sys.argv[1:] or list(rows)
    unknown = [name for name in wanted if name not in rows]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are {', '.join(rows)}", file=sys.stderr)
        return 2
    copy_tree()
    if not passes_as_it_is([rows[name] for name in wanted]):
        return 2
    survivors = []
    for name in wanted:
        since = time.monotonic()
        verdict = try_mutation(*rows[name])
        if verdict != "caught":
            survivors.append(name)
        test, patch = rows[name]
        print(f"{name:5} {verdict:24} {patch.name} ({time.monotonic() - since:.0f} s)", flush=True)
    print(f"{len(wanted) - len(survivors)} of {len(wanted)} mutations caught")
    if survivors:
        print(f"not caught: {', '.join(survivors)}")
    return 1 if survivors else 0


def table(page: Path) -> dict[str, tuple[str, Path]]:
    """The first test and the patch of each row that has both."""
    rows = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or not re.fullmatch(r"b\d+a?|[cdekp]\d+", cells[0]):
            continue
        tests = re.findall(r"`(crates/[^`]+::\w+)`", cells[2])
        patches = re.findall(r"mutants/[\w.-]+\.patch", cells[3])
        if tests and patches:
            rows[cells[0]] = (tests[0], ROOT / patches[0])
    return rows


def copy_tree() -> None:
    """Brings the copy up to date; unchanged files keep their times, so that little is rebuilt."""
    sources = {}
    for part in PARTS:
        source = ROOT / part
        files = [source] if source.is_file() else [f for f in source.rglob("*") if f.is_file()]
        sources |= {TREE / file.relative_to(ROOT): file for file in files}
    # A file may have become a folder, so what is gone goes first.
    for file in [f for f in TREE.rglob("*") if f.is_file()]:
        if file not in sources:
            file.unlink()
    for copy, source in sources.items():
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def target_of(test: str) -> tuple[list[str], str]:
    """Where cargo finds a test of that path, and its name with the modules that are known."""
    path, name = test.split("::")
    parts = path.split("/")
    package = ["-p", f"softland-{parts[1]}"]
    if parts[2] == "src":
        # The command is the one crate without a library. Of the others no test may hide behind a feature.
        return package + (["--bin", "softland"] if parts[1] == "cli" else ["--lib", "--all-features"]), name
    binary, *modules = [part.removesuffix(".rs") for part in parts[3:]]
    # The clients of stores are behind features.
    features = ["--all-features"] if parts[1] in ("ledger", "postgres", "redis") else []
    features = ["--features", "postgres"] if modules == ["ledger_postgres"] else features
    return [*package, "--test", binary, *features], "::".join([*modules, name])


def passes_as_it_is(rows: list[tuple[str, Path]]) -> bool:
    targets: dict[tuple[str, ...], list[str]] = {}
    for test, _ in rows:
        where, name = target_of(test)
        targets.setdefault(tuple(where), []).append(name)
    for where, names in targets.items():
        print(f"as it is: {' '.join(where)}", flush=True)
        for name in names:
            verdict = run_test(list(where), name)
            if verdict != "passed":
                print(f"{name}: {verdict} without any mutation", file=sys.stderr)
                return False
    return True


def try_mutation(test: str, patch: Path) -> str:
    changed = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.MULTILINE)
    before = {TREE / name: (TREE / name).read_bytes() for name in changed}
    applied = subprocess.run(["git", "apply", str(patch)], cwd=TREE, env=ENV, capture_output=True)
    if applied.returncode != 0 or all(path.read_bytes() == old for path, old in before.items()):
        return "DOES NOT APPLY"
    try:
        verdict = run_test(*target_of(test))
    finally:
        # Written anew, so that cargo sees a newer file.
        for path, old in before.items():
            path.write_bytes(old)
    return {"failed": "caught", "passed": "SURVIVED"}.get(verdict, verdict.upper())


def run_test(where: list[str], name: str) -> str:
    cargo = ["cargo", "test", "--quiet", *where]
    built = subprocess.run([*cargo, "--no-run"], cwd=TREE, env=ENV, capture_output=True, text=True)
    if built.returncode != 0:
        print(built.stderr[-2000:], file=sys.stderr)
        return "does not compile"
    # A group of its own, so that a test that hangs can be ended with all it started.
    run = subprocess.Popen(
        ["cargo", "test", *where, "--", "--include-ignored", name],
        cwd=TREE, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )
    try:
        said, _ = run.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        return "hangs"
    found = re.search(rf"^test (?:\w+::)*{name} \.\.\. (ok|FAILED)$", said, re.MULTILINE)
    if not found:
        return "was not run"
    return "passed" if found[1] == "ok" else "failed"


if __name__ == "__main__":
    sys.exit(main())
