"""Every SDK and mode lands at its limit, and what the model is told is on the wire."""

import asyncio

import httpx2
import pytest
from conftest import AsyncRecorder, Recorder
from loops import clients, run_loop, run_loop_async

import softland

PROTOCOLS = ("anthropic", "chat", "responses")
ASK = b"Tool call limit reached (4 of 4). Answer now"
# The looper repeats itself, and would end as a loop before the limit.
LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}


def check_landed(run, answer, calls, bodies, protocol, stream):
    assert calls == 4 and answer.strip()
    assert (run.outcome, run.reason, run.answered_by) == ("landed", "tool_calls", "model")
    assert (run.tool_calls, run.turns) == (4, 5)
    # A stream of Chat Completions says what it costs only to who asks.
    assert run.cost_usd is None if (protocol, stream) == ("chat", True) else run.cost_usd > 0
    text = b"\n".join(bodies)
    assert b"2 tool calls remaining" in text and b"1 tool call remaining" in text
    assert sum(ASK in body for body in bodies) == 1 and ASK in bodies[-1], protocol


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_lands_at_its_limit(sim, protocol, stream):
    server, recorder = sim("looper"), Recorder()
    softland.install(hosts=[server.host], **LIMITS)
    client = clients(protocol, server.url, httpx2.Client(transport=recorder))
    with softland.run(name="job") as run:
        answer, calls = run_loop(client, protocol, stream=stream)
    check_landed(run, answer, calls, recorder.bodies, protocol, stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_async_run_lands_at_its_limit(sim, protocol, stream):
    server, recorder = sim("looper"), AsyncRecorder()
    softland.install(hosts=[server.host], **LIMITS)

    async def main():
        http = httpx2.AsyncClient(transport=recorder)
        client = clients(protocol, server.url, http, is_async=True)
        async with softland.run(name="job") as run:
            answer, calls = await run_loop_async(client, protocol, stream=stream)
        return run, answer, calls

    run, answer, calls = asyncio.run(main())
    check_landed(run, answer, calls, recorder.bodies, protocol, stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_ignores_the_ask_lands_within_the_same_call(sim, protocol, stream):
    server, recorder = sim("stubborn"), Recorder()
    softland.install(hosts=[server.host], **LIMITS)
    client = clients(protocol, server.url, httpx2.Client(transport=recorder))
    with softland.run() as run:
        answer, calls = run_loop(client, protocol, stream=stream)
    assert calls == 4 and answer.strip()
    assert (run.outcome, run.answered_by) == ("landed", "model")
    assert len(recorder.bodies) == 7


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_softland_answers_where_the_model_does_not(sim, protocol, stream):
    server = sim("mute")
    softland.install(hosts=[server.host], **LIMITS)
    client = clients(protocol, server.url, httpx2.Client())
    with softland.run() as run:
        answer, _ = run_loop(client, protocol, stream=stream)
    assert answer.startswith("[This answer is softland's, not the model's.]")
    assert (run.outcome, run.answered_by) == ("stopped", "local")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_turn_is_repaired(sim, protocol, stream):
    server = sim("empty")
    softland.install(hosts=[server.host])
    client = clients(protocol, server.url, httpx2.Client())
    with softland.run() as run:
        answer, _ = run_loop(client, protocol, stream=stream)
    assert answer.strip() and run.outcome == "answered"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_below_the_limits_nothing_changes(sim, protocol, stream):
    # Two simulators, since each counts what it has said.
    servers, bodies = (sim("reader"), sim("reader")), []
    for server, is_governed in zip(servers, (False, True)):
        if is_governed:
            softland.install(hosts=[server.host], tool_calls_limit=100)
        recorder = Recorder()
        client = clients(protocol, server.url, httpx2.Client(transport=recorder))
        with softland.run() as run:
            _, calls = run_loop(client, protocol, stream=stream)
        bodies.append(recorder.bodies)
    assert run.outcome == "answered" and calls > 0
    assert bodies[0] == bodies[1]
