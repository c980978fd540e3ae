"""Bounds the runs of LLM agents in this process: tool calls, turns, tokens, money, time.

    import softland

    softland.install(tool_calls_limit=30, cost_limit_usd=2)

    with softland.run(name="job-7") as run:
        answer = my_agent(question)
    print(run.outcome, run.reason, run.cost_usd, run.tool_calls, run.answered_by)

From then on every SDK of this process that uses httpx, httpx2 or aiohttp is governed: the model is
told how many tool calls remain, and at a limit the run is brought to an answer. A limit is never
an exception. A client can have limits of its own, without `install()`:

    anthropic.Anthropic(http_client=softland.Client(policy="coding"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable

try:
    from . import _native
except ImportError as error:
    raise ImportError(
        "softland's native part is not here. On PyPI, softland is called `softland-ai`; the package "
        "`softland` belongs to another project, whose module has the same name. Remove that one "
        "(pip uninstall softland) and install softland-ai again."
    ) from error

from . import _anthropic, _hooks
from ._clients import AsyncClient, AsyncTransport, Client, Transport
from ._errors import GovernorError
from ._run import Run
from ._state import Event, Policy, deliver_events, process

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import PolicyKeys

__all__ = [
    "AsyncClient",
    "AsyncTransport",
    "Client",
    "Event",
    "GovernorError",
    "Run",
    "Transport",
    "__version__",
    "anthropic_middleware",
    "install",
    "run",
    "uninstall",
]

__version__: str = _native.__version__


def install(
    policy: str | None = None,
    *,
    hosts: Iterable[str] = (),
    on_event: Callable[[Event], None] | None = None,
    ledger: str | None = None,
    shared: str | None = None,
    on_failure: str | None = None,
    allow_unmetered: bool = False,
    tags: Iterable[str] = (),
    **keys: Unpack[PolicyKeys],
) -> None:
    """Governs every SDK in this process that uses httpx, httpx2 or aiohttp, imported now or later.

    `policy` is `default`, `coding` or `specialist`, or `FILE.toml#NAME` for one of a config, with
    the config's prices. Every policy key is an argument of its name: `tool_calls_limit=30`,
    `cost_limit_usd=2`, `time_limit="10m"`. `tags=["use_tool"]` names the tags of models that write
    their calls as text.

    `hosts` are more hosts (`host` or `host:port`) to govern beside the known providers'.
    `on_event` is called with each event, a dict, after it happened. `ledger="sqlite:PATH"` keeps
    what runs did. `shared="redis://HOST:PORT"` (or `rediss:`, `postgres:`) keeps conversations and
    money in a store, for all processes that name it; it cannot change after the first run or
    request. `on_failure` says what happens to a request if softland itself fails: `raise`
    (the default under any limit) or `pass`. `allow_unmetered=True` lets requests pass that spend
    money which cannot be counted, although a limit of money holds.

    Calling it again replaces the policy; the conversations that are known stay known.
    """
    made = Policy(
        policy,
        hosts=hosts,
        on_failure=on_failure,
        allow_unmetered=allow_unmetered,
        tags=tags,
        keys=dict(keys),
    )
    process.configure(on_event, ledger, shared)
    process.default = made
    _hooks.install()


def uninstall() -> None:
    """Takes softland out of the HTTP libraries again. Clients with limits of their own keep them."""
    _hooks.uninstall()
    process.default = None
    deliver_events()


def anthropic_middleware(
    policy: str | None = None,
    *,
    on_failure: str | None = None,
    allow_unmetered: bool = False,
    tags: Iterable[str] = (),
    **keys: Unpack[PolicyKeys],
) -> Any:
    """Returns middleware for a client of the Anthropic SDK, sync or async, with limits of its own.

        anthropic.Anthropic(middleware=[softland.anthropic_middleware(tool_calls_limit=30)])

    It takes what `install()` takes, but for `hosts`, `on_event`, `ledger` and `shared`: whatever host the
    client asks is governed. No HTTP library is changed. Put it last, so that what other middleware
    writes into a request is governed too.
    """
    return _anthropic.make_middleware(
        Policy(
            policy,
            on_failure=on_failure,
            allow_unmetered=allow_unmetered,
            tags=tags,
            keys=dict(keys),
        )
    )


def run(
    name: str | None = None,
    policy: str | None = None,
    *,
    session: str | None = None,
    hosts: Iterable[str] = (),
    on_failure: str | None = None,
    allow_unmetered: bool = False,
    tags: Iterable[str] = (),
    **keys: Unpack[PolicyKeys],
) -> Run:
    """Names a run: `with softland.run(name="job-7") as run:`, or `async with`.

    Everything that is asked in the block belongs to it, in its threads and tasks too. A run within
    a run is a sub-agent's and shares the budget of the run around it. With policy keys, the run has
    limits of its own; else it has those of the run around it, of the client, or the installed ones.
    Other arguments that it does not have are as they are around it.

    Runs of one `session` share `session_cost_limit_usd`, those of other processes too if they have
    the same `shared` store. Without a name, the outermost run is the session of those within it.

    `install()` or a client of softland's does the governing; a run only names what belongs together.
    """
    says_something = policy or keys or hosts or tags or on_failure or allow_unmetered
    made = Policy(
        policy,
        hosts=hosts,
        on_failure=on_failure,
        allow_unmetered=allow_unmetered,
        tags=tags,
        keys=dict(keys),
    )
    return Run(name, made if says_something else None, session)
