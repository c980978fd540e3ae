"""Reads what was recorded of Anthropic's Messages API: requests, and responses streamed or not."""

import json
import re

COUNTDOWN = re.compile(r"(?:^|\n)(\d+) tool calls? remaining$")
ASK = re.compile(r"Tool call limit reached \((\d+) of (\d+)\)\. Answer now")


def asks(exchanges):
    """Those that ask a model for a turn."""
    return [e for e in exchanges if e.method == "POST" and e.path.split("?")[0] == "/v1/messages"]


def refused_thread(exchange):
    """The refusal that makes the SDK's `tool_runner` send its whole history instead."""
    return exchange.status == 400 and b"thread_unsupported_request" in exchange.answer


def turns(exchanges):
    """Those of the agent's loop that the model got, in order: not titles and the like."""
    return [e for e in asks(exchanges) if not refused_thread(e) and request(e).get("tools")]


def request(exchange):
    return json.loads(exchange.body)


def results(exchange):
    """The texts of all tool results in a request, in order."""
    return [
        text(block.get("content", ""))
        for message in request(exchange)["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def countdown(exchange):
    """The numbers of the countdown lines that end tool results of a request."""
    found = (COUNTDOWN.search(result) for result in results(exchange))
    return [int(line.group(1)) for line in found if line]


def asked_to_land(exchange):
    """`(used, limit)` where a request says that the limit is reached."""
    found = ASK.search(json.dumps(request(exchange)["messages"], ensure_ascii=False))
    return (int(found.group(1)), int(found.group(2))) if found else None


def text(content):
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def answer(exchange):
    """`(content blocks, stop reason)` of a response."""
    if dict(lower(exchange.answer_headers)).get("content-type", "").startswith("text/event-stream"):
        return _streamed(exchange.answer)
    whole = json.loads(exchange.answer)
    return whole.get("content", []), whole.get("stop_reason")


def is_empty(exchange):
    """A turn without visible text and without a call."""
    blocks, _ = answer(exchange)
    said = "".join(block.get("text", "") for block in blocks if block["type"] == "text")
    return not said.strip() and not any(block["type"] == "tool_use" for block in blocks)


def lower(headers):
    return [(name.lower(), value) for name, value in headers]


def _streamed(body):
    blocks, stop = [], None
    for line in body.decode().splitlines():
        if not line.startswith("data:"):
            continue
        event = json.loads(line[5:])
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            blocks[event["index"]]["text"] += event["delta"]["text"]
        elif event["type"] == "message_delta":
            stop = event["delta"]["stop_reason"]
    return blocks, stop
