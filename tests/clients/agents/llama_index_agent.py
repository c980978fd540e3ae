"""LlamaIndex's agent that calls functions, over Chat Completions."""

import asyncio
import json
import sys

import shell
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI


def bash(command: str, description: str = "") -> str:
    """Runs a command."""
    return shell.run(command)


async def main(prompt):
    tool = FunctionTool.from_defaults(bash, name=shell.NAME, description=shell.DESCRIPTION)
    model = OpenAI(model="gpt-4.1")
    agent = FunctionAgent(tools=[tool], llm=model, system_prompt="Be brief.")
    result = await agent.run(user_msg=prompt, max_iterations=60)
    print(json.dumps({"answer": str(result)}))


asyncio.run(main(sys.argv[-1]))
