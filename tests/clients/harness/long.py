"""What must be true of a client in a long run: 70 calls are asked for under a limit of 60, while its
history is compacted where the client does that."""

import json
import re

from . import messages, protocols

REMAINING = re.compile(r"(\d+) tool calls? remaining")


def holds(seen):
    """The limit held over the whole run: the client was told in time, landed, and it was one run. What
    it executed, and how it ended, `ended_well` has seen."""
    return [*_told(seen), *_shortened(seen), *_landed(seen), *_is_one_run(seen)]


def _told(seen):
    """The countdown goes upstream and is not the client's."""
    found = [int(number) for number in _remaining(seen.back)]
    if 1 not in found:
        return [f"the countdown upstream ended at {min(found, default=None)}"]
    return ["the client itself sent countdown lines"] if _remaining(seen.front) else []


def _remaining(exchanges):
    said = (json.dumps(_conversation(exchange)) for exchange in messages.turns(exchanges))
    return [number for one in said for number in REMAINING.findall(one)]


def _conversation(exchange):
    return protocols.of(exchange).conversation(messages.request(exchange))


def _shortened(seen):
    """Without what the client does to its history, the run would be no test of it."""
    turns = messages.turns(seen.front)
    if seen.client.history == "summary":
        # The provider may have been asked for one by a request that declares tools.
        enough = seen.provider.summaries >= 2
    else:
        first = "step-1 >>"
        is_gone = first not in json.dumps(_conversation(turns[-1]))
        enough = is_gone == (seen.client.history == "window")
    return [] if enough else [f"its history was not shortened by a {seen.client.history}"]


def _landed(seen):
    if seen.provider.landed:
        return []
    return ["no request upstream said that the limit was reached"]


def _is_one_run(seen):
    worked = [run for run in seen.runs if run.get("tool_calls")]
    told = [(run["outcome"], run["reason"], run["tool_calls"]) for run in worked]
    if told != [("landed", "tool_calls", 60)]:
        return [f"the ledger has {told} in place of one run that landed at 60 calls"]
    return []
