"""How the provider speaks OpenAI's Chat Completions."""

import json


def forbids_calls(request):
    return request.get("tool_choice") == "none"


class Response:
    """One turn as a response."""

    def __init__(self, turn, number, request, tokens):
        self._turn = turn
        self._usage = {
            "prompt_tokens": tokens,
            "completion_tokens": 200,
            "total_tokens": tokens + 200,
        }
        self._head = {"id": f"chatcmpl-{number}", "created": 1, "model": request["model"]}
        self._counts = (request.get("stream_options") or {}).get("include_usage")
        self._calls = [
            {
                "id": f"call_{number:06}{at:02}of{tool}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
            for at, (tool, arguments) in enumerate(turn.calls)
        ]
        self._reason = "tool_calls" if turn.calls else "stop"

    def whole(self):
        message = {"role": "assistant", "content": self._turn.text}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": [choice], "usage": self._usage}

    def events(self):
        yield self._chunk({"role": "assistant", "content": self._turn.text})
        for at, call in enumerate(self._calls):
            yield self._chunk({"tool_calls": [{"index": at, **call}]})
        yield self._chunk({}, self._reason)
        if self._counts:
            yield self._event([], usage=self._usage)
        yield "data: [DONE]\n\n"

    def _chunk(self, delta, reason=None):
        return self._event([{"index": 0, "delta": delta, "finish_reason": reason}])

    def _event(self, choices, **more):
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(chunk)}\n\n"
