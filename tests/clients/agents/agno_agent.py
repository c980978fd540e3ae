"""agno's agent, over Anthropic's Messages."""

import json
import sys

import shell
from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.tools.function import Function


def bash(command: str, description: str = "") -> str:
    """Runs a command."""
    return shell.run(command)


def main(prompt):
    tool = Function(
        name=shell.NAME,
        description=shell.DESCRIPTION,
        parameters=shell.PARAMETERS,
        entrypoint=bash,
        skip_entrypoint_processing=True,
    )
    agent = Agent(model=Claude(id="claude-sonnet-4-5"), tools=[tool], telemetry=False)
    print(json.dumps({"answer": agent.run(prompt).content}))


main(sys.argv[-1])
