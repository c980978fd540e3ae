"""Gateways of two releases on one store: a run that both serve by turns is the run that one of them serves."""

import concurrent.futures
import itertools
import signal

from world import Conversation, until

QUESTIONS = ["plain reading", "an empty turn within", "unicode äß漢 reading"]
# The policy under which a run begins, and that of the gateway to which it comes later.
POLICIES = [
    ("tool_calls_limit = 6", "tool_calls_limit = 9"),
    ("turns_limit = 5", "turns_limit = 8"),
    ("tool_limits = { read_file = 3 }", "tool_calls_limit = 6"),
    ("tokens_limit = 12000", "tokens_limit = 12000"),
    ("cost_limit_usd = 0.05", "cost_limit_usd = 0.05"),
]
# How the requests of a run are spread over the older gateway (0) and the newer one (1): by turns, and
# the newer one from the third on, as in an upgrade.
WAYS = [[0, 1], [1, 0], [0, 0, 1, 1, 1, 1, 1, 1, 1, 1], [0, 1, 1], [1, 1, 0]]


def bodies_of(world, shared, each, way, streams):
    """What the provider gets of each conversation if its requests go this way."""
    with world.gateways(len(each), shared, each=each) as (provider, gateways):
        for question in QUESTIONS:
            conversation = Conversation(question, streams)
            conversation.finish([gateways[place].port for place in way])
            assert conversation.repeats == 0 and len(set(conversation.runs)) == 1, (question, conversation.runs)
        said = "".join(line for gateway in gateways for line in gateway.said)
        assert "cannot be read" not in said, said
        return provider.bodies


def check_lines(world, other):
    """The run keeps the policy, the lines and the tails with which it began, whichever release serves a request."""
    count = 0
    for (keys, later), streams in itertools.product(POLICIES, [False, True]):
        alone = {binary: bodies_of(world, "memory:", [(binary, keys)], [0], streams)
                 for binary in (other, world.binary)}
        older, newer = alone[other], alone[world.binary]
        assert older == newer, f"{keys}: the releases differ where each is alone: {difference(older, newer)}"
        counted = all(b"tool calls remaining" in bodies[-1] for bodies in newer.values())
        assert counted or not keys.startswith("tool_calls_limit"), "softland has added lines"
        for way in WAYS:
            # The gateway that a run comes to later has another policy: what the run has pinned holds.
            each = [(other, keys if way[0] == 0 else later), (world.binary, keys if way[0] == 1 else later)]
            both = bodies_of(world, world.store.url, each, way, streams)
            assert both == newer, f"{keys}, {way}: two releases send other bytes than one: {difference(newer, both)}"
            count += sum(map(len, both.values()))
    return f"{count} requests"


def difference(one, other):
    """The first request of a conversation that is not the same."""
    for question, bodies in one.items():
        for number, pair in enumerate(itertools.zip_longest(bodies, other.get(question, []))):
            if pair[0] != pair[1]:
                return question, number, *pair
    return "conversations", list(one), list(other)


def check_replaced(world, other):
    """An older gateway is told to end while a request is under way: the request ends, and the run goes on in a newer."""
    each = [(binary, "tool_calls_limit = 6") for binary in (other, world.binary)]
    with world.gateways(2, world.store.url, each=each) as (provider, (older, newer)):
        conversation = Conversation("hold on to it")
        provider.holds.set()
        conversation.step(older.port)
        provider.holds.clear()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            under_way = pool.submit(conversation.step, older.port)
            until(lambda: len(provider.bodies["hold on to it"]) > 1, "the request is with the provider")
            older.process.send_signal(signal.SIGTERM)
            provider.holds.set()
            under_way.result()
        older.process.wait(30)
        turns = conversation.finish([newer.port])
        assert len(set(conversation.runs)) == 1 and conversation.results == 6, (conversation.runs, turns)
