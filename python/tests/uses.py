"""What a typed program does with the module; mypy and pyright read it, nothing runs it."""

from typing import Any

import softland
from softland import Event, GovernorError, Run


def told(event: Event) -> None:
    print(event["event"])


def use(agent: Any) -> tuple[str | None, float | None, int]:
    softland.install("coding", hosts=["localhost:8080"], on_event=told, shared="memory:", cost_limit_usd=2)
    softland.install(tags=["t"], shared="memory:", on_failure="pass")
    try:
        with softland.run(name="job", tool_calls_limit=5) as run:
            agent()
        kept: Run = run
    except GovernorError as error:
        raise SystemExit(str(error)) from error
    softland.uninstall()
    return kept.outcome, kept.cost_usd, kept.tool_calls


async def use_async(agent: Any) -> list[str]:
    client = softland.AsyncClient(policy="specialist", timeout=60)
    async with softland.run(session="nightly") as run:
        await agent(client, softland.anthropic_middleware(turns_limit=3))
    return run.runs
