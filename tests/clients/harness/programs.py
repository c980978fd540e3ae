"""The clients that are programs of their own: how each is started, put behind a server, and what it
prints as its answer. None of them is given more than its users would give it, but for switches that
keep it from calling home: the namespace would not let it, and it would wait for that."""

import json
import sys

from . import specialists


def base_urls(url):
    """The variables by which most programs find a server."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
    }


class Program:
    """What all have in common."""

    @staticmethod
    def environment(_client, _url):
        return {}

    @staticmethod
    def prepare(_place):
        pass


class ClaudeCode(Program):
    """Claude Code, `claude -p`."""

    # Measured with 2.1.330: the variables for telemetry, errors and updates alone leave one call.
    QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    @staticmethod
    def command(packages, _client, _url, prompt):
        wrapper = packages / "node_modules" / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs"
        options = ["--allowedTools", "Bash", "--output-format", "json"]
        return ["node", str(wrapper), "-p", prompt, *options]

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
    def command(packages, client, url, prompt):
        # By the name that `wrap` knows it by.
        program = packages / "node_modules" / ".bin" / "codex"
        provider = f'{{name="softland",base_url="{url}/v1",env_key="OPENAI_API_KEY"}}'
        given = ["-c", 'model_provider="softland"', "-c", f"model_providers.softland={provider}"]
        # Those that it knows no better have their tools in the field for tools.
        model = ["--model", "gpt-5.5"] if client.tool == "exec_command" else []
        # The namespace is its sandbox; its own needs more than that gives.
        free = "--dangerously-bypass-approvals-and-sandbox"
        options = ["--json", "--skip-git-repo-check", free, *model]
        return [str(program), *(given if url else []), "exec", *options, prompt]

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
    def command(cls, packages, client, _url, prompt):
        program = packages / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
        model = cls.MODELS[client.protocol]
        return [str(program), "run", "--format", "json", "--model", model, prompt]

    @staticmethod
    def environment(client, url):
        own = {"npm": "@ai-sdk/openai-compatible", "models": {"gpt-4.1": {}}}
        providers = {"mine": own} if client.protocol == "chat" else {}
        if url:
            options = {"baseURL": f"{url}/v1"}
            providers |= {"anthropic": {"options": options}, "openai": {"options": options}}
            own["options"] = {**options, "apiKey": "{env:OPENAI_API_KEY}"}
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
    def command(_packages, _client, _url, prompt):
        quiet = ["--no-check-update", "--no-show-release-notes", "--analytics-disable"]
        plain = ["--yes-always", "--no-git", "--no-pretty"]
        model = ["--model", "gpt-4.1", "--edit-format", "diff", "--no-show-model-warnings"]
        tested = ["--auto-test", "--test-cmd", "test $(wc -l < marker.txt) -ge 3"]
        asked = [*tested, "--message", prompt, "marker.txt"]
        return [sys.executable, "-S", "-B", "-m", "aider", *quiet, *plain, *model, *asked]

    @staticmethod
    def environment(_client, _url):
        # Else it asks for a price list, three times.
        return {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    @classmethod
    def prepare(cls, place):
        (place / "marker.txt").touch()
        (place / ".aider.model.settings.yml").write_text(cls.SETTINGS, encoding="utf-8")

    @staticmethod
    def answer(stdout):
        """What the model said last: what stands before its last account of tokens, and behind what
        aider said before that."""
        said = stdout.split("Added marker.txt to the chat.")[-1].split("\nTokens: ")[-2]
        return said.split("lines of output to the chat.")[-1].strip()
