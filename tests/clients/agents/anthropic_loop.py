"""The Anthropic SDK with a loop of one's own: streaming, extended thinking, the whole history."""

import json
import sys

import anthropic
import shell

TOOL = {
    "name": shell.NAME,
    "description": shell.DESCRIPTION,
    "input_schema": shell.PARAMETERS,
}


def ask(client, messages):
    with client.messages.stream(
        model="claude-sonnet-4-5",
        max_tokens=4096,
        thinking={"type": "enabled", "budget_tokens": 1024},
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        tools=[TOOL],
        messages=messages,
    ) as stream:
        return stream.get_final_message()


def results(message):
    return [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": shell.run(block.input["command"]),
        }
        for block in message.content
        if block.type == "tool_use"
    ]


def main(prompt):
    client = anthropic.Anthropic()
    messages = [{"role": "user", "content": prompt}]
    for _ in range(20):
        message = ask(client, messages)
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            break
        messages.append({"role": "user", "content": results(message)})
    answer = "".join(block.text for block in message.content if block.type == "text")
    print(json.dumps({"answer": answer}))


main(sys.argv[1])
