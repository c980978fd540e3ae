"""Clients and transports with limits of their own, nested runs, policies of files."""

import asyncio

import httpx
import httpx2
import pytest
from conftest import AsyncRecorder, Recorder
from loops import Loop, ask, clients, run_loop, run_loop_async

import softland

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
ASK = b"Tool call limit reached (4 of 4)"


@pytest.mark.parametrize("installed", [False, True])
def test_a_client_has_limits_of_its_own(sim, installed):
    server, recorder = sim("looper"), Recorder()
    if installed:
        softland.install(hosts=[server.host], tool_calls_limit=9, repeat_limit=50)
    http = softland.Client(hosts=[server.host], transport=recorder, **LIMITS)
    assert isinstance(http, httpx2.Client)
    _, calls = run_loop(clients("anthropic", server.url, http), "anthropic", stream=True)
    assert calls == 4 and sum(ASK in body for body in recorder.bodies) == 1
    if not installed:
        # Another client of the process is not governed.
        free = clients("anthropic", server.url, httpx2.Client(transport=recorder))
        ask(free, "anthropic", Loop("anthropic").request(), False)


def test_an_async_client_has_limits_of_its_own(sim):
    server, recorder = sim("looper"), AsyncRecorder()

    async def main():
        http = softland.AsyncClient(hosts=[server.host], transport=recorder, **LIMITS)
        client = clients("chat", server.url, http, is_async=True)
        async with softland.run() as run:
            await run_loop_async(client, "chat", stream=True)
        return run

    run = asyncio.run(main())
    assert (run.outcome, run.tool_calls) == ("landed", 4)


class FromContent(Recorder):
    """A transport that takes a body from `request.content`, as LiteLLM's does."""

    def handle_request(self, request):
        headers = {**request.headers, "content-length": str(len(request.content))}
        again = httpx2.Request("POST", request.url, headers=headers, content=request.content)
        return super().handle_request(again)


def test_a_transport_may_read_the_content_of_a_request(sim):
    server, recorder = sim("stubborn"), FromContent()
    softland.install(hosts=[server.host], **LIMITS)
    client = clients("chat", server.url, httpx2.Client(transport=recorder))
    answer, calls = run_loop(client, "chat")
    assert calls == 4 and answer.strip() and len(recorder.bodies) == 7
    assert ASK in recorder.bodies[-1]


def test_a_transport_adds_requests(sim):
    server, recorder = sim("stubborn"), Recorder()
    http = httpx2.Client(transport=softland.Transport(recorder, hosts=[server.host], **LIMITS))
    answer, calls = run_loop(clients("chat", server.url, http), "chat")
    assert calls == 4 and answer.strip() and len(recorder.bodies) == 7


@pytest.mark.parametrize("installed", [False, True])
def test_a_transport_governs_once(sim, installed):
    server, recorder = sim("looper"), Recorder()
    if installed:
        softland.install(hosts=[server.host], **LIMITS)
    http = httpx2.Client(transport=softland.Transport(recorder, hosts=[server.host], **LIMITS))
    _, calls = run_loop(clients("responses", server.url, http), "responses", stream=True)
    assert calls == 4
    assert b"".join(recorder.bodies).count(b"2 tool calls remaining") == 1


def test_an_async_transport_of_httpx_governs(sim):
    server = sim("looper")

    async def main():
        inner = httpx.AsyncHTTPTransport()
        transport = softland.AsyncTransport(inner, hosts=[server.host], **LIMITS)
        client = clients("chat", server.url, httpx.AsyncClient(transport=transport), is_async=True)
        return await run_loop_async(client, "chat")

    _, calls = asyncio.run(main())
    assert calls == 4


def test_a_client_names_what_it_does_not_know():
    with pytest.raises(TypeError):
        softland.Client(tool_call_limit=4)
    with pytest.raises(TypeError, match="tool_call_limit"):
        softland.Transport(tool_call_limit=4)
    with pytest.raises(ValueError, match='"httpx2" or "httpx"'):
        softland.Client(http="requests")
    with pytest.raises(TypeError, match="neither httpx2 nor httpx"):
        softland.Transport(object())


def test_a_run_within_a_run_spends_its_money(sim):
    server = sim("reader")
    softland.install(hosts=[server.host])
    client = clients("anthropic", server.url, httpx2.Client())
    asked = Loop("anthropic").request()
    with softland.run(name="outer", cost_limit_usd=1) as outer:
        with softland.run(name="inner") as inner:
            ask(client, "anthropic", asked, False)
        assert inner.cost_usd == outer.cost_usd > 0
    # The outer run has no money: neither has one within, whatever limit of its own it has.
    with softland.run(name="outer", cost_limit_usd=0.000001) as outer:
        with softland.run(name="inner", cost_limit_usd=5) as inner:
            message = ask(client, "anthropic", asked, True)
    assert message.content[0].text.startswith("[This answer is softland's")
    assert (inner.outcome, inner.cost_usd, outer.cost_usd) == ("stopped", 0, 0)


def test_the_innermost_limits_hold(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], tool_calls_limit=9, repeat_limit=50)
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run(**LIMITS) as outer:
        with softland.run(tool_calls_limit=2, repeat_limit=50) as inner:
            run_loop(client, "anthropic")
        run_loop(client, "anthropic")
    assert (inner.tool_calls, outer.tool_calls) == (2, 4)


def test_a_policy_of_a_config(sim, tmp_path):
    server, config = sim("looper"), tmp_path / "softland.toml"
    config.write_text(
        """
[policy.mine]
tool_calls_limit = 3
repeat_limit = 50
cost_limit_usd = 1
[[price]]
model = "claude-sonnet-5-5"
input = 1000
output = 1000
"""
    )
    softland.install(f"{config}#mine", hosts=[server.host])
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run() as run:
        run_loop(client, "anthropic")
    # At a thousand times the price the money is gone before the calls.
    assert run.reason == "cost" and run.tool_calls < 3
    softland.install(f"{config}#mine", hosts=[server.host], cost_limit_usd=None)
    with softland.run() as run:
        run_loop(client, "anthropic")
    assert (run.reason, run.tool_calls) == ("tool_calls", 3)
    with pytest.raises(ValueError, match=r"has no \[policy.other\]; it has mine"):
        softland.install(f"{config}#other")
    config.write_text("[[price]]\nmodel = 'm'\ninput = 1\n[policy.mine]\n")
    with pytest.raises(ValueError, match="`output` is required"):
        softland.install(f"{config}#mine")


def test_a_gateway_is_left_to_govern(sim, tmp_path):
    from conftest import Server

    provider, recorder = sim("looper"), Recorder()
    arguments = ["--anthropic-base-url", provider.url, "--openai-base-url", provider.url]
    gateway = Server("serve", "--listen", "127.0.0.1:0", "--no-ledger", *arguments)
    try:
        softland.install(hosts=[gateway.host], tool_calls_limit=4, repeat_limit=50)
        client = clients("anthropic", gateway.url, httpx2.Client(transport=recorder))
        with softland.run(name="named") as run:
            for _ in range(3):
                ask(client, "anthropic", Loop("anthropic", f"What is {_}?").request(), False)
        # The first response says that it is a gateway; from then on only names go there.
        assert gateway.host in softland._state.process.gateways
        assert run.turns == 1
        for session in (None, "nightly"):
            with softland.run(session=session) as outer, softland.run() as inner:
                ask(client, "anthropic", Loop("anthropic", f"What of {session}?").request(), False)
            named = recorder.headers[-1]
            assert named["x-softland-run"] == inner.id
            assert named["x-softland-session"] == (session or outer.id)
    finally:
        gateway.stop()
