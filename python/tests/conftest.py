"""The simulator on loopback, and clients whose requests are recorded as they leave."""

import os
import re
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest

import softland

LISTENING = re.compile(rb"listening on (http://127\.0\.0\.1:\d+)")


def binary():
    """The program `softland`, as the gate has built it."""
    root = Path(__file__).resolve().parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
    found = Path(os.environ.get("SOFTLAND_BINARY") or target / "debug" / "softland")
    if not found.exists():
        pytest.exit(f"{found} is not there: cargo build -p softland-cli")
    return str(found)


class Server:
    """A program of softland that listens on a free port of loopback."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [binary(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        said = b""
        # It says where it listens once it does, or ends.
        while (found := LISTENING.search(said)) is None:
            line = self._process.stderr.readline()
            if not line:
                raise RuntimeError(f"it ended at once: {said.decode()}")
            said += line
        self.url = found.group(1).decode()
        self.host = self.url.removeprefix("http://")
        # What it says later must not fill the pipe.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def stop(self):
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def sim():
    """Starts simulators: `sim("looper")` is one with that scenario."""
    started = []

    def start(scenario, *more):
        server = Server("sim", "--listen", "127.0.0.1:0", "--scenario", str(scenario), *more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def _uninstalled():
    """Leaves nothing installed behind."""
    yield
    softland.uninstall()


class Recorder(httpx2.HTTPTransport):
    """A transport that keeps the bodies and headers that it has sent."""

    def __init__(self):
        super().__init__()
        self.bodies, self.headers = [], []

    def handle_request(self, request):
        self.headers.append(dict(request.headers))
        self.bodies.append(b"".join(request.stream))
        return super().handle_request(request)


class AsyncRecorder(httpx2.AsyncHTTPTransport):
    """The same for async clients."""

    def __init__(self):
        super().__init__()
        self.bodies = []

    async def handle_async_request(self, request):
        self.bodies.append(b"".join([piece async for piece in request.stream]))
        return await super().handle_async_request(request)
