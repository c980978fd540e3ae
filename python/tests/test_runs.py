"""Runs within runs, and what a run tells of its conversations."""

import httpx2
import pytest
from loops import Loop, ask, clients

import softland
from softland import _state


def ask_about(client, what):
    return ask(client, "anthropic", Loop("anthropic", f"What did we decide about {what}?").request(), False)


def test_limits_of_a_run_that_hold_for_nothing_are_told(caplog, monkeypatch):
    monkeypatch.setattr(_state.process, "has_clients", False)
    with softland.run():
        pass
    assert not caplog.records, "it only names what belongs together"
    with softland.run(tool_calls_limit=3):
        with softland.run(tool_calls_limit=2):
            pass
    [told] = [record.getMessage() for record in caplog.records]
    assert "held for nothing" in told and "softland.install()" in told
    softland.Client(tool_calls_limit=3).close()
    with softland.run(tool_calls_limit=3):
        pass
    assert len(caplog.records) == 1, "a client governs"


def test_runs_within_a_run_share_its_tokens(sim):
    server = sim("looper")
    softland.install(hosts=[server.host])
    client = clients("anthropic", server.url, httpx2.Client())
    limits = {"tokens_limit": 5000, "reserve_tokens": 50}
    reasons = []
    with softland.run(name="outer", **limits) as outer:
        while not reasons or reasons[-1] is None:
            assert len(reasons) < 100, "their tokens count for the run around them"
            with softland.run(name="inner", reserve_tokens=50) as inner:
                ask_about(client, f"part {len(reasons)}")
            reasons.append(inner.reason)
        assert len(reasons) > 2 and reasons[-1] == "tokens"
        # What is left for the run itself is what they have left.
        ask_about(client, "everything")
        assert outer.reason == "tokens"
    with softland.run(name="other", **limits) as other:
        ask_about(client, "everything else")
    assert other.reason is None


def test_a_run_within_a_run_has_no_more_time_than_that(sim):
    server = sim("looper")
    softland.install(hosts=[server.host])
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run(time_limit="0s"):
        with softland.run(tool_calls_limit=9) as inner:
            ask_about(client, "time")
    assert (inner.outcome, inner.reason) == ("stopped", "time")


def test_a_run_has_the_limits_of_its_client_also_for_runs_within(sim):
    server = sim("reader")
    governed = softland.Client(hosts=[server.host], cost_limit_usd=0.000001)
    client = clients("anthropic", server.url, governed)
    with softland.run() as outer:
        # Its own limit of money would let it ask.
        with softland.run(hosts=[server.host], cost_limit_usd=5) as inner:
            message = ask_about(client, "money")
    assert message.content[0].text.startswith("[This answer is softland's")
    assert (inner.outcome, inner.cost_usd, outer.cost_usd) == ("stopped", 0, 0)


def test_money_of_a_run_around_is_a_limit_for_hosts_that_nobody_knows(sim):
    server = sim("reader")
    softland.install()
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run(cost_limit_usd=1) as outer:
        with softland.run(tool_calls_limit=9) as inner:
            with pytest.raises(softland.GovernorError, match="a limit of money holds"):
                ask_about(client, "money")
        with softland.run(tool_calls_limit=9, allow_unmetered=True) as inner:
            ask_about(client, "money")
    assert (inner.ungoverned, outer.ungoverned) == (1, 1)


def test_a_session_has_the_money_of_all_runs_within_a_run(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], session_cost_limit_usd=0.03, reserve_tokens=50)
    client = clients("anthropic", server.url, httpx2.Client())
    reasons = []
    with softland.run():
        while not reasons or reasons[-1] is None:
            assert len(reasons) < 200, "they are one session"
            with softland.run() as inner:
                ask_about(client, f"part {len(reasons)}")
            reasons.append(inner.reason)
    assert len(reasons) > 1 and reasons[-1] == "session_cost"


def test_conversations_that_go_on_after_their_end_are_counted_once(sim):
    server = sim("mute")
    softland.install(hosts=[server.host], tool_calls_limit=3, repeat_limit=50)
    client = clients("anthropic", server.url, httpx2.Client())
    loop, requests = Loop("anthropic"), 0
    with softland.run() as run:
        for _ in range(12):
            answer = loop.take(ask(client, "anthropic", loop.request(), False))
            requests += 1
            if answer is not None:
                # It takes no text for an answer, and asks on.
                loop.history.append({"role": "user", "content": "Error: no tool was called."})
    assert len(run.runs) > 2
    assert (run.turns, run.tool_calls) == (requests, loop.calls)
    assert (run.outcome, run.answered_by) == ("stopped", "local")
