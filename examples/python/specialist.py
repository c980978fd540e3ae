"""A specialist that may look things up five times, and then answers with what it has found.

    python specialist.py "What did we decide about pricing?"
"""

import sys

import anthropic
from anthropic import beta_tool

import softland

NOTES = {"2026-10-02": "Pricing: wait for the survey.", "2026-11-09": "Pricing: two plans, from May."}


@beta_tool
def read_file(path: str) -> str:
    """Reads a note by its date, such as 2026-10-02."""
    return NOTES.get(path, f"There is no such note. There are {', '.join(NOTES)}.")


def main(question: str) -> None:
    softland.install(tool_calls_limit=5)
    client = anthropic.Anthropic()
    with softland.run(name="specialist") as run:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=2000,
            tools=[read_file],
            messages=[{"role": "user", "content": question}],
        )
        answer = runner.until_done()
    print("".join(block.text for block in answer.content if block.type == "text"))
    print(f"{run.outcome} after {run.tool_calls} calls, ${run.cost_usd:.4f}", file=sys.stderr)


main(sys.argv[1])
