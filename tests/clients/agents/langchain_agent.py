"""LangChain's agent, without streaming; the protocol is the first argument."""

import json
import sys

import shell
from langchain.agents import create_agent
from langchain_core.tools import tool


def model(protocol):
    if protocol == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="claude-sonnet-4-5")
    from langchain_openai import ChatOpenAI

    if protocol == "chat":
        return ChatOpenAI(model="gpt-4.1", use_responses_api=False)
    return ChatOpenAI(model="gpt-5.6-sol", use_responses_api=True)


@tool(shell.NAME, description=shell.DESCRIPTION)
def bash(command: str, description: str = "") -> str:
    """Runs a command."""
    return shell.run(command)


def main(protocol, prompt):
    agent = create_agent(model(protocol), tools=[bash], system_prompt="Be brief.")
    state = agent.invoke(
        {"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": 60}
    )
    print(json.dumps({"answer": state["messages"][-1].text}))


main(*sys.argv[1:3])
