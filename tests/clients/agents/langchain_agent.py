"""LangChain's agent on its Anthropic model."""

import json
import sys

import shell
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool


@tool(shell.NAME, description=shell.DESCRIPTION)
def bash(command: str, description: str = "") -> str:
    """Runs a command."""
    return shell.run(command)


def main(prompt):
    agent = create_agent(
        ChatAnthropic(model="claude-sonnet-4-5"), tools=[bash], system_prompt="Be brief."
    )
    state = agent.invoke(
        {"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": 60}
    )
    print(json.dumps({"answer": state["messages"][-1].text}))


main(sys.argv[1])
