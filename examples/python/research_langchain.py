"""A research agent of LangChain that is told softly when its money runs low.

At 80 % of the cost limit the model reads a warning once; at the limit it answers.

    python research_langchain.py "What did we decide about pricing?" 0.25
"""

import sys

from langchain.agents import create_agent
from langchain_core.tools import tool

import softland


@tool
def read_file(path: str) -> str:
    """Reads a note."""
    return f"{path}: we decided to wait for the survey."


def tell(event: softland.Event) -> None:
    if event["event"] == "intervention":
        print(f"softland: {event['intervention']}: {event.get('text')}", file=sys.stderr)


def main(question: str, dollars: float) -> None:
    softland.install(cost_limit_usd=dollars, warn_at=0.8, tool_calls_limit=30, on_event=tell)
    agent = create_agent("anthropic:claude-sonnet-5-5", tools=[read_file])
    with softland.run(name="research") as run:
        done = agent.invoke(
            {"messages": [{"role": "user", "content": question}]},
            {"recursion_limit": 200},  # higher than softland's limits: it raises
        )
    print(done["messages"][-1].text)
    print(f"{run.outcome} ({run.reason}), ${run.cost_usd:.4f}", file=sys.stderr)


main(sys.argv[1], float(sys.argv[2]))
