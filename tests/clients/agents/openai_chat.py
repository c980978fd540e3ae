"""The OpenAI SDK with a loop of one's own on Chat Completions: streaming, the whole history."""

import json
import sys

import openai
import shell

TOOL = {
    "type": "function",
    "function": {
        "name": shell.NAME,
        "description": shell.DESCRIPTION,
        "parameters": shell.PARAMETERS,
    },
}


def ask(client, messages):
    with client.chat.completions.stream(
        model="gpt-4.1",
        tools=[TOOL],
        messages=messages,
        stream_options={"include_usage": True},
    ) as stream:
        return stream.get_final_completion().choices[0].message


def results(message):
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": shell.run(json.loads(call.function.arguments)["command"]),
        }
        for call in message.tool_calls
    ]


def assistant(message):
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls or []
    ]
    said = {"role": "assistant", "content": message.content}
    return {**said, "tool_calls": calls} if calls else said


def main(prompt):
    client = openai.OpenAI()
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": prompt},
    ]
    for _ in range(20):
        message = ask(client, messages)
        messages.append(assistant(message))
        if not message.tool_calls:
            break
        messages += results(message)
    print(json.dumps({"answer": message.content}))


main(sys.argv[1])
