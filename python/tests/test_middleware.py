"""The Anthropic SDK's own middleware, without a change to any HTTP library."""

import asyncio

import anthropic
import httpx2
import pytest
from conftest import AsyncRecorder, Recorder
from loops import Loop, ask, clients, run_loop, run_loop_async

import softland

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
ASK = b"Tool call limit reached (4 of 4). Answer now"


def sync_client(server, recorder, middleware, **more):
    http = httpx2.Client(transport=recorder)
    return clients("anthropic", server.url, http, middleware=middleware, **more)


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_run_lands_once(sim, stream, installed):
    server, recorder = sim("looper"), Recorder()
    if installed:
        # The hooks beneath leave alone what the middleware has governed.
        softland.install(hosts=[server.host], tool_calls_limit=2, repeat_limit=50)
    client = sync_client(server, recorder, [softland.anthropic_middleware(**LIMITS)])
    with softland.run() as run:
        answer, calls = run_loop(client, "anthropic", stream=stream)
    assert (calls, run.outcome, run.tool_calls, run.answered_by) == (4, "landed", 4, "model")
    assert answer.strip() and run.cost_usd > 0
    assert b"".join(recorder.bodies).count(b"2 tool calls remaining") == 3
    assert sum(ASK in body for body in recorder.bodies) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_async_run_lands(sim, stream):
    server, recorder = sim("stubborn"), AsyncRecorder()

    async def main():
        client = clients(
            "anthropic",
            server.url,
            httpx2.AsyncClient(transport=recorder),
            is_async=True,
            middleware=[softland.anthropic_middleware(**LIMITS)],
        )
        async with softland.run() as run:
            answer, calls = await run_loop_async(client, "anthropic", stream=stream)
        return run, answer, calls

    run, answer, calls = asyncio.run(main())
    assert (calls, run.outcome) == (4, "landed") and answer.strip()
    # The requests beyond those of the loop are within its last call.
    assert len(recorder.bodies) == 7


@pytest.mark.parametrize("stream", [False, True])
def test_softland_answers_without_any_request(sim, stream):
    server, recorder = sim("reader"), Recorder()
    client = sync_client(server, recorder, [softland.anthropic_middleware(cost_limit_usd=0.000001)])
    with softland.run() as run:
        message = ask(client, "anthropic", Loop("anthropic").request(), stream)
    assert message.content[0].text.startswith("[This answer is softland's")
    # At most its tokens were counted.
    assert run.outcome == "stopped" and not any(b"max_tokens" in body for body in recorder.bodies)


@pytest.mark.parametrize("stream", [False, True])
def test_below_the_limits_nothing_changes(sim, stream):
    bodies = []
    for middleware in ([], [softland.anthropic_middleware(tool_calls_limit=100)]):
        recorder = Recorder()
        client = sync_client(sim("reader"), recorder, middleware)
        _, calls = run_loop(client, "anthropic", stream=stream)
        assert calls > 0
        bodies.append(recorder.bodies)
    assert bodies[0] == bodies[1]


def test_what_other_middleware_writes_and_callers_add_is_governed(sim):
    server, recorder = sim("looper"), Recorder()

    def outer(request, call_next):
        return call_next(request.copy(body={**request.json, "stop_sequences": ["END."]}))

    seen = []

    def inner(request, call_next):
        seen.append(request.json)
        return call_next(request)

    client = sync_client(server, recorder, [outer, softland.anthropic_middleware(**LIMITS), inner])
    asked = Loop("anthropic").request()
    headers = {"x-softland-run": "named"}
    raw = client.messages.with_raw_response.create(
        **asked, extra_body={"service_tier": "auto"}, extra_headers=headers
    )
    assert raw.parse().content and raw.headers["x-softland-tool-calls"].endswith("/4")
    for added in (b'"stop_sequences":["END."]', b'"service_tier":"auto"'):
        assert added in recorder.bodies[0]
    assert seen[0]["stop_sequences"] == ["END."]


def test_errors_and_retries_are_those_of_the_sdk(sim):
    gone = sim("reader")
    gone.stop()
    middleware = [softland.anthropic_middleware(**LIMITS)]
    client = clients("anthropic", gone.url, httpx2.Client(), middleware=middleware, max_retries=0)
    with pytest.raises(anthropic.APIConnectionError) as raised:
        ask(client, "anthropic", Loop("anthropic").request(), False)
    assert isinstance(raised.value.__cause__, httpx2.ConnectError)
    middleware = [softland.anthropic_middleware(tool_calls_limit=40)]
    client = sync_client(sim("overloaded"), Recorder(), middleware, max_retries=4)
    with softland.run() as run:
        _, calls = run_loop(client, "anthropic")
    assert run.outcome == "answered" and run.turns == calls + 1


def test_what_is_no_turn_passes(sim):
    server, recorder = sim("reader"), Recorder()
    client = sync_client(server, recorder, [softland.anthropic_middleware(**LIMITS)])
    asked = Loop("anthropic").request()
    counted = client.messages.count_tokens(
        model=asked["model"], messages=asked["messages"], tools=asked["tools"]
    )
    assert counted.input_tokens > 0
    with pytest.raises(anthropic.NotFoundError):
        client.get("/v1/nothing", cast_to=object)
