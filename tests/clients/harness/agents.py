"""The clients: what each needs installed, which protocol it speaks, and how it is started."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import compacting, install, programs, scenarios

PROGRAMS = Path(__file__).resolve().parent.parent / "agents"
PROMPT = "Take the steps one by one, then say what was done."
RUN_SECONDS, LONG_SECONDS = 120, 600
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
    # What is its own: how its users start it, unless it is a program of ours, and how it calls.
    own: type = programs.Program
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
    # What becomes of its history in a long run: it is replaced by a `summary`, its oldest turns are
    # left out (`window`), or it stays `whole`. None: it is put through no long run.
    history: str = ""
    # It can play the simulator's scenarios: those that show their model its calls otherwise than they
    # were made begin them again and again.
    meets_sim: bool = True
    # How much dearer its tokens are told to be in a long run, where its context cannot be made small.
    fills: int = 1
    # How often its model says in a long run what it says before each call.
    words: int = 9
    # The tool by which its model answers, and the argument that is the answer; none: by text.
    answers_by: tuple = ()
    # The Python that it needs; none: any that runs this.
    python: str = ""
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

    def call(self, number):
        """A call that takes a step: the tool and its arguments."""
        command = f"echo step-{number} >> {scenarios.MARKER}; wc -l < {scenarios.MARKER}"
        return self.tool, self.own.arguments(self, command, number)

    def command(self, start):
        """How it is started."""
        if not self.program:
            return self.own.command(start)
        first, *rest = self.program
        if first.endswith(".mjs"):
            return ["node", str(PROGRAMS / first), *rest, start.prompt]
        # -S: only the packages that were installed for it, none of the system's.
        python = install.python(self.python)
        return [python, "-S", "-B", str(PROGRAMS / first), *rest, start.prompt]

    def environment(self, start):
        """Nothing of ours but where programs are: an empty home and a key that is none."""
        packages = start.packages
        # A client that needs a newer Node than this machine's brings its own.
        programs_of_npm = packages / "node_modules" / ".bin"
        node = os.path.dirname(shutil.which("node") or "")
        return {
            "PATH": os.pathsep.join([str(programs_of_npm), node, "/usr/bin:/bin"]),
            "HOME": str(start.home),
            "TMPDIR": str(start.home),
            "LANG": "C.UTF-8",
            **({"ANTHROPIC_API_KEY": KEY} if self.protocol == "anthropic" else {}),
            **({"OPENAI_API_KEY": KEY} if self.protocol != "anthropic" else {}),
            **(programs.base_urls(start.url) if start.url else {}),
            "PYTHONPATH": str(packages),
            "CLIENT_PACKAGES": str(packages),
            **({"SMALL_CONTEXT": "1"} if start.small else {}),
            **self.quiet,
            **self.own.environment(start),
        }

    def answer(self, stdout):
        """What it gave as its answer; ours print `{"answer": …}`."""
        try:
            if not self.program:
                return self.own.answer(stdout)
            return json.loads(stdout.strip().splitlines()[-1]).get("answer")
        except (AttributeError, IndexError, KeyError, ValueError):
            return None


def _python(name, protocol, lock, package, *program, **more):
    return Client(name, protocol, f"{lock}.txt", package, program=program, **more)


def _own(name, protocol, lock, package, own, tool="bash", **more):
    """One that compacts, unless told otherwise."""
    more = {"history": "summary", "quiet": own.QUIET, **more}
    return Client(name, protocol, lock, package, own=own, tool=tool, **more)


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
        history="summary",
        # It takes the context of every model of its vendor to be that large.
        fills=12,
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
        history="summary",
    ),
    Client(
        "codex-tools",
        "responses",
        "codex",
        "@openai/codex",
        own=programs.Codex,
        tool="exec_command",
        wraps=True,
        history="summary",
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
            history="summary",
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
    *(
        _own(f"pi-{wire}", wire, "pi", "@earendil-works/pi-coding-agent", compacting.Pi)
        for wire in ("anthropic", "chat", "responses")
    ),
    _own(
        "cline",
        "chat",
        "cline",
        "@cline/cli-linux-x64",
        compacting.Cline,
        tool="run_commands",
        # It takes the context of a model that it does not know to be that large, and keeps as much of
        # the newest turns as it estimates by itself.
        fills=12,
        words=27,
    ),
    *(
        _own(
            f"copilot-{wire}",
            wire,
            "copilot",
            "@github/copilot",
            compacting.Copilot,
            # It switches thinking off within a turn, which the simulator takes for a mistake.
            meets_sim=wire != "anthropic",
        )
        for wire in ("anthropic", "chat", "responses")
    ),
    *(
        _own(
            f"continue-{wire}",
            wire,
            "continue",
            "@continuedev/cli",
            compacting.Continue,
            tool="Bash",
        )
        for wire in ("anthropic", "chat")
    ),
    _own(
        "kimi-code",
        "chat",
        "kimi-code",
        "@moonshot-ai/kimi-code",
        compacting.KimiCode,
        tool="Bash",
    ),
    _own(
        "qwen-code",
        "chat",
        "qwen-code",
        "@qwen-code/qwen-code",
        compacting.QwenCode,
        tool="run_shell_command",
        # It takes the context of a model that it does not know to be that large.
        fills=4,
    ),
    *(
        _own(
            f"goose-{wire}",
            wire,
            "goose",
            "@aaif/goose-binary-linux-x64",
            compacting.Goose,
            tool="shell",
            # It compacts between the messages of its user only.
            history="whole",
            meets_sim=False,
        )
        for wire in ("anthropic", "chat")
    ),
    *(
        _python(
            f"openhands-{wire}",
            wire,
            "openhands",
            "openhands-sdk",
            "openhands_agent.py",
            wire,
            own=compacting.OpenHands,
            tool="terminal",
            history="summary",
            python="3.12",
        )
        for wire in ("anthropic", "chat")
    ),
    _own(
        "gptme",
        "chat",
        "gptme.txt",
        "gptme",
        compacting.Gptme,
        tool="shell",
        history="whole",
        meets_sim=False,
    ),
    _python(
        "smolagents",
        "chat",
        "smolagents",
        "smolagents",
        "smolagents_agent.py",
        history="whole",
        meets_sim=False,
        answers_by=("final_answer", "answer"),
    ),
    _python(
        "autogen", "chat", "autogen", "autogen-agentchat", "autogen_agent.py", history="whole"
    ),
    *(
        _python(
            f"strands-{wire}",
            wire,
            "strands",
            "strands-agents",
            "strands_agent.py",
            wire,
            history="window",
        )
        for wire in ("anthropic", "chat")
    ),
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


def run(client, packages, folder, url, small=False, wrapped=None, servers=None):
    """Runs a client in an empty folder against a server at `url`, to its end. With `wrapped` it is
    told nothing of the server: those arguments and `--` stand before its command, `url` in the
    variables that they read. `servers` is a file of MCP servers that it is given."""
    home, place = folder / "home", folder / "place"
    home.mkdir()
    place.mkdir()
    told = None if wrapped else url
    start = programs.Start(client, packages, told, PROMPT, place, home, small)
    client.own.prepare(start)
    command = client.command(start)
    if servers:
        command += client.own.with_servers(servers)
    environment = client.environment(start)
    if wrapped:
        command = [*wrapped, "--", *command]
        environment |= programs.base_urls(url)
    return finish(client, command, environment, folder, LONG_SECONDS if small else RUN_SECONDS)


def finish(client, command, environment, folder, seconds):
    """Runs that command to its end, or for so long."""
    process = subprocess.Popen(
        command,
        cwd=folder / "place",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        # Its own group, with whatever it has started.
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        status = f"none within {seconds} s"
    (folder / "client.out").write_text(stdout, encoding="utf-8")
    (folder / "client.err").write_text(stderr, encoding="utf-8")
    return Ended(status, client.answer(stdout), stderr or stdout)
