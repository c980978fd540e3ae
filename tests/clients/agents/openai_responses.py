"""The OpenAI SDK with a loop of one's own on Responses: streaming, nothing kept by the provider,
the whole history with its encrypted reasoning."""

import json
import sys

import openai
import shell

TOOL = {
    "type": "function",
    "name": shell.NAME,
    "description": shell.DESCRIPTION,
    "parameters": shell.PARAMETERS,
    "strict": False,
}


def ask(client, items):
    with client.responses.stream(
        model="gpt-5.6-sol",
        instructions="Be brief.",
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        store=False,
        tools=[TOOL],
        input=items,
    ) as stream:
        return stream.get_final_response()


def results(calls):
    return [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": shell.run(json.loads(call.arguments)["command"]),
        }
        for call in calls
    ]


# What the SDK adds to an item beside what the API sent.
OWN = {"parsed", "parsed_arguments"}


def plain(item):
    return item.model_dump(
        exclude_unset=True, exclude={**dict.fromkeys(OWN, True), "content": {"__all__": OWN}}
    )


def main(prompt):
    client = openai.OpenAI()
    items = [{"role": "user", "content": prompt}]
    for _ in range(20):
        response = ask(client, items)
        items += [plain(item) for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        items += results(calls)
    print(json.dumps({"answer": response.output_text}))


main(sys.argv[1])
