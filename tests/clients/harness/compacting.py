"""More clients that are programs of their own: those that were found to compact a long conversation,
each in its own way. Where a start is to have a small context, it is made small by what its users can
set."""

import json
import sys

from .programs import Program

KEY = "dummy-key-of-no-one"
MODELS = {"anthropic": "claude-sonnet-4-5", "chat": "gpt-4.1", "responses": "gpt-5.6-sol"}


class Pi(Program):
    """pi, `pi -p`. Providers and their models are in a file of its own."""

    QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
    APIS = {
        "anthropic": "anthropic-messages",
        "chat": "openai-completions",
        "responses": "openai-responses",
    }

    @classmethod
    def prepare(cls, start):
        protocol = start.client.protocol
        folder = start.home / ".pi" / "agent"
        folder.mkdir(parents=True)
        model = {
            "id": MODELS[protocol],
            "name": "mine",
            "reasoning": False,
            "input": ["text"],
            "contextWindow": 9000 if start.small else 200_000,
            "maxTokens": 4000,
            "cost": {"input": 1, "output": 1, "cacheRead": 1, "cacheWrite": 1},
        }
        provider = {
            "baseUrl": start.url if protocol == "anthropic" else f"{start.url}/v1",
            "api": cls.APIS[protocol],
            "apiKey": KEY,
            "models": [model],
        }
        _write(folder / "models.json", {"providers": {"mine": provider}})
        if start.small:
            compaction = {"enabled": True, "reserveTokens": 2000, "keepRecentTokens": 1500}
            _write(folder / "settings.json", {"compaction": compaction})

    @staticmethod
    def command(start):
        model = ["--provider", "mine", "--model", MODELS[start.client.protocol]]
        return [start.program("pi"), "--offline", "-p", "--mode", "text", *model, start.prompt]

    @staticmethod
    def arguments(_client, command, _number):
        return {"command": command}


class Cline(Program):
    """Cline's command line. It keeps the address of a provider with the login, which comes first."""

    QUIET = {"CLINE_TELEMETRY_DISABLED": "1"}

    @staticmethod
    def command(start):
        program = start.program("cline")
        model = f"-k {KEY} -m gpt-4.1"
        login = f"{program} auth openai-compatible {model} -b {start.url}/v1 >login.log 2>&1"
        ask = f'exec {program} --json -P openai-compatible {model} "$1"'
        return ["/bin/sh", "-c", f"{login} && {ask}", "sh", start.prompt]

    @staticmethod
    def arguments(_client, command, _number):
        return {"commands": [command]}

    @staticmethod
    def answer(stdout):
        events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        return [one["text"] for one in events if one.get("type") == "run_result"][-1]


class Copilot(Program):
    """GitHub's Copilot CLI with a provider of one's own."""

    QUIET = {"COPILOT_OFFLINE": "true"}
    WIRES = {"chat": "completions", "responses": "responses"}

    @classmethod
    def environment(cls, start):
        protocol = start.client.protocol
        if protocol == "anthropic":
            kind = {"COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_BASE_URL": start.url}
        else:
            kind = {
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_WIRE_API": cls.WIRES[protocol],
                "COPILOT_PROVIDER_BASE_URL": f"{start.url}/v1",
            }
        small = {"COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "20000"} if start.small else {}
        key = {"COPILOT_PROVIDER_API_KEY": KEY, "COPILOT_MODEL": MODELS[protocol]}
        return {**kind, **key, **small}

    @staticmethod
    def command(start):
        quiet = ["-s", "--no-auto-update", "--disable-client-telemetry"]
        return [start.program("copilot"), "-p", start.prompt, "--allow-all-tools", *quiet]


class Continue(Program):
    """Continue's command line, `cn -p`."""

    QUIET = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0"}
    PROVIDERS = {"anthropic": "anthropic", "chat": "openai"}

    @classmethod
    def prepare(cls, start):
        model = {
            "name": "mine",
            "provider": cls.PROVIDERS[start.client.protocol],
            "model": MODELS[start.client.protocol],
            "apiKey": KEY,
            "apiBase": f"{start.url}/v1",
            "roles": ["chat"],
            "capabilities": ["tool_use"],
            "defaultCompletionOptions": {"contextLength": 14_000 if start.small else 200_000},
        }
        config = {"name": "mine", "version": "1.0.0", "schema": "v1", "models": [model]}
        # JSON is YAML too.
        _write(start.home / "config.yaml", config)

    @staticmethod
    def command(start):
        config = str(start.home / "config.yaml")
        return [start.program("cn"), "--config", config, "--auto", "-p", start.prompt]

    @staticmethod
    def arguments(_client, command, _number):
        return {"command": command}


class KimiCode(Program):
    """Kimi Code, `kimi -p`."""

    QUIET = {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_TELEMETRY": "0"}
    TYPES = {"anthropic": "anthropic", "chat": "openai", "responses": "openai_responses"}

    @classmethod
    def prepare(cls, start):
        protocol = start.client.protocol
        folder = start.home / ".kimi-code"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""default_model = "mine"
[providers.mine]
type = "{cls.TYPES[protocol]}"
base_url = "{start.url}{"" if protocol == "anthropic" else "/v1"}"
api_key = "{KEY}"
[models.mine]
provider = "mine"
model = "{MODELS[protocol]}"
max_output_size = 8000
max_context_size = {30_000 if start.small else 200_000}
""",
            encoding="utf-8",
        )

    @staticmethod
    def command(start):
        return [start.program("kimi"), "-p", start.prompt, "--output-format", "stream-json"]

    @staticmethod
    def answer(stdout):
        events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        said = [one.get("content") for one in events if one.get("role") == "assistant"]
        last = [one for one in said if one][-1]
        return last if isinstance(last, str) else "".join(part.get("text", "") for part in last)


class QwenCode(Program):
    """Qwen Code, `qwen`."""

    QUIET = {"QWEN_TELEMETRY_ENABLED": "false"}

    @staticmethod
    def command(start):
        server = ["--openai-base-url", f"{start.url}/v1", "--openai-api-key", KEY]
        model = ["-m", "gpt-4.1", "--auth-type", "openai", *server]
        return [start.program("qwen"), "-y", "-o", "text", *model, start.prompt]

    @staticmethod
    def arguments(_client, command, number):
        about = {"description": f"Takes step {number}", "is_background": False}
        return {"command": command, **about}


class Goose(Program):
    """goose, `goose run`, with the one extension that runs commands."""

    QUIET = {
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
    }

    @staticmethod
    def environment(start):
        kind = "anthropic" if start.client.protocol == "anthropic" else "openai"
        return {
            "GOOSE_PROVIDER": kind,
            "GOOSE_MODEL": MODELS[start.client.protocol],
            f"{kind.upper()}_HOST": start.url,
        }

    @staticmethod
    def command(start):
        options = ["--with-builtin", "developer", "-q", "--no-session"]
        return [start.program("goose"), "run", *options, "-t", start.prompt]

    @staticmethod
    def arguments(_client, command, _number):
        return {"command": command}

    @staticmethod
    def answer(stdout):
        """It comes directly behind what the last command printed, a number."""
        return stdout.strip().splitlines()[-1].lstrip("0123456789")


class Gptme(Program):
    """gptme with calls of tools (its own default writes them into its text), and its tool for the end. It
    reminds a model that answers without that tool of it, twice, and then ends with success."""

    # It would try to fetch a table of tokens, again and again.
    QUIET = {"MODEL_CHECK": "0", "GPTME_TIKTOKEN_TIMEOUT": "0"}

    @staticmethod
    def command(start):
        tools = ["--tool-format", "tool", "-t", "shell,complete", "--context", "files"]
        options = ["-m", "local/gpt-4.1", "--non-interactive", "--no-confirm", *tools]
        return [sys.executable, "-S", "-B", "-m", "gptme", *options, start.prompt]

    @staticmethod
    def arguments(_client, command, _number):
        return {"command": command}

    @staticmethod
    def answer(stdout):
        """The last line of what the model said, before what gptme says at its end."""
        said = stdout.rpartition("Assistant: \n")[2].partition("\n·")[0]
        return said.strip().splitlines()[-1]


class OpenHands(Program):
    """OpenHands' tools want to be told more of a call."""

    @staticmethod
    def arguments(_client, command, number):
        return {"command": command, "security_risk": "LOW", "summary": f"Takes step {number}"}


def _write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
