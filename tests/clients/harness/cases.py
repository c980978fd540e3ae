"""What a client is put through, and what must then be true. A run is one start of a client; a case
is one thing that is checked of it and one line of the output."""

import re
from collections import Counter
from dataclasses import dataclass

from . import long, messages, scenarios, specialists, tap

# What may differ between the two sides of a gateway that has nothing to do (docs/governing.md §1).
OUR_HEADERS = "x-softland-"
END_OF_RUN = re.compile(rb": softland \{[^\n]*\}\n\n")
FOR_ONE_PEER = tap.HOP_BY_HOP | {"host", "accept-encoding", "date"}


@dataclass
class Seen:
    """What came of a run."""

    client: object
    ended: object
    # The numbers of the steps that were really taken, in order.
    steps: list
    # What went between client and gateway, and between gateway and provider.
    front: list
    back: list
    # What the ledger says of its runs; the lenient provider of a long run.
    runs: list
    provider: object


@dataclass(frozen=True)
class Run:
    """One start of a client."""

    name: str
    # Keys of the policy, as TOML.
    policy: dict
    # Writes the scenario with a `scenarios.Writer`.
    script: object
    # The steps that must really be taken.
    steps: list
    # What the model says at the end; none: the end is not the model's.
    answer: object
    # What is checked of it.
    cases: list
    # Clients that want an object can not end so.
    texts_only: bool = False
    # Needs a client that lets the model call several tools at once.
    parallel: bool = False
    # For clients that read edits out of text, and no others.
    edits: bool = False
    # Started by `softland wrap`.
    wrapped: bool = False
    # The limit of calls of a specialist that it is given as a tool.
    specialist_limit: int = 0
    # So many calls are asked for, by a lenient provider; the client's context is small.
    long: int = 0

    def suits(self, client):
        return (
            self.edits == client.edits
            and not (self.texts_only and client.structured)
            and not (self.parallel and not client.parallel)
            and not (self.wrapped and not client.wraps)
            and not (self.specialist_limit and not client.takes_servers)
            and (client.history if self.long else client.meets_sim)
        )


@dataclass(frozen=True)
class Case:
    """One thing that is checked."""

    name: str
    # Its column in the table.
    column: str
    # Gives what is wrong, one text each.
    check: object


# The columns of the table; `ends` is how all of a client's runs ended.
COLUMNS = {
    "tool": "runs a tool",
    "countdown": "sees the countdown",
    "landed": "landed at a limit",
    "ends": "ends with success",
    "repaired": "empty turn repaired",
    "undisturbed": "byte for byte",
    "wrap": "under wrap",
    "specialist": "asks a specialist",
    "long": "60 of 70 turns",
}


def ended_well(run, seen):
    """Holds for every run, whatever it is about."""
    wrong = []
    if seen.ended.status != 0:
        wrong.append(f"exit status {seen.ended.status}: {seen.ended.stderr.strip()[-400:]}")
    if run.answer is not None:
        expected = scenarios.shown(run.answer, seen.client.structured)
        if seen.ended.answer != expected:
            wrong.append(f"it answered {seen.ended.answer!r} in place of {expected!r}")
    elif not (seen.ended.answer or "").strip():
        wrong.append("its answer is empty")
    if seen.steps != run.steps:
        taken, wanted = _ranges(seen.steps), _ranges(run.steps)
        wrong.append(f"the steps {taken} were taken in place of {wanted}")
    sides = [("the provider", seen.back)]
    if not run.wrapped:
        sides.append(("the client", seen.front))
    for side, exchanges in sides:
        wrong += _refusals(side, exchanges)
        if not (messages.asks if run.edits else messages.turns)(exchanges):
            wrong.append(f"{side} was asked for no turn")
    return wrong


def _ranges(numbers):
    """`1–60, 62`, of numbers in order."""
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = (str(a) if a == b else f"{a}–{b}" for a, b in ranges)
    return ", ".join(shown) or "none"


def _refusals(side, exchanges):
    wrong = []
    for exchange in exchanges:
        what = f"{exchange.method} {exchange.path}"
        if not exchange.whole:
            wrong.append(f"{what} at {side}: the response did not come to its end")
        elif exchange.status != 200 and not messages.refused_thread(exchange):
            said = exchange.answer[:300].decode(errors="replace")
            wrong.append(f"{what} at {side}: status {exchange.status}: {said}")
    return wrong


def runs_a_tool(_):
    """That it did, `ended_well` has seen from the marker."""
    return []


def undisturbed(seen):
    """Each request reached the provider, and each response the client, byte for byte. A thread that
    the gateway refuses by itself has no other side."""
    passed = any(messages.refused_thread(exchange) for exchange in seen.back)
    sent = [one for one in seen.front if passed or not messages.refused_thread(one)]
    if Counter(map(_said, sent)) == Counter(map(_said, seen.back)):
        return []
    wrong = []
    for one, other in zip(sent, seen.back):
        for part, a, b in zip(_PARTS, _said(one), _said(other)):
            if a != b:
                wrong.append(f"{one.method} {one.path}: {part} differs: {_difference(a, b)}")
    return wrong or [f"{len(sent)} requests of the client, {len(seen.back)} upstream"]


_PARTS = ("method", "path", "headers", "body", "status", "response headers", "response body")


def _said(exchange):
    return (
        exchange.method,
        exchange.path,
        _end_to_end(exchange.headers),
        exchange.body,
        exchange.status,
        _end_to_end(exchange.answer_headers),
        END_OF_RUN.sub(b"", exchange.answer, count=1),
    )


def _end_to_end(headers):
    kept = (
        (name, value)
        for name, value in messages.lower(headers)
        if name not in FOR_ONE_PEER and not name.startswith(OUR_HEADERS)
    )
    return tuple(sorted(kept))


def _difference(a, b):
    if isinstance(a, bytes) and isinstance(b, bytes):
        same = next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return f"at byte {same}: {a[same : same + 60]!r} and {b[same : same + 60]!r}"
    if isinstance(a, tuple):
        return f"only on one side: {sorted(set(a) ^ set(b))}"
    return f"{a!r} and {b!r}"


def sees_countdown(seen):
    """The lines go upstream, stay where they are in later requests, and are not the client's."""
    wrong = []
    expected = [[], [], [2], [2, 1]]
    found = [messages.countdown(exchange) for exchange in messages.turns(seen.back)]
    if found != expected:
        wrong.append(f"countdown lines by request: {found} in place of {expected}")
    own = [messages.countdown(exchange) for exchange in messages.turns(seen.front)]
    if any(own):
        wrong.append(f"the client itself sent countdown lines: {own}")
    return wrong


def _asked(seen, requests):
    wrong = []
    last = messages.asked_to_land(messages.turns(seen.back)[-1]) if seen.back else None
    if last != (3, 3):
        wrong.append(f"the last request upstream says {last} of its limit in place of (3, 3)")
    made = len(messages.turns(seen.front))
    if made != requests:
        wrong.append(f"the client asked for {made} turns in place of {requests}")
    return wrong


def is_landed(seen):
    """Told within its last request, with no other request than without a limit."""
    wrong = _asked(seen, 4)
    upstream = len(messages.turns(seen.back))
    if upstream != 4:
        wrong.append(f"{upstream} requests upstream in place of 4")
    return wrong


def is_landed_by_rungs(seen):
    """The model calls on, so that further rungs go upstream, of which the client sees nothing."""
    wrong = _asked(seen, 4)
    upstream = messages.turns(seen.back)
    if len(upstream) < 5:
        wrong.append(f"{len(upstream)} requests upstream: no further rung was taken")
    return wrong


def is_stopped(seen):
    """The answer is softland's own and names the limit."""
    answer = seen.ended.answer or ""
    if "3" not in answer or "limit" not in answer.lower():
        return [f"the answer does not name the limit and its value: {answer!r}"]
    return _asked(seen, 4)


def loses_the_excess(seen):
    """A batch of six with three to go: the other three never reach the client."""
    return _asked(seen, 2)


def is_repaired(seen):
    """An empty turn came from the provider, was nudged, and the client saw no empty turn."""
    wrong = []
    if not any(messages.is_empty(exchange) for exchange in messages.turns(seen.back)):
        wrong.append("the provider gave no empty turn")
    if any(messages.is_empty(exchange) for exchange in messages.turns(seen.front)):
        wrong.append("the client saw an empty turn")
    made = len(messages.turns(seen.front))
    if made != 2:
        wrong.append(f"the client asked for {made} turns in place of 2")
    return wrong


def is_landed_under_wrap(seen):
    """It found the gateway by itself, and what was done is told at the end."""
    wrong = []
    last = messages.asked_to_land(messages.turns(seen.back)[-1]) if seen.back else None
    if last != (3, 3):
        wrong.append(f"the last request upstream says {last} of its limit in place of (3, 3)")
    return wrong + _told(seen, "1 landed")


def is_metered_under_wrap(seen):
    return _told(seen, "softland: $0.0", f" spent on {len(seen.back)} requests; ")


def _told(seen, *wanted):
    return [f"stderr does not say {one!r}" for one in wanted if one not in seen.ended.stderr]


def asks_a_specialist(seen):
    """It told its model of the tool, called it, and gave the answer back."""
    wrong, result = _asked_specialist(seen)
    if "[landed" in result:
        wrong.append(f"the specialist was landed: {result!r}")
    return wrong


def asks_a_landed_specialist(seen):
    """The same, and the answer says that it was landed."""
    wrong, result = _asked_specialist(seen)
    if not result.endswith("[landed: tool_calls 2 of 2]"):
        wrong.append(f"the result does not say that the specialist was landed: {result!r}")
    return wrong


def _asked_specialist(seen):
    wrong, turns = [], messages.turns(seen.back)
    # In the field for tools, or by name among those that the client has the model search for.
    if specialists.TOOL.encode() not in turns[0].body:
        wrong.append("the client does not tell its model of the tool")
    if len(turns) != 2:
        wrong.append(f"{len(turns)} requests upstream in place of 2")
    result = messages.last_result(turns[-1])
    if specialists.FOUND not in result:
        wrong.append(f"the result has not the specialist's answer: {result!r}")
    return wrong, result


def edits_a_file(seen):
    """Its edits are the model's text: nothing that softland would count, add to or repair."""
    lines = [messages.has_lines_of_ours(exchange) for exchange in messages.asks(seen.back)]
    return ["a line of ours went upstream"] if any(lines) else []


def is_stopped_by_money(seen):
    """Softland's own answer in the place of the third; the two before it were the model's."""
    wrong = []
    answer = seen.ended.answer or ""
    if "session_cost_limit_usd" not in answer and "cost limit" not in answer:
        wrong.append(f"the answer does not name the limit: {answer!r}")
    asked = len(messages.asks(seen.front)), len(messages.asks(seen.back))
    if asked != (3, 2):
        wrong.append(f"requests of the client and upstream: {asked} in place of (3, 2)")
    return wrong


def _steps(writer, count):
    for number in range(1, count + 1):
        writer.step(number)
    return writer


def _below(writer):
    return _steps(writer, 3).answer(scenarios.ANSWER)


def _obedient(writer):
    return _steps(writer, 8).answer(scenarios.LANDED, when="limit")


def _stubborn(writer):
    return _steps(writer, 8).answer(scenarios.LANDED, when="unable")


def _mute(writer):
    return _steps(writer, 8).nothing(when="unable")


def _batch(writer):
    return writer.step(*range(1, 7)).answer(scenarios.LANDED, when="limit")


def _silent(writer):
    return writer.step(1).nothing().answer(scenarios.AFTER_NUDGE, when="nudged")


def _consulting(writer):
    writer.consult(specialists.TOOL, {"prompt": specialists.QUESTION})
    return writer.answer(scenarios.ANSWER)


def _nothing(writer):
    return writer.nothing()


def _edits(writer):
    return writer.edit()


def _wordy_edits(writer):
    # 3,000 simulated tokens, so that a third request, bounded by a token a byte, does not fit.
    return writer.edit("What I did, in full. " + "Then I thought again. " * 545 + "\n\n")


THREE = {"tool_calls_limit": 3}
RUNS = [
    Run(
        "plain",
        {"tool_calls_limit": 100},
        _below,
        [1, 2, 3],
        scenarios.ANSWER,
        [
            Case("runs a tool", "tool", runs_a_tool),
            Case("is undisturbed below the limits", "undisturbed", undisturbed),
        ],
    ),
    Run(
        "countdown",
        {"tool_calls_limit": 4},
        _below,
        [1, 2, 3],
        scenarios.ANSWER,
        [Case("sees the countdown", "countdown", sees_countdown)],
    ),
    Run(
        "landed",
        THREE,
        _obedient,
        [1, 2, 3],
        scenarios.LANDED,
        [Case("is landed at a limit", "landed", is_landed)],
    ),
    Run(
        "stubborn",
        THREE,
        _stubborn,
        [1, 2, 3],
        scenarios.LANDED,
        [Case("is landed when the model calls on", "landed", is_landed_by_rungs)],
    ),
    Run(
        "stopped",
        THREE,
        _mute,
        [1, 2, 3],
        None,
        [Case("gets an answer when the model gives none", "landed", is_stopped)],
        texts_only=True,
    ),
    Run(
        "batch",
        THREE,
        _batch,
        [1, 2, 3],
        scenarios.LANDED,
        [Case("is spared calls beyond the limit", "landed", loses_the_excess)],
        parallel=True,
    ),
    Run(
        "empty",
        {"tool_calls_limit": 100},
        _silent,
        [1],
        scenarios.AFTER_NUDGE,
        [Case("gets an empty turn repaired", "repaired", is_repaired)],
    ),
    Run(
        "wrapped",
        THREE,
        _obedient,
        [1, 2, 3],
        scenarios.LANDED,
        [Case("is landed under `softland wrap`", "wrap", is_landed_under_wrap)],
        wrapped=True,
    ),
    Run(
        "specialist",
        {"tool_calls_limit": 100},
        _consulting,
        [],
        scenarios.ANSWER,
        [Case("asks a specialist of `softland mcp`", "specialist", asks_a_specialist)],
        specialist_limit=30,
    ),
    Run(
        "specialist-landed",
        {"tool_calls_limit": 100},
        _consulting,
        [],
        scenarios.ANSWER,
        [Case("asks one that is landed", "specialist", asks_a_landed_specialist)],
        specialist_limit=2,
    ),
    Run(
        "edits",
        # Fewer than the edits: they are no calls.
        {"tool_calls_limit": 2},
        _edits,
        [1, 1, 1],
        scenarios.EDIT,
        [
            Case("edits a file", "tool", edits_a_file),
            Case("is undisturbed", "undisturbed", undisturbed),
        ],
        edits=True,
    ),
    Run(
        "spent",
        {"session_cost_limit_usd": '"0.11"'},
        _wordy_edits,
        [1, 1],
        None,
        [Case("is stopped at a limit of money", "landed", is_stopped_by_money)],
        edits=True,
    ),
    Run(
        "empty-edits",
        {"tool_calls_limit": 100},
        _nothing,
        [],
        scenarios.NO_ANSWER,
        [Case("has an empty turn as it is", "undisturbed", undisturbed)],
        edits=True,
    ),
    Run(
        "wrapped-edits",
        THREE,
        _edits,
        [1, 1, 1],
        scenarios.EDIT,
        [Case("is metered under `softland wrap`", "wrap", is_metered_under_wrap)],
        edits=True,
        wrapped=True,
    ),
    Run(
        "long",
        {"tool_calls_limit": 60},
        None,
        list(range(1, 61)),
        scenarios.LANDED,
        [Case("holds 60 calls over 70 turns", "long", long.holds)],
        long=70,
    ),
]
