"""Reads what was recorded of a client's requests and their responses, in any of the protocols."""

import json
import re

from . import protocols

COUNTDOWN = re.compile(r"(?:^|\n)(\d+) tool calls? remaining$")
ASK = re.compile(r"Tool call limit reached \((\d+) of (\d+)\)\. Answer now")


def asks(exchanges):
    """Those that ask a model for a turn."""
    return [exchange for exchange in exchanges if protocols.of(exchange)]


def refused_thread(exchange):
    """The refusal that makes the SDK's `tool_runner` send its whole history instead."""
    return exchange.status == 400 and b"thread_unsupported_request" in exchange.answer


def turns(exchanges):
    """Those of the agent's loop that the model got, in order: not titles and the like."""
    return [e for e in asks(exchanges) if not refused_thread(e) and has_tools(request(e))]


def has_tools(request):
    """In the field, or in an item, where Codex has them."""
    items = request.get("input", [])
    items = [] if isinstance(items, str) else items
    added = (one for one in items if one.get("type") == "additional_tools")
    return bool(request.get("tools")) or any(one.get("tools") for one in added)


def request(exchange):
    return json.loads(exchange.body)


def countdown(exchange):
    """The numbers of the countdown lines that end tool results of a request."""
    results = protocols.of(exchange).results(request(exchange))
    found = (COUNTDOWN.search(result) for result in results)
    return [int(line.group(1)) for line in found if line]


def last_result(exchange):
    """The text of the last tool result of a request."""
    return (protocols.of(exchange).results(request(exchange)) or [""])[-1]


def asked_to_land(exchange):
    """`(used, limit)` where a request says that the limit is reached."""
    said = protocols.of(exchange).conversation(request(exchange))
    found = ASK.search(json.dumps(said, ensure_ascii=False))
    return (int(found.group(1)), int(found.group(2))) if found else None


def has_lines_of_ours(exchange):
    """Whether a request holds any line of softland's."""
    said = json.dumps(protocols.of(exchange).conversation(request(exchange)), ensure_ascii=False)
    return bool(ASK.search(said) or re.search(r"\d tool calls? remaining", said))


def is_empty(exchange):
    """A turn without visible text and without a call."""
    return protocols.of(exchange).is_empty(exchange)


def lower(headers):
    return [(name.lower(), value) for name, value in headers]
