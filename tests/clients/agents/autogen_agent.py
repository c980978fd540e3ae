"""AutoGen's assistant, which calls its tools until it answers."""

import asyncio
import json
import sys

import shell
from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient


def bash(command: str, description: str) -> str:
    """Runs a command."""
    return shell.run(command)


async def main(prompt):
    agent = AssistantAgent(
        "worker",
        model_client=OpenAIChatCompletionClient(model="gpt-4.1"),
        tools=[FunctionTool(bash, description=shell.DESCRIPTION, name=shell.NAME)],
        system_message="Be brief.",
        max_tool_iterations=120,
    )
    result = await agent.run(task=prompt)
    print(json.dumps({"answer": result.messages[-1].to_text()}))


asyncio.run(main(sys.argv[1]))
