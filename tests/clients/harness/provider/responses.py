"""How the provider speaks OpenAI's Responses."""

import itertools
import json


def forbids_calls(request):
    return request.get("tool_choice") == "none"


class Response:
    """One turn as a response."""

    def __init__(self, turn, number, request, tokens):
        self._head = {
            "id": f"resp_{number:06}",
            "object": "response",
            "created_at": 1,
            "model": request["model"],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
        }
        self._usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 200,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 200,
        }
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        self._items = [
            {
                "id": f"msg_{number:06}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        ]
        for at, (tool, arguments) in enumerate(turn.calls):
            self._items.append(_call(f"{number:06}{at:02}", tool, arguments))

    def whole(self):
        return {**self._head, "status": "completed", "output": self._items, "usage": self._usage}

    def events(self):
        numbers = itertools.count()
        begun = {**self._head, "status": "in_progress", "output": [], "usage": None}
        yield _event(numbers, "response.created", response=begun)
        for at, item in enumerate(self._items):
            for kind, fields in _item(item):
                yield _event(numbers, kind, output_index=at, **fields)
        yield _event(numbers, "response.completed", response=self.whole())


def _call(number, tool, arguments):
    call = {"call_id": f"call_{number}of{tool}", "name": tool, "status": "completed"}
    if isinstance(arguments, str):
        return {"id": f"ctc_{number}", "type": "custom_tool_call", "input": arguments, **call}
    given = json.dumps(arguments)
    return {"id": f"fc_{number}", "type": "function_call", "arguments": given, **call}


def _item(item):
    """The events of one item, without what all of them have."""
    key = {"message": "content", "function_call": "arguments", "custom_tool_call": "input"}
    key = key[item["type"]]
    empty = {key: [] if key == "content" else "", "status": "in_progress"}
    yield "response.output_item.added", {"item": {**item, **empty}}
    about = {"item_id": item["id"]}
    if key == "content":
        about |= {"content_index": 0}
        part = item["content"][0]
        yield "response.content_part.added", {**about, "part": {**part, "text": ""}}
        yield "response.output_text.delta", {**about, "delta": part["text"]}
        yield "response.output_text.done", {**about, "text": part["text"]}
        yield "response.content_part.done", {**about, "part": part}
    else:
        kind = f"response.{item['type']}_{key}"
        yield f"{kind}.delta", {**about, "delta": item[key]}
        yield f"{kind}.done", {**about, key: item[key]}
    yield "response.output_item.done", {"item": item}


def _event(numbers, kind, **fields):
    said = {"type": kind, "sequence_number": next(numbers), **fields}
    return f"event: {kind}\ndata: {json.dumps(said)}\n\n"
