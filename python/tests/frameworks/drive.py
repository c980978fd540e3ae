"""Runs an agent in phases, each with a provider and limits of its own, and says how its runs ended.

The agent is a program. It runs within this process, so that the module governs it, and once in each
of as many threads as a phase has runs.
"""

import builtins
import importlib
import json
import os
import sys
import threading

import softland

handed = []


def listen(lib):
    """Keeps the bodies as the HTTP library's clients are given them, above softland's hook."""
    sync, unsync = lib.Client._send_single_request, lib.AsyncClient._send_single_request

    def send_sync(self, request):
        if request.method == "POST":
            handed.append(request.read().decode())
        return sync(self, request)

    async def send_async(self, request):
        if request.method == "POST":
            handed.append((await request.aread()).decode())
        return await unsync(self, request)

    lib.Client._send_single_request, lib.AsyncClient._send_single_request = send_sync, send_async


def run_agent(source, path, reports):
    said = []
    # Two agents at once must not share a name that one of them prints to.
    scope = {
        "__name__": "agent",
        "__file__": path,
        "__builtins__": {**vars(builtins), "print": lambda *words, **_: said.append(words)},
    }
    with softland.run(name="agent") as run:
        exec(compile(source, path, "exec"), scope)
    answer = json.loads(said[-1][0])["answer"]
    reports.append(
        {
            "answer": str(answer or ""),
            "outcome": run.outcome,
            "reason": run.reason,
            "answered_by": run.answered_by,
            "tool_calls": run.tool_calls,
            "turns": run.turns,
            "cost_usd": run.cost_usd,
            "ungoverned": run.ungoverned,
            "runs": run.runs,
        }
    )


def main(plan):
    with open(plan["agent"], encoding="utf-8") as file:
        source = file.read()
    softland.install()
    for name in ("httpx", "httpx2"):
        try:
            listen(importlib.import_module(name))
        except ImportError:
            pass
    sys.argv = [plan["agent"], *plan["arguments"]]
    for phase in plan["phases"]:
        url = phase["url"]
        os.environ["ANTHROPIC_BASE_URL"] = os.environ["ANTHROPIC_API_BASE"] = url
        os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = f"{url}/v1"
        softland.install(hosts=[url.removeprefix("http://")], **phase["keys"])
        handed.clear()
        reports = []
        work = (source, plan["agent"], reports)
        threads = [threading.Thread(target=run_agent, args=work) for _ in range(phase["runs"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("REPORT", json.dumps({"runs": reports, "handed": handed}), flush=True)


main(json.loads(sys.argv[1]))
