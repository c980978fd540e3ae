"""OpenAI's agents SDK, without streaming; `chat` or `responses` as the first argument."""

import json
import sys

import shell
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI

MODELS = {
    "chat": (OpenAIChatCompletionsModel, "gpt-4.1"),
    "responses": (OpenAIResponsesModel, "gpt-5.6-sol"),
}


@function_tool(name_override=shell.NAME, description_override=shell.DESCRIPTION)
def bash(command: str, description: str) -> str:
    """Runs a command."""
    return shell.run(command)


def main(protocol, prompt):
    kind, model = MODELS[protocol]
    agent = Agent(
        name="worker",
        instructions="Be brief.",
        model=kind(model, AsyncOpenAI()),
        tools=[bash],
    )
    result = Runner.run_sync(agent, prompt, max_turns=20)
    print(json.dumps({"answer": result.final_output}))


main(*sys.argv[1:3])
