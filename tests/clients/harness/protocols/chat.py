"""OpenAI's Chat Completions."""

from . import sse

PATH = "/v1/chat/completions"


def conversation(request):
    return request["messages"]


def results(request):
    """The texts of all tool results in a request, in order."""
    return [_text(one["content"]) for one in request["messages"] if one["role"] == "tool"]


def is_empty(exchange):
    """A turn without visible text and without a call."""
    if sse.is_streamed(exchange):
        said = [
            choice["delta"]
            for chunk in sse.events(exchange)
            for choice in chunk.get("choices", [])
        ]
    else:
        said = [choice["message"] for choice in sse.whole(exchange)["choices"]]
    text = "".join(one.get("content") or one.get("refusal") or "" for one in said)
    return not text.strip() and not any(one.get("tool_calls") for one in said)


def _text(content):
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")
