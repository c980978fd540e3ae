"""LiteLLM's functions with a loop of one's own, over Anthropic's Messages; `sync` or `async` as the
first argument. The async one goes over aiohttp, as it does by default."""

import asyncio
import json
import sys

import litellm
import shell

TOOL = {
    "type": "function",
    "function": {
        "name": shell.NAME,
        "description": shell.DESCRIPTION,
        "parameters": shell.PARAMETERS,
    },
}


def asked(messages):
    return {
        "model": "anthropic/claude-sonnet-4-5",
        "max_tokens": 2000,
        "tools": [TOOL],
        "messages": messages,
    }


def results(message):
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": shell.run(json.loads(call.function.arguments)["command"]),
        }
        for call in message.tool_calls
    ]


def take(messages, response):
    """Takes a response; gives the answer once it is there."""
    message = response.choices[0].message
    if not message.tool_calls:
        return message.content
    messages += [message.model_dump(exclude_none=True), *results(message)]
    return None


async def main_async(messages):
    answer = None
    while answer is None:
        answer = take(messages, await litellm.acompletion(**asked(messages)))
    return answer


def main(kind, prompt):
    messages = [{"role": "user", "content": prompt}]
    if kind == "async":
        answer = asyncio.run(main_async(messages))
    else:
        answer = None
        while answer is None:
            answer = take(messages, litellm.completion(**asked(messages)))
    print(json.dumps({"answer": answer}))


main(*sys.argv[1:3])
