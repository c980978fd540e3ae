"""Strands' agent; `anthropic` or `chat` as the first argument. In a small context it sends a window of
its newest messages."""

import json
import os
import sys

import shell
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager


def model(protocol):
    if protocol == "anthropic":
        from strands.models.anthropic import AnthropicModel

        key = {"api_key": os.environ["ANTHROPIC_API_KEY"]}
        return AnthropicModel(client_args=key, model_id="claude-sonnet-4-5", max_tokens=2000)
    from strands.models.openai import OpenAIModel

    return OpenAIModel(model_id="gpt-4.1")


@tool(name=shell.NAME, description=shell.DESCRIPTION)
def bash(command: str, description: str) -> str:
    """Runs a command."""
    return shell.run(command)


def main(protocol, prompt):
    # Its own default cuts the history to 40 messages, but only when it has answered.
    small = {"window_size": 20, "per_turn": True} if os.environ.get("SMALL_CONTEXT") else {}
    agent = Agent(
        model=model(protocol),
        tools=[bash],
        system_prompt="Be brief.",
        conversation_manager=SlidingWindowConversationManager(**small),
        callback_handler=None,
    )
    print(json.dumps({"answer": str(agent(prompt)).strip()}))


main(*sys.argv[1:3])
