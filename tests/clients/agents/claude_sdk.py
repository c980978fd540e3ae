"""Claude's Agent SDK, which starts the Claude Code that it brings along."""

import asyncio
import json
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


async def main(prompt):
    answer = None
    options = ClaudeAgentOptions(allowed_tools=["Bash"], max_turns=20)
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage) and not message.is_error:
            answer = message.result
    print(json.dumps({"answer": answer}))


asyncio.run(main(sys.argv[1]))
