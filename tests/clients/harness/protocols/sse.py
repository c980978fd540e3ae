"""Server-sent events, as all three protocols use them: what follows `data:` is JSON."""

import json


def is_streamed(exchange):
    headers = {name.lower(): value for name, value in exchange.answer_headers}
    return headers.get("content-type", "").startswith("text/event-stream")


def events(exchange):
    for line in exchange.answer.decode().splitlines():
        if line.startswith("data:") and line[5:].strip() != "[DONE]":
            yield json.loads(line[5:])


def whole(exchange):
    return json.loads(exchange.answer)
