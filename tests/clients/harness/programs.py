"""The clients that are programs of their own: how each is started, put behind a server, and what it
prints as its answer. None of them is given more than its users would give it, but for switches that
keep it from calling home: the namespace would not let it, and it would wait for that."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from . import specialists


def base_urls(url):
    """The variables by which most programs find a server."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
    }


@dataclass(frozen=True)
class Start:
    """One start of a client."""

    client: object
    packages: Path
    # The address of the server; none: the client must find that by itself.
    url: str | None
    prompt: str
    # Its working folder and its home, both empty.
    place: Path
    home: Path
    # Whether its context is to be so small that it compacts.
    small: bool = False

    def program(self, name):
        """One that npm has put in place."""
        return str(self.packages / "node_modules" / ".bin" / name)


class Program:
    """What all have in common."""

    @staticmethod
    def environment(_start):
        return {}

    @staticmethod
    def prepare(_start):
        pass

    @staticmethod
    def arguments(_client, command, number):
        """Those of a call of its tool that runs a command."""
        return {"command": command, "description": f"Takes step {number}"}

    @staticmethod
    def answer(stdout):
        """The last line: those that print text print all that the model said."""
        return stdout.strip().splitlines()[-1]


class ClaudeCode(Program):
    """Claude Code, `claude -p`."""

    # Measured with 2.1.330: the variables for telemetry, errors and updates alone leave one call.
    QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    @staticmethod
    def command(start):
        package = start.packages / "node_modules" / "@anthropic-ai" / "claude-code"
        options = ["--allowedTools", "Bash", "--output-format", "json"]
        return ["node", str(package / "cli-wrapper.cjs"), "-p", start.prompt, *options]

    @staticmethod
    def environment(start):
        return {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "20"} if start.small else {}

    @staticmethod
    def with_servers(file):
        """Its own are left out; what the file's servers offer may be called."""
        allowed = ["--allowedTools", f"mcp__{specialists.SERVER}"]
        return [*allowed, "--strict-mcp-config", "--mcp-config", str(file)]

    @staticmethod
    def answer(stdout):
        said = json.loads(stdout.strip().splitlines()[-1])
        return said.get("result") if said.get("subtype") == "success" else None


class Codex(Program):
    """Codex, `codex exec`. It reads no variable for its base URL: a provider of its own is given by
    arguments, which is what `softland wrap` does by itself."""

    @staticmethod
    def command(start):
        client = start.client
        # By the name that `wrap` knows it by.
        program = start.program("codex")
        provider = f'{{name="softland",base_url="{start.url}/v1",env_key="OPENAI_API_KEY"}}'
        given = ["-c", 'model_provider="softland"', "-c", f"model_providers.softland={provider}"]
        # Those that it knows no better have their tools in the field for tools.
        model = ["--model", "gpt-5.5"] if client.tool == "exec_command" else []
        # The namespace is its sandbox; its own needs more than that gives.
        free = "--dangerously-bypass-approvals-and-sandbox"
        # Above what its instructions and tools take.
        tokens = 14_000 if client.tool == "exec_command" else 20_000
        small = ["-c", f"model_auto_compact_token_limit={tokens}"] if start.small else []
        options = ["--json", "--skip-git-repo-check", free, *model, *small]
        return [program, *(given if start.url else []), "exec", *options, start.prompt]

    @staticmethod
    def arguments(client, command, _number):
        given = {"cmd": command}
        if client.tool == "exec_command":
            return given
        # A tool that takes a program, which calls the others.
        return f"text((await tools.exec_command({json.dumps(given)})).output)"

    @staticmethod
    def answer(stdout):
        items = [json.loads(line).get("item", {}) for line in stdout.splitlines()]
        return [item["text"] for item in items if item.get("type") == "agent_message"][-1]


class Opencode(Program):
    """opencode, `opencode run`. Its providers' addresses are in its config, which may be given in a
    variable; for Chat Completions it has no provider of its own that is not one of a vendor."""

    QUIET = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    MODELS = {
        "anthropic": "anthropic/claude-sonnet-4-5",
        "chat": "mine/gpt-4.1",
        "responses": "openai/gpt-5.6-sol",
    }

    @classmethod
    def command(cls, start):
        program = start.packages / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
        model = cls.MODELS[start.client.protocol]
        return [str(program), "run", "--format", "json", "--model", model, start.prompt]

    @classmethod
    def environment(cls, start):
        own = {"npm": "@ai-sdk/openai-compatible", "models": {"gpt-4.1": {}}}
        providers = {"mine": own} if start.client.protocol == "chat" else {}
        if start.url:
            options = {"baseURL": f"{start.url}/v1"}
            providers |= {"anthropic": {"options": options}, "openai": {"options": options}}
            own["options"] = {**options, "apiKey": "{env:OPENAI_API_KEY}"}
        if start.small:
            provider, _, model = cls.MODELS[start.client.protocol].partition("/")
            limit = {"context": 16_000, "input": 16_000, "output": 4000}
            providers[provider]["models"] = {model: {"limit": limit}}
        return {"OPENCODE_CONFIG_CONTENT": json.dumps({"provider": providers})}

    @staticmethod
    def answer(stdout):
        events = [json.loads(line) for line in stdout.splitlines()]
        return [one["part"]["text"] for one in events if one["type"] == "text"][-1]


class Aider(Program):
    """aider, `aider --message`. The model's answer is text; edits are blocks in it. Told to test
    each edit, it shows the model what failed as the next message, three times at most. Each request
    changes the last message of the one before, so the session has to be named."""

    SETTINGS = """- name: aider/extra_params
  extra_params:
    extra_headers:
      x-softland-session: mine
"""

    @staticmethod
    def command(start):
        quiet = ["--no-check-update", "--no-show-release-notes", "--analytics-disable"]
        plain = ["--yes-always", "--no-git", "--no-pretty"]
        model = ["--model", "gpt-4.1", "--edit-format", "diff", "--no-show-model-warnings"]
        tested = ["--auto-test", "--test-cmd", "test $(wc -l < marker.txt) -ge 3"]
        asked = [*tested, "--message", start.prompt, "marker.txt"]
        return [sys.executable, "-S", "-B", "-m", "aider", *quiet, *plain, *model, *asked]

    @staticmethod
    def environment(_start):
        # Else it asks for a price list, three times.
        return {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    @classmethod
    def prepare(cls, start):
        (start.place / "marker.txt").touch()
        (start.place / ".aider.model.settings.yml").write_text(cls.SETTINGS, encoding="utf-8")

    @staticmethod
    def answer(stdout):
        """What the model said last: what stands before its last account of tokens, and behind what
        aider said before that."""
        said = stdout.split("Added marker.txt to the chat.")[-1].split("\nTokens: ")[-2]
        return said.split("lines of output to the chat.")[-1].strip()
