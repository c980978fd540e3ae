"""The Anthropic SDK's `tool_runner`: threads first, the whole history where they are refused."""

import json
import sys

import anthropic
import shell
from anthropic import beta_tool


@beta_tool(name=shell.NAME, description=shell.DESCRIPTION)
def bash(command: str, description: str = "") -> str:
    """Runs a command.

    Args:
        command: What to run.
        description: What it is for.
    """
    return shell.run(command)


def main(prompt):
    runner = anthropic.Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-4-5",
        max_tokens=1024,
        tools=[bash],
        messages=[{"role": "user", "content": prompt}],
        max_iterations=20,
    )
    message = runner.until_done()
    answer = "".join(block.text for block in message.content if block.type == "text")
    print(json.dumps({"answer": answer}))


main(sys.argv[1])
