"""smolagents, its agent that calls tools by name; it shows the model its calls and results as text."""

import json
import sys

import shell
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent


class Bash(Tool):
    """Its tools are known by these names."""

    name = shell.NAME
    description = shell.DESCRIPTION
    inputs = {
        "command": {"type": "string", "description": "the command"},
        "description": {"type": "string", "description": "what it is for"},
    }
    output_type = "string"

    def forward(self, command: str, description: str) -> str:
        """Runs a command."""
        return shell.run(command)


def main(prompt):
    model = OpenAIServerModel("gpt-4.1")
    agent = ToolCallingAgent(tools=[Bash()], model=model, max_steps=120)
    print(json.dumps({"answer": agent.run(prompt)}))


main(sys.argv[1])
