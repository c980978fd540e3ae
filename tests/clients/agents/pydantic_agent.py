"""pydantic-ai's agent; the first argument is its model with its protocol. With `structured` as the
second it must answer with an object, for which it forces a tool named `final_result`, and
streams."""

import asyncio
import json
import sys

import shell
from pydantic import BaseModel
from pydantic_ai import Agent


class Report(BaseModel):
    """The object of the structured run."""

    summary: str
    steps: int


async def drain(_, events):
    async for _ in events:
        pass


async def main(model, kind, prompt):
    structured = kind == "structured"
    agent = Agent(model, system_prompt="Be brief.", output_type=Report if structured else str)

    @agent.tool_plain(name=shell.NAME, description=shell.DESCRIPTION)
    def bash(command: str, description: str = "") -> str:
        return shell.run(command)

    result = await agent.run(prompt, event_stream_handler=drain if structured else None)
    answer = result.output.model_dump_json() if structured else result.output
    print(json.dumps({"answer": answer}))


asyncio.run(main(*sys.argv[1:4]))
