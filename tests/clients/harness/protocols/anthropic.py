"""Anthropic's Messages."""

from . import sse

PATH = "/v1/messages"


def conversation(request):
    return request["messages"]


def results(request):
    """The texts of all tool results in a request, in order."""
    return [
        _text(block.get("content", ""))
        for message in request["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def is_empty(exchange):
    """A turn without visible text and without a call."""
    if sse.is_streamed(exchange):
        blocks = _streamed(sse.events(exchange))
    else:
        blocks = sse.whole(exchange).get("content", [])
    said = "".join(block.get("text", "") for block in blocks if block["type"] == "text")
    return not said.strip() and not any(block["type"] == "tool_use" for block in blocks)


def _text(content):
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _streamed(events):
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            blocks[event["index"]]["text"] += event["delta"]["text"]
    return blocks
