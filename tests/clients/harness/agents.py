"""The clients: what each needs installed, which protocol it speaks, and how it is started."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import programs

PROGRAMS = Path(__file__).resolve().parent.parent / "agents"
PROMPT = "Take the steps one by one, then say what was done."
RUN_SECONDS = 120
KEY = "dummy-key-of-no-one"


@dataclass(frozen=True)
class Client:
    """One real client on one protocol."""

    name: str
    # `anthropic`, `chat` or `responses`.
    protocol: str
    # Its lock: a folder for npm, a file for pip.
    lock: str
    # The package whose version is shown.
    package: str
    # A program that is started as its users do; none: one of ours under `agents/`.
    own: object = None
    # The program under `agents/` and its first arguments.
    program: tuple = ()
    # The one tool that the model calls, and the arguments of a call.
    tool: str = "Bash"
    # It wants an object, which it has the model give by a forced tool.
    structured: bool = False
    # It declares no tools and reads edits out of the model's text.
    edits: bool = False
    # It lets the model call several tools at once.
    parallel: bool = True
    # `softland wrap` can tell it where the gateway is.
    wraps: bool = False
    # It takes MCP servers from a file.
    takes_servers: bool = False
    # Variables that keep it from calling home.
    quiet: dict = field(default_factory=dict)

    def is_in(self, packages):
        """Whether its package was installed: some are not made for every machine."""
        return self.lock.endswith(".txt") or self._manifest(packages).exists()

    def version(self, packages):
        if self.lock.endswith(".txt"):
            found = packages.glob(f"{self.package.replace('-', '_')}-*.dist-info")
            return next(found).name.removesuffix(".dist-info").rpartition("-")[2]
        return json.loads(self._manifest(packages).read_text(encoding="utf-8"))["version"]

    def _manifest(self, packages):
        return packages / "node_modules" / self.package / "package.json"

    def command(self, packages, url):
        """How it is started against a server at `url`; none: it must find that by itself."""
        if self.own:
            return self.own.command(packages, self, url, PROMPT)
        first, *rest = self.program
        if first.endswith(".mjs"):
            return ["node", str(PROGRAMS / first), *rest, PROMPT]
        # -S: only the packages that were installed for it, none of the system's.
        return [sys.executable, "-S", "-B", str(PROGRAMS / first), *rest, PROMPT]

    def environment(self, packages, home, url):
        """Nothing of ours but where programs are: an empty home and a key that is none."""
        own = self.own.environment(self, url) if self.own else {}
        return {
            "PATH": os.pathsep.join([os.path.dirname(shutil.which("node") or ""), "/usr/bin:/bin"]),
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            **({"ANTHROPIC_API_KEY": KEY} if self.protocol == "anthropic" else {}),
            **({"OPENAI_API_KEY": KEY} if self.protocol != "anthropic" else {}),
            **(programs.base_urls(url) if url else {}),
            "PYTHONPATH": str(packages),
            "CLIENT_PACKAGES": str(packages),
            **self.quiet,
            **own,
        }

    def answer(self, stdout):
        """What it gave as its answer; ours print `{"answer": …}`."""
        try:
            if self.own:
                return self.own.answer(stdout)
            return json.loads(stdout.strip().splitlines()[-1]).get("answer")
        except (AttributeError, IndexError, KeyError, ValueError):
            return None


def _python(name, protocol, lock, package, *program, **more):
    return Client(name, protocol, f"{lock}.txt", package, program=program, **more)


def _ai_sdk(name, protocol, package, *arguments):
    return Client(name, protocol, "ai-sdk", package, program=("ai_sdk.mjs", *arguments))


def _pydantic(name, protocol, model, kind="plain"):
    program = ("pydantic_agent.py", model, kind)
    more = {"structured": kind == "structured"}
    return _python(name, protocol, "pydantic-ai", "pydantic-ai-slim", *program, **more)


CHAT, RESPONSES = "openai-chat:gpt-4.1", "openai-responses:gpt-5.6-sol"
# It sends traces to its vendor otherwise.
UNTRACED = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
CLIENTS = [
    Client(
        "claude-code",
        "anthropic",
        "claude-code",
        "@anthropic-ai/claude-code",
        own=programs.ClaudeCode,
        quiet=programs.ClaudeCode.QUIET,
        wraps=True,
        takes_servers=True,
    ),
    _python(
        "claude-agent-sdk",
        "anthropic",
        "claude-agent-sdk",
        "claude-agent-sdk",
        "claude_sdk.py",
        quiet=programs.ClaudeCode.QUIET,
    ),
    _python("anthropic-python", "anthropic", "anthropic-python", "anthropic", "anthropic_loop.py"),
    _python("tool-runner", "anthropic", "anthropic-python", "anthropic", "anthropic_runner.py"),
    # Its default model has its tools in an item, and calls them from one that takes a program.
    Client(
        "codex",
        "responses",
        "codex",
        "@openai/codex",
        own=programs.Codex,
        tool="exec",
        parallel=False,
        wraps=True,
    ),
    Client(
        "codex-tools",
        "responses",
        "codex",
        "@openai/codex",
        own=programs.Codex,
        tool="exec_command",
        wraps=True,
    ),
    *(
        Client(
            f"opencode-{protocol}",
            protocol,
            "opencode",
            "opencode-linux-x64",
            own=programs.Opencode,
            tool="bash",
            quiet=programs.Opencode.QUIET,
            # A provider of the user's own is not `wrap`'s to find.
            wraps=protocol != "chat",
        )
        for protocol in ("anthropic", "chat", "responses")
    ),
    _python("openai-python-chat", "chat", "openai-python", "openai", "openai_chat.py"),
    _python(
        "openai-python-responses",
        "responses",
        "openai-python",
        "openai",
        "openai_responses.py",
    ),
    *(
        _python(
            f"openai-agents-{protocol}",
            protocol,
            "openai-agents",
            "openai-agents",
            "openai_agents.py",
            protocol,
            quiet=UNTRACED,
        )
        for protocol in ("chat", "responses")
    ),
    *(
        _python(name, protocol, "langchain", package, "langchain_agent.py", protocol)
        for name, protocol, package in (
            ("langchain", "anthropic", "langchain-anthropic"),
            ("langchain-chat", "chat", "langchain-openai"),
            ("langchain-responses", "responses", "langchain-openai"),
        )
    ),
    _pydantic("pydantic-ai", "anthropic", "anthropic:claude-sonnet-4-5"),
    _pydantic("pydantic-ai-chat", "chat", CHAT),
    _pydantic("pydantic-ai-responses", "responses", RESPONSES),
    _pydantic(
        "pydantic-ai-structured", "anthropic", "anthropic:claude-sonnet-4-5", "structured"
    ),
    _pydantic("pydantic-ai-structured-chat", "chat", CHAT, "structured"),
    _pydantic("pydantic-ai-structured-responses", "responses", RESPONSES, "structured"),
    _ai_sdk("ai-sdk", "anthropic", "@ai-sdk/anthropic", "anthropic"),
    _ai_sdk("ai-sdk-chat", "chat", "@ai-sdk/openai", "chat"),
    _ai_sdk("ai-sdk-responses", "responses", "@ai-sdk/openai", "responses"),
    _ai_sdk("ai-sdk-compatible", "chat", "@ai-sdk/openai-compatible", "compatible"),
    Client(
        "aider",
        "chat",
        "aider.txt",
        "aider-chat",
        own=programs.Aider,
        edits=True,
        wraps=True,
    ),
]


@dataclass
class Ended:
    """How a client ended."""

    status: object
    answer: object
    stderr: str


def run(client, packages, folder, url, wrapped=None, servers=None):
    """Runs a client in an empty folder against a server at `url`, to its end. With `wrapped` it is
    told nothing of the server: those arguments and `--` stand before its command, `url` in the
    variables that they read. `servers` is a file of MCP servers that it is given."""
    home, place = folder / "home", folder / "place"
    home.mkdir()
    place.mkdir()
    if client.own:
        client.own.prepare(place)
    command = client.command(packages, None if wrapped else url)
    if servers:
        command += client.own.with_servers(servers)
    environment = client.environment(packages, home, None if wrapped else url)
    if wrapped:
        command = [*wrapped, "--", *command]
        environment |= programs.base_urls(url)
    process = subprocess.Popen(
        command,
        cwd=place,
        env=environment,
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
    (folder / "client.out").write_text(stdout, encoding="utf-8")
    (folder / "client.err").write_text(stderr, encoding="utf-8")
    return Ended(process.returncode, client.answer(stdout), stderr or stdout)
