"""A model that writes its calls as text: softland ends a turn at the call, and counts it.

    python text_tags.py "What did we decide about pricing?"
"""

import re
import sys

import openai

import softland

CALL = re.compile(r"<use_tool>.*?</use_tool>", re.DOTALL)
SYSTEM = """You find things in a folder of notes. You have one tool:
{"name": "read_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
To use it, write <use_tool>{"name": "read_file", "input": {"path": "notes.md"}}</use_tool> and stop.
You get its result with the next message. Answer without a call when you are done."""


def main(question: str) -> None:
    softland.install(tool_calls_limit=6, tags=["use_tool"])
    client = openai.OpenAI()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    with softland.run(name="tags") as run:
        while True:
            response = client.chat.completions.create(model="gpt-4.1", messages=messages)
            text = response.choices[0].message.content or ""
            call = CALL.search(text)
            if call is None:
                break
            result = "2026-03-02: we decided to raise the price in spring."
            messages.append({"role": "assistant", "content": text})
            result = f"<tool_result>\n{result}\n</tool_result>"
            messages.append({"role": "user", "content": result})
    print(text)
    print(f"{run.outcome} after {run.tool_calls} calls", file=sys.stderr)


main(sys.argv[1])
