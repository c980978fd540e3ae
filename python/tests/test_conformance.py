"""The gateway and the module send the same bodies upstream for the same conversations."""

import sys
from pathlib import Path

import httpx2
import openai
import pytest
from conftest import Server
from loops import Loop, clients, run_conversation

import softland

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/clients"))
from harness.tap import Tap  # noqa: E402

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
# What each policy brings the run to, by the simulated model that shows it.
CASES = {
    "the ask": ("looper", LIMITS),
    "refused calls, and no tools": ("stubborn", LIMITS),
    "an answer of softland's": ("mute", LIMITS),
    "no tools at once": ("looper", LIMITS | {"landing": "none"}),
    "the ask alone": ("stubborn", LIMITS | {"landing": "ask"}),
    "a stop": ("looper", LIMITS | {"landing": "stop"}),
    "a forced answer tool": ("looper", LIMITS | {"landing": "respond", "answer_tool": "final_result"}),
    "the limit of one tool": ("looper", {"tool_limits": {"list_dir": 2}, "repeat_limit": 50}),
    "a limit of turns": ("looper", {"turns_limit": 3, "repeat_limit": 50}),
    "a limit of tokens": ("looper", {"tokens_limit": 9000, "repeat_limit": 50}),
    "a limit of money": ("looper", {"cost_limit_usd": 0.09, "repeat_limit": 50}),
    "milestones": ("looper", LIMITS | {"countdown": "milestones"}),
    "a batch past the limit": ("parallel", {"tool_calls_limit": 8, "repeat_limit": 50}),
    "a loop": ("looper", {}),
    "a nudge": ("empty", {}),
    "a model that stays silent": ("empty:never", {}),
    "a continuation": ("truncator", {}),
    "nothing": ("reader", {}),
}


def flags(keys):
    """The policy as options of the command."""
    for key, value in keys.items():
        if isinstance(value, dict):
            for name, limit in value.items():
                yield from ("--tool-limits", f"{name}={limit}")
        else:
            yield from (f"--{key.replace('_', '-')}", str(value))


def converse(url):
    """Has all conversations with what listens at `url`. Returns their ends."""
    ends = []
    for protocol in ("anthropic", "chat", "responses"):
        for stream in (False, True):
            client = clients(protocol, url, httpx2.Client(), max_retries=0)
            loop = Loop(protocol, f"What of {protocol}, streamed: {stream}?", "final_result")
            try:
                ends.append(run_conversation(client, loop, stream))
            except (openai.LengthFinishReasonError, RuntimeError):
                # What the SDK's helpers for streams make of a call that was cut.
                ends.append("cut")
    return ends


def say(tap):
    return [(said.path.partition("?")[0], said.body) for said in tap.exchanges]


@pytest.mark.parametrize("case", CASES)
def test_the_same_bodies_reach_the_provider(sim, case):
    scenario, keys = CASES[case]
    taps = [Tap(int(sim(scenario).host.rpartition(":")[2])) for _ in range(2)]
    to = ["--anthropic-base-url", taps[0].url, "--openai-base-url", f"{taps[0].url}/v1"]
    listen = ["--listen", "127.0.0.1:0", "--no-ledger"]
    gateway = Server("serve", *listen, *to, *flags(keys))
    try:
        through_gateway = converse(gateway.url)
        softland.install(hosts=[taps[1].url.removeprefix("http://")], **keys)
        in_process = converse(taps[1].url)
        bodies = [say(tap) for tap in taps]
    finally:
        gateway.stop()
        for tap in taps:
            tap.stop()
    assert len(bodies[0]) > 6
    assert bodies[0] == bodies[1]
    assert through_gateway == in_process
