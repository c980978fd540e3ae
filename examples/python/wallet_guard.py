"""An autonomous loop that stops by itself when its money is spent, whatever it does.

    python wallet_guard.py 0.50
"""

import sys

import openai

import softland

TOOL = {
    "type": "function",
    "name": "read_file",
    "description": "Reads the next page of the log.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    "strict": False,
}


def main(dollars: float) -> None:
    softland.install(cost_limit_usd=dollars, repeat_limit=1000, cycle_limit=1000)
    client, news, previous = openai.OpenAI(), [{"role": "user", "content": "Watch the log."}], None
    with softland.run(name="watch") as run:
        while news:  # there is no other end: softland brings the run to an answer
            more = {"previous_response_id": previous} if previous else {}
            more["max_output_tokens"] = 1000  # the most that an answer can cost is reserved first
            response = client.responses.create(model="gpt-5.2", tools=[TOOL], input=news, **more)
            previous = response.id
            calls = [item for item in response.output if item.type == "function_call"]
            news = [
                {"type": "function_call_output", "call_id": call.call_id, "output": "All is quiet."}
                for call in calls
            ]
    print(response.output_text)
    print(f"{run.outcome} ({run.reason}), ${run.cost_usd:.4f} of ${dollars}", file=sys.stderr)


main(float(sys.argv[1]))
