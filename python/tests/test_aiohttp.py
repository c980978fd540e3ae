"""Requests of aiohttp are governed, and its clients get responses of aiohttp."""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest
from loops import Loop

import softland

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/clients"))
from harness.tap import Tap  # noqa: E402

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}


@pytest.fixture
def tap(sim):
    taps = []

    def start(scenario):
        taps.append(Tap(int(sim(scenario).host.rpartition(":")[2])))
        return taps[-1]

    yield start
    for one in taps:
        one.stop()


def host(tap):
    return tap.url.removeprefix("http://")


def read_stream(body):
    """The message of a stream of Anthropic's events."""
    content, stop = [], None
    for line in body.decode().splitlines():
        event = json.loads(line[6:]) if line.startswith("data: ") else {}
        if event.get("type") == "content_block_start":
            content.append({**event["content_block"], "partial": ""})
        elif event.get("type") == "content_block_delta":
            delta = event["delta"]
            content[-1]["partial"] += delta.get("text", delta.get("partial_json", ""))
        elif event.get("type") == "message_delta":
            stop = event["delta"]["stop_reason"]
    for block in content:
        said = block.pop("partial")
        if block["type"] == "tool_use":
            block["input"] = json.loads(said or "{}")
        else:
            block["text"] = said
    return {"content": content, "stop_reason": stop}


async def read(response, how):
    if how == "json":
        return await response.json()
    if how == "lines":
        return read_stream(b"".join([line async for line in response.content]))
    return read_stream(b"".join([piece async for piece in response.content.iter_chunked(50)]))


async def run_agent(session, url, how, **more):
    """Runs an agent over aiohttp alone. Returns its answer and its calls."""
    loop = Loop("anthropic")
    for _ in range(20):
        asked = {**loop.request(), "stream": how != "json"}
        async with session.post(f"{url}/v1/messages", headers=HEADERS, json=asked, **more) as response:
            assert response.status == 200, await response.text()
            message = await read(response, how)
        loop.history.append({"role": "assistant", "content": message["content"]})
        uses = [block for block in message["content"] if block["type"] == "tool_use"]
        if not uses:
            return "".join(block["text"] for block in message["content"]), loop.calls
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": loop._run(use["input"])}
            for use in uses
        ]
        loop.history.append({"role": "user", "content": results})
    raise AssertionError("no end")


@pytest.mark.parametrize("how", ["json", "lines", "chunks"])
@pytest.mark.parametrize(
    "scenario, sent, outcome", [("looper", 5, "landed"), ("stubborn", 7, "landed"), ("mute", 7, "stopped")]
)
def test_a_run_ends_at_its_limit(tap, scenario, sent, outcome, how):
    server = tap(scenario)
    softland.install(hosts=[host(server)], **LIMITS)

    async def main():
        async with aiohttp.ClientSession() as session, softland.run() as run:
            answer, calls = await run_agent(session, server.url, how)
        return run, answer, calls

    run, answer, calls = asyncio.run(main())
    assert (run.outcome, run.tool_calls, calls, run.ungoverned) == (outcome, 4, 4, 0)
    assert answer.strip() and len(server.exchanges) == sent
    assert b"2 tool calls remaining" in server.exchanges[-1].body


def test_below_the_limits_bytes_are_the_clients(tap):
    server = tap("reader")
    softland.install(hosts=[host(server)], tool_calls_limit=100)
    bodies = []

    def dumps(value):
        bodies.append(json.dumps(value, separators=(", ", ":")))
        return bodies[-1]

    async def main():
        async with aiohttp.ClientSession(json_serialize=dumps) as session, softland.run() as run:
            await run_agent(session, server.url, "lines")
        return run

    assert asyncio.run(main()).outcome == "answered"
    assert {said.body.decode() for said in server.exchanges} == set(bodies)


def test_softland_answers_where_nothing_is_sent(tap):
    server = tap("reader")
    softland.install(hosts=[host(server)], cost_limit_usd=0.000001)

    async def main():
        async with aiohttp.ClientSession() as session, softland.run() as run:
            said = [await run_agent(session, server.url, how) for how in ("json", "lines")]
        return run, said

    run, said = asyncio.run(main())
    assert run.outcome == "stopped"
    assert all(answer.startswith("[This answer is softland's") for answer, _ in said)
    assert not any(b"max_tokens" in sent.body for sent in server.exchanges)


def test_errors_are_those_of_aiohttp(tap, sim):
    server, gone = tap("overloaded:always"), sim("reader")
    gone.stop()
    softland.install(hosts=[host(server), gone.host], **LIMITS)

    async def main():
        async with aiohttp.ClientSession() as session:
            asked = Loop("anthropic").request()
            url = f"{server.url}/v1/messages"
            async with session.post(url, headers=HEADERS, json=asked) as response:
                assert response.status == 529 and not response.ok
                assert "overloaded" in await response.text()
            with pytest.raises(aiohttp.ClientResponseError):
                await session.post(url, headers=HEADERS, json=asked, raise_for_status=True)
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.post(f"{gone.url}/v1/messages", headers=HEADERS, json=asked)

    asyncio.run(main())


def test_a_stream_that_is_left_is_booked(tap):
    server = tap("slow")
    softland.install(hosts=[host(server)], **LIMITS)

    async def main():
        asked = {**Loop("anthropic").request(), "stream": True}
        async with aiohttp.ClientSession() as session, softland.run() as run:
            url = f"{server.url}/v1/messages"
            async with session.post(url, headers=HEADERS, json=asked) as response:
                await response.content.readline()
            timeout = aiohttp.ClientTimeout(total=0.1)
            with pytest.raises(asyncio.TimeoutError):
                await session.post(url, headers=HEADERS, json=asked, timeout=timeout)
        return run

    assert asyncio.run(main()).cost_usd > 0


def test_a_body_that_is_not_read_is_counted(tap):
    server = tap("reader")
    softland.install(hosts=[host(server)], tool_calls_limit=3)

    async def pieces():
        yield json.dumps(Loop("anthropic").request()).encode()

    async def main():
        async with aiohttp.ClientSession() as session, softland.run() as run:
            headers = {**HEADERS, "content-type": "application/json"}
            async with session.post(f"{server.url}/v1/messages", headers=headers, data=pieces()) as response:
                assert response.status == 200
            async with session.get(f"{server.url}/nothing") as response:
                assert response.status == 404
        return run

    assert asyncio.run(main()).ungoverned == 1
