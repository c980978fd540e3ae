"""The clients: what each needs installed, how it is started, and what it prints as its answer."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent.parent / "agents"
PROMPT = "Take the steps one by one, then say what was done."
RUN_SECONDS = 120
# Keeps Claude Code from calling anything but its base URL (measured with 2.1.330; the variables for
# telemetry, errors and updates alone leave one call to the vendor). The namespace would not let it.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


@dataclass(frozen=True)
class Client:
    """One real client."""

    name: str
    # Its lock: a folder for npm, a file for pip.
    lock: str
    # The package whose version is shown.
    package: str
    # The program under `agents/` and its first arguments; none: Claude Code itself.
    program: tuple = ()
    # It wants an object, which it has the model give by a forced tool.
    structured: bool = False

    def version(self, packages):
        if self.lock.endswith(".txt"):
            found = packages.glob(f"{self.package.replace('-', '_')}-*.dist-info")
            return next(found).name.removesuffix(".dist-info").rpartition("-")[2]
        manifest = packages / "node_modules" / self.package / "package.json"
        return json.loads(manifest.read_text(encoding="utf-8"))["version"]

    def command(self, packages):
        if not self.program:
            wrapper = packages / "node_modules" / self.package / "cli-wrapper.cjs"
            options = ["--allowedTools", "Bash", "--output-format", "json"]
            return ["node", str(wrapper), "-p", PROMPT, *options]
        first, *rest = self.program
        if first.endswith(".mjs"):
            return ["node", str(PROGRAMS / first), *rest, PROMPT]
        # -S: only the packages that were installed for it, none of the system's.
        return [sys.executable, "-S", "-B", str(PROGRAMS / first), *rest, PROMPT]

    def environment(self, packages, home, port):
        """Nothing of ours but where programs are: an empty home and a key that is none."""
        return {
            "PATH": os.pathsep.join([os.path.dirname(shutil.which("node") or ""), "/usr/bin:/bin"]),
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": "dummy-key-of-no-one",
            "PYTHONPATH": str(packages),
            "CLIENT_PACKAGES": str(packages),
            **(QUIET if not self.program else {}),
        }


CLIENTS = [
    Client("claude-code", "claude-code", "@anthropic-ai/claude-code"),
    Client("anthropic-python", "anthropic-python.txt", "anthropic", ("anthropic_loop.py",)),
    Client("tool-runner", "anthropic-python.txt", "anthropic", ("anthropic_runner.py",)),
    Client("langchain", "langchain.txt", "langchain-anthropic", ("langchain_agent.py",)),
    Client("pydantic-ai", "pydantic-ai.txt", "pydantic-ai-slim", ("pydantic_agent.py", "plain")),
    Client(
        "pydantic-ai-structured",
        "pydantic-ai.txt",
        "pydantic-ai-slim",
        ("pydantic_agent.py", "structured"),
        structured=True,
    ),
    Client("ai-sdk", "ai-sdk", "@ai-sdk/anthropic", ("ai_sdk.mjs",)),
]


@dataclass
class Ended:
    """How a client ended."""

    status: object
    answer: object
    stderr: str


def run(client, packages, folder, port):
    """Runs a client in an empty folder against a server on that port, to its end."""
    home, place = folder / "home", folder / "place"
    home.mkdir()
    place.mkdir()
    process = subprocess.Popen(
        client.command(packages),
        cwd=place,
        env=client.environment(packages, home, port),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        # Its own group, with whatever it has started.
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return Ended(f"none within {RUN_SECONDS} s", None, stderr)
    return Ended(process.returncode, _answer(stdout), stderr or stdout)


def _answer(stdout):
    """Ours print `{"answer": …}`, Claude Code its result object, which may say that it failed."""
    try:
        said = json.loads(stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    if said.get("type") == "result":
        return said.get("result") if said.get("subtype") == "success" else None
    return said.get("answer")
