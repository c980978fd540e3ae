"""Agents as people write them: the vendors' SDKs with a loop of one's own."""

import json

import anthropic
import openai

MODELS = {"anthropic": "claude-sonnet-5-5", "chat": "gpt-5.2", "responses": "gpt-5.2"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PROMPT = "What did we decide about pricing?"
# A tool that the simulated reader uses, too.
NAME = "list_dir"
MOST_TURNS = 40


def tool(path=""):
    """The one tool: it always finds something."""
    return f"notes of {path}: we decided to wait"


def clients(protocol, url, http_client, *, is_async=False, **more):
    """The SDK's client of a protocol."""
    if protocol == "anthropic":
        kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        return kind(api_key="any", base_url=url, http_client=http_client, **more)
    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    return kind(api_key="any", base_url=f"{url}/v1", http_client=http_client, **more)


class Loop:
    """A conversation of one protocol: what is asked, and what becomes of an answer."""

    def __init__(self, protocol, prompt=PROMPT, answer_tool=None):
        self.protocol = protocol
        self.names = [NAME] if answer_tool is None else [NAME, answer_tool]
        self.prompt = prompt
        self.calls = 0
        # What a call of the answer tool says.
        self.final = None
        self.previous = None
        self.history = [{"role": "user", "content": prompt}]

    def request(self):
        """The arguments of the SDK's method."""
        model = MODELS[self.protocol]
        if self.protocol == "anthropic":
            about = {"description": "Lists.", "input_schema": SCHEMA}
            tools = [{"name": name, **about} for name in self.names]
            return {"model": model, "max_tokens": 1024, "tools": tools, "messages": self.history}
        about = {"description": "Lists.", "parameters": SCHEMA}
        functions = [{"name": name, **about} for name in self.names]
        if self.protocol == "chat":
            tools = [{"type": "function", "function": function} for function in functions]
            return {"model": model, "tools": tools, "messages": self.history}
        tools = [{"type": "function", "strict": False, **function} for function in functions]
        asked = {"model": model, "tools": tools, "input": self.history}
        return {**asked, "previous_response_id": self.previous} if self.previous else asked

    def take(self, answer):
        """Takes an answer and runs its calls. Returns the final text, or None to go on."""
        said = getattr(self, f"_take_{self.protocol}")(answer)
        return said if self.final is None else self.final

    def _run(self, arguments, name=NAME):
        self.calls += 1
        if name != NAME:
            self.final = f"{name}: {arguments}"
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError:
                return "Your call broke off. Make it again."
        return tool(arguments.get("path", ""))

    def _take_anthropic(self, message):
        self.history.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": self._run(block.input, block.name)}
            for block in message.content
            if block.type == "tool_use"
        ]
        self.history.append({"role": "user", "content": results})
        return None

    def _take_chat(self, completion):
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content
        kept = message.model_dump(exclude_none=True, include={"role", "content"})
        kept["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
        self.history.append(kept)
        for call in message.tool_calls:
            said = self._run(call.function.arguments, call.function.name)
            self.history.append({"role": "tool", "tool_call_id": call.id, "content": said})
        return None

    def _take_responses(self, response):
        self.previous = response.id
        calls = [item for item in response.output if item.type == "function_call"]
        self.history = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": self._run(call.arguments, call.name),
            }
            for call in calls
        ]
        return None if calls else response.output_text


def ask(client, protocol, asked, stream):
    """Asks once, without await."""
    if protocol == "anthropic":
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()
    if protocol == "chat":
        if not stream:
            return client.chat.completions.create(**asked)
        with client.chat.completions.stream(**asked) as events:
            return events.get_final_completion()
    if not stream:
        return client.responses.create(**asked)
    with client.responses.stream(**asked) as events:
        return events.get_final_response()


async def ask_async(client, protocol, asked, stream):
    """Asks once, with await."""
    if protocol == "anthropic":
        if not stream:
            return await client.messages.create(**asked)
        async with client.messages.stream(**asked) as events:
            return await events.get_final_message()
    if protocol == "chat":
        if not stream:
            return await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked) as events:
            return await events.get_final_completion()
    if not stream:
        return await client.responses.create(**asked)
    async with client.responses.stream(**asked) as events:
        return await events.get_final_response()


def run_loop(client, protocol, *, stream=False, prompt=PROMPT):
    """Runs an agent to its end. Returns its answer and its number of calls."""
    return run_conversation(client, Loop(protocol, prompt), stream)


def run_conversation(client, loop, stream):
    """Has a conversation to its end. Returns its answer and its number of calls."""
    for _ in range(MOST_TURNS):
        answer = loop.take(ask(client, loop.protocol, loop.request(), stream))
        if answer is not None:
            return answer, loop.calls
    raise AssertionError(f"no end after {MOST_TURNS} turns")


async def run_loop_async(client, protocol, *, stream=False, prompt=PROMPT):
    """Runs an agent to its end. Returns its answer and its number of calls."""
    loop = Loop(protocol, prompt)
    for _ in range(MOST_TURNS):
        answer = loop.take(await ask_async(client, protocol, loop.request(), stream))
        if answer is not None:
            return answer, loop.calls
    raise AssertionError(f"no end after {MOST_TURNS} turns")
