"""OpenHands' agent with its terminal; `anthropic` or `chat` as the first argument. In a small context
its condenser has older events replaced by a summary."""

import json
import os
import sys

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.event import MessageEvent
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

MODELS = {
    "anthropic": ("anthropic/claude-sonnet-4-5", "ANTHROPIC"),
    "chat": ("openai/gpt-4.1", "OPENAI"),
}


def answer(events):
    """The text of its last message."""
    said = [one for one in events if isinstance(one, MessageEvent) and one.source == "agent"]
    return "".join(part.text for part in said[-1].llm_message.content)


def main(protocol, prompt):
    model, vendor = MODELS[protocol]
    address = {"base_url": os.environ[f"{vendor}_BASE_URL"], "num_retries": 1}
    key = SecretStr(os.environ[f"{vendor}_API_KEY"])
    llm = LLM(usage_id="agent", model=model, api_key=key, **address)
    condenser = None
    if os.environ.get("SMALL_CONTEXT"):
        own = llm.model_copy(update={"usage_id": "condenser"})
        condenser = LLMSummarizingCondenser(llm=own, max_size=20, keep_first=2)
    agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name)], condenser=condenser)
    conversation = Conversation(
        agent=agent,
        workspace=os.getcwd(),
        visualizer=None,
        max_iteration_per_run=120,
        stuck_detection=False,
    )
    conversation.send_message(prompt)
    conversation.run()
    print("\n" + json.dumps({"answer": answer(conversation.state.events)}))


main(*sys.argv[1:3])
