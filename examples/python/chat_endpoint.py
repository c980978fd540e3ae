"""A chat endpoint with the whole loop and streaming: `uvicorn chat_endpoint:app`."""

from collections.abc import AsyncIterator

import anthropic
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import softland

softland.install(tool_calls_limit=8, time_limit="2m")
app = FastAPI()
client = anthropic.AsyncAnthropic()
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOL = {"name": "read_file", "description": "Reads a note.", "input_schema": SCHEMA}


async def answer(question: str) -> AsyncIterator[str]:
    messages = [{"role": "user", "content": question}]
    async with softland.run(name="chat") as run:
        while True:
            asked = {"model": "claude-sonnet-5-5", "max_tokens": 2000, "tools": [TOOL]}
            async with client.messages.stream(**asked, messages=messages) as stream:
                async for text in stream.text_stream:
                    yield text
                message = await stream.get_final_message()
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                break
            told = [{"type": "tool_result", "tool_use_id": c.id, "content": "Wait."} for c in calls]
            messages += [{"role": "assistant", "content": message.content}]
            messages += [{"role": "user", "content": told}]
    yield f"\n[{run.outcome}, {run.tool_calls} tool calls]\n"


@app.get("/chat")
def chat(question: str) -> StreamingResponse:
    return StreamingResponse(answer(question), media_type="text/plain")
