"""CrewAI's agent with one task, over Chat Completions."""

import json
import sys

import shell
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool(shell.NAME)
def bash(command: str, description: str = "") -> str:
    """Runs a shell command in the working folder and returns what it prints."""
    return shell.run(command)


def main(prompt):
    agent = Agent(
        role="worker",
        goal="Answer questions about the folder.",
        backstory="You read notes.",
        llm=LLM(model="openai/gpt-4.1"),
        tools=[bash],
        max_iter=60,
    )
    task = Task(description=prompt, expected_output="An answer.", agent=agent)
    result = Crew(agents=[agent], tasks=[task]).kickoff()
    print(json.dumps({"answer": result.raw}))


main(sys.argv[-1])
