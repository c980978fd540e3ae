"""A state that processes share: conversations that go on elsewhere, one budget for all, a store that is away."""

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

import httpx2
import pytest
from loops import Loop, ask, ask_async, clients

import softland

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/fleet"))
from postgres import Postgres  # noqa: E402
from world import Redis  # noqa: E402

PROGRAMS = {
    "redis": lambda: shutil.which("redis-server"),
    "postgres": lambda: max(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")), default=None),
}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
# Seconds for what a store does soon.
PATIENCE = 60


@pytest.fixture
def store(request, tmp_path):
    """A Redis, or the store that a test names."""
    kind = getattr(request, "param", "redis")
    program = PROGRAMS[kind]()
    if program is None:
        if os.environ.get("SOFTLAND_SERVERS") == "require":
            pytest.fail(f"there is no server of {kind} here")
        pytest.skip(f"there is no server of {kind} here")
    server = Redis(program, tmp_path) if kind == "redis" else Postgres(program)
    yield server
    if server.process is not None:
        server.end()


BOTH = pytest.mark.parametrize("store", list(PROGRAMS), indirect=True)


def serve(link, url, options):
    """What a worker does: it has the turns that it is told to have, and tells what came of them."""
    softland.install(hosts=[url.removeprefix("http://")], **options)
    client = clients("anthropic", url, httpx2.Client(), max_retries=0)
    while (asked := link.recv()) is not None:
        try:
            link.send(have_turn(client, url, asked))
        except Exception as error:
            link.send({"error": type(error).__name__, "message": str(error)})


def have_turn(client, url, asked):
    loop, stream = Loop("anthropic", asked["prompt"]), asked.get("stream", False)
    loop.history = asked["history"] or loop.history
    with softland.run(**asked["run"]) if "run" in asked else contextlib.nullcontext() as run:
        if asked.get("awaits"):
            answer = asyncio.run(ask_waiting(url, loop.request(), stream))
        else:
            answer = ask(client, "anthropic", loop.request(), stream)
    text = loop.take(answer)
    return {"text": text, "history": loop.history, "cost": run and run.cost_usd}


async def ask_waiting(url, asked, stream):
    async with httpx2.AsyncClient() as http:
        client = clients("anthropic", url, http, is_async=True, max_retries=0)
        return await ask_async(client, "anthropic", asked, stream)


class Worker:
    """A process that governs what it asks, forked from this one."""

    def __init__(self, sim, **options):
        processes = multiprocessing.get_context("fork")
        self._link, end = processes.Pipe()
        self._process = processes.Process(target=serve, args=[end, sim.url, options], daemon=True)
        self._process.start()
        end.close()

    def begin(self, prompt, history=None, **more):
        """Begins a turn of a conversation."""
        self._link.send({"prompt": prompt, "history": history, **more})

    def take(self):
        """Returns what came of it."""
        return self._link.recv()

    def turn(self, prompt, history=None, **more):
        self.begin(prompt, history, **more)
        return self.take()

    def end(self):
        """Lets it end by itself, as programs do."""
        self._link.send(None)
        self._process.join(PATIENCE)
        assert self._process.exitcode == 0
        self._link.close()


@pytest.fixture
def workers(sim):
    started = []

    def start(server, **options):
        started.append(Worker(server, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


def until(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@BOTH
@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_goes_on_in_another_process(sim, workers, store, stream):
    server, keys = sim("looper"), {"cost_limit_usd": 0.09, "repeat_limit": 50}
    pair = [workers(server, shared=store.url, **keys) for _ in range(2)]
    alone = workers(server, **keys)
    history, turns = None, 0
    while True:
        told = pair[turns % 2].turn("What of money?", history, stream=stream)
        turns += 1
        history = told["history"]
        if told["text"] is not None:
            break
        assert turns < 20, "it does not land"
    assert turns > 2
    spent, held = store.accounts("run:")
    assert 0 < spent <= 90_000_000 and held == 0
    # A process with a state of its own begins to count with the conversation's last turn.
    fresh = alone.turn("What of money?", history[:-1], stream=stream)
    assert fresh["text"] is None


@BOTH
def test_processes_share_one_budget(sim, workers, store):
    server, limit = sim("looper"), 0.2
    keys = {"session_cost_limit_usd": limit, "repeat_limit": 50}
    pair = [workers(server, shared=store.url, **keys) for _ in range(2)]
    histories, ended, costs, rounds = [None, None], [False, False], [0, 0], 0
    while not all(ended):
        for number, worker in enumerate(pair):
            asked = {"run": {"name": "job", "session": "nightly"}, "awaits": number == 1}
            worker.begin(f"What of {number}?", histories[number], stream=rounds % 2 == 0, **asked)
        for number, worker in enumerate(pair):
            told = worker.take()
            assert "error" not in told, told
            histories[number], costs[number] = told["history"], costs[number] + told["cost"]
            if told["text"] is not None:
                ended[number], histories[number] = True, None
        rounds += 1
        assert rounds < 60
    assert all(costs) and sum(costs) <= limit
    booked = (round(sum(costs) * 1e9), 0)
    until(lambda: store.accounts("session:nightly") == booked, "one account has what both have spent")


def test_what_is_spent_is_told_before_a_process_ends(sim, store):
    worker = Worker(sim("reader"), shared=store.url, cost_limit_usd=1)
    told = worker.turn("What of the end?", run={"name": "whole"})
    worker.end()
    spent, held = store.accounts("run:")
    assert spent == round(told["cost"] * 1e9) > 0 and held == 0


def test_a_store_that_is_away(sim, workers, store):
    server = sim("reader")
    closed = workers(server, shared=store.url, cost_limit_usd=1)
    opened = workers(server, shared=store.url, cost_limit_usd=1, on_store_loss="open")
    free = workers(server, shared=store.url, tool_calls_limit=9)
    for worker in (closed, opened, free):
        assert "error" not in worker.turn("What is there?")
    store.kill()
    for awaits in (False, True):
        refused = closed.turn("What is there now?", awaits=awaits)
        assert "store" in refused["message"] and "503" in refused["message"], refused
    assert "error" not in opened.turn("What is there now?")
    assert "error" not in free.turn("What is there now?", stream=True)
    store.start()
    until(lambda: "error" not in closed.turn("What is there again?"), "the store is back")


def test_an_address_is_checked_when_it_is_installed():
    for wrong in ("redis:hunter2", "disk:///hunter2", "postgres:hunter2"):
        with pytest.raises(ValueError, match="shared: must be") as raised:
            softland.install(shared=wrong)
        assert "hunter2" not in str(raised.value)
    with softland.run():
        pass
    with pytest.raises(RuntimeError, match="shared cannot change"):
        softland.install(shared="redis://127.0.0.1:1")
    with pytest.raises(ValueError, match="session must be"):
        softland.run(session="of mine")
