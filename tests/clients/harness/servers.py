"""Starts and stops `softland sim` and `softland serve`, each on a free port of loopback."""

import json
import re
import subprocess
import time

LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
START_SECONDS = 10
STOP_SECONDS = 10


class Server:
    """A program that prints where it listens on stderr; stopped when the `with` block ends."""

    def __init__(self, command, folder, name):
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._name = name
        try:
            self.port = self._wait_for_port()
        except BaseException:
            self._stop()
            raise

    def _wait_for_port(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            said = self.log.read_text(errors="replace")
            if found := LISTENING.search(said):
                return int(found.group(1))
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._name} ended at once: {said.strip()[-600:]}")
            time.sleep(0.01)
        raise RuntimeError(f"{self._name} did not say where it listens within {START_SECONDS} s")

    def _stop(self):
        self._process.terminate()
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()


def sim(binary, folder, scenario):
    command = [binary, "sim", "--listen", "127.0.0.1:0", "--scenario", str(scenario)]
    return Server(command, folder, "sim")


def serve(binary, folder, upstream, policy):
    """A gateway with this policy; its ledger is in `folder`."""
    keys = "\n".join(f"{key} = {value}" for key, value in policy.items())
    config = folder / "softland.toml"
    config.write_text(
        f"""listen = "127.0.0.1:0"
[upstream.anthropic]
base_url = "{upstream}"
[upstream.openai]
base_url = "{upstream}"
[policy.default]
{keys}
[ledger]
url = "sqlite:{folder / "ledger.db"}"
""",
        encoding="utf-8",
    )
    return Server([binary, "serve", "--config", str(config)], folder, "serve")


def runs(binary, folder):
    """The runs in the ledger of the gateway that ran in `folder`."""
    command = [binary, "runs", "--config", "softland.toml", "--limit", "0", "--json"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in told.stdout.splitlines()]


def wrap(binary, policy):
    """The command before a command: `softland wrap` with this policy."""
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in policy.items()]
    return [binary, "wrap", *flags]
