"""OpenAI's Responses."""

from . import sse

PATH = "/v1/responses"
CALLS = {"function_call", "custom_tool_call"}
RESULTS = {"function_call_output", "custom_tool_call_output"}


def conversation(request):
    given = request["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def results(request):
    """The texts of all tool results in a request, in order."""
    return [
        _text(item["output"])
        for item in conversation(request)
        if item.get("type") in RESULTS
    ]


def is_empty(exchange):
    """A turn without visible text and without a call."""
    if sse.is_streamed(exchange):
        ended = [one["item"] for one in sse.events(exchange) if one["type"].endswith("item.done")]
    else:
        ended = sse.whole(exchange)["output"]
    return not any(_is_seen(item) for item in ended)


def _is_seen(item):
    if item["type"] == "message":
        return bool(_text(item["content"]).strip())
    return item["type"] in CALLS


def _text(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or part.get("refusal") or "" for part in content)
