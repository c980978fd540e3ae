"""How the provider speaks Anthropic's Messages."""

import json


def forbids_calls(request):
    return (request.get("tool_choice") or {}).get("type") == "none"


class Response:
    """One turn as a response."""

    def __init__(self, turn, number, request, tokens):
        self._usage = {"input_tokens": tokens, "output_tokens": 200}
        self._head = {
            "id": f"msg_{number:06}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "stop_sequence": None,
        }
        self._blocks = [{"type": "text", "text": turn.text}]
        for at, (tool, arguments) in enumerate(turn.calls):
            call = f"toolu_{number:06}{at:02}of{tool}"
            self._blocks.append({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        self._reason = "tool_use" if turn.calls else "end_turn"

    def whole(self):
        head = {**self._head, "usage": self._usage}
        return {**head, "content": self._blocks, "stop_reason": self._reason}

    def events(self):
        begun = {**self._head, "content": [], "stop_reason": None, "usage": self._usage}
        yield _event("message_start", message=begun)
        for at, block in enumerate(self._blocks):
            yield from _block(at, block)
        ended = {"stop_reason": self._reason, "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage={"output_tokens": 200})
        yield _event("message_stop")


def _block(at, block):
    if block["type"] == "text":
        empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        given = json.dumps(block["input"])
        empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": given}
    yield _event("content_block_start", index=at, content_block={**block, **empty})
    yield _event("content_block_delta", index=at, delta=delta)
    yield _event("content_block_stop", index=at)


def _event(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"
