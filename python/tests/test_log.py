"""What a program is told of softland's own troubles, and of runs that are open at its end."""

import logging
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import httpx2
import pytest
from loops import Loop, ask, clients

import softland
from softland import _state

FOLDER = Path(softland.__file__).resolve().parents[1]
# A program that ends with a run open, or with a store that is away.
PROGRAM = """
import logging, sys
sys.path[:0] = sys.argv[1:3]
logging.basicConfig(level=logging.ERROR, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
import httpx2, softland
from loops import Loop, ask, clients
url, shared = sys.argv[3], sys.argv[4] or None
softland.install(
    hosts=[url.removeprefix("http://")], shared=shared, on_event=lambda event: print(event["event"], event.get("reason"))
)
ask(clients("anthropic", url, httpx2.Client()), "anthropic", Loop("anthropic").request(), False)
print("the program ends")
"""


def run_program(url, shared=""):
    command = [sys.executable, "-c", PROGRAM, str(FOLDER), str(Path(__file__).parent), url, shared]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_run_that_is_open_at_the_end_of_the_program_has_an_event_of_its_end(sim):
    told = run_program(sim("looper").url)
    assert told[0].startswith("run_start") and told[-1] == "error user", told
    assert told.index("the program ends") < len(told) - 1


def test_a_shared_state_that_is_away_is_logged(sim):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    told = run_program(sim("reader").url, f"redis://127.0.0.1:{port}")
    errors = [line for line in told if line.startswith("softland ERROR")]
    assert any("the stored state of this conversation is not available" in line for line in errors), told


def test_messages_of_softland_are_logged_where_they_belong(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "softland")
    monkeypatch.setattr(_state._native, "take_messages", lambda: [(True, "lost"), (False, "slow")])
    _state.deliver_events()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "softland: lost"),
        ("INFO", "softland: slow"),
    ]


class Faulty:
    """A governor that has a fault."""

    def begin(self, *_):
        raise OSError("the ledger cannot be opened")

    open_run = begin

    def report_run(self, _):
        return None

    def take_events(self):
        return []

    def close_run(self, _):
        pass


def test_a_run_that_cannot_begin_raises_under_a_limit_and_is_not_governed_without(sim, monkeypatch):
    server = sim("reader")
    softland.install(hosts=[server.host])
    monkeypatch.setattr(_state.process, "governor", Faulty())
    with pytest.raises(softland.GovernorError, match="nothing was sent: the ledger cannot be opened"):
        with softland.run(tool_calls_limit=3):
            pass
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run() as run:
        ask(client, "anthropic", Loop("anthropic").request(), False)
    assert run.ungoverned == 1


def test_names_and_money_are_what_they_are_said_to_be():
    for arguments, told in (({"name": 3}, "name must be a text; found 3"), ({"session": 3}, "session must be a text; found 3")):
        with pytest.raises(TypeError, match=told):
            softland.run(**arguments)
    assert _state.Policy(keys={"cost_limit_usd": Decimal("0.30")}).limits_money
