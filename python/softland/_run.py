"""Runs that a program names, and what is known of them."""

from __future__ import annotations

import re
import secrets
from types import TracebackType
from typing import Any, Optional

from . import _threads
from ._state import Policy, current_run, deliver_events, failed, find_run, log, process


# Outcome, reason, answered_by, cost in dollars, tool calls, turns, names of runs.
Report = tuple[Optional[str], Optional[str], Optional[str], Optional[float], int, int, list[str]]


class Run:
    """A run: everything that is asked within its `with` block, in its threads and tasks too.

    Made by `softland.run()`. What it tells is true at any time, also while the run goes on:
    `outcome`, `reason`, `answered_by`, `cost_usd`, `tool_calls`, `turns`, `runs`, and

    - `name`: the name that the program gave it;
    - `id`: what softland calls it in the ledger, in events and to a gateway;
    - `session`: the session that it shares `session_cost_limit_usd` with, if it was named;
    - `ungoverned`: the number of requests to a model within the run that were not governed.

    After the block it tells what was true at the block's end.
    """

    name: str | None
    id: str
    session: str | None
    ungoverned: int

    def __init__(
        self, name: str | None, policy: Policy | None, session: str | None = None
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a text; found {name!r}")
        if session is not None and not isinstance(session, str):
            raise TypeError(f"session must be a text; found {session!r}")
        if session is not None and not re.fullmatch(r"[!-~]{1,200}", session):
            raise ValueError(
                f"session must be 1 to 200 visible ASCII characters; found {session!r}"
            )
        self.name = name
        self.policy = policy
        self.session = session
        slug = re.sub(r"[^0-9A-Za-z._-]+", "-", name or "run").strip("-") or "run"
        self.id = f"{slug[:64]}-{secrets.token_hex(4)}"
        # The runs around it, the innermost first.
        self.around: list[Run] = []
        self.closed = False
        self.ungoverned = 0
        #: True if a gateway governs requests of the run: what they cost is known there.
        self.asks_gateway = False
        self._token: Any = None
        self._kept: Report | None = None

    def __enter__(self) -> Run:
        if self._token is not None:
            raise RuntimeError("a run is entered once; softland.run() makes another one")
        parent = find_run()
        if parent is not None:
            self.around = [parent, *parent.around]
            self.policy = parent.policy if self.policy is None else self.policy.over(parent.policy)
            if self.session is None:
                self.session = parent.session
        self._open()
        self._token = current_run.set(self)
        _threads.carry_runs()
        return self

    def _open(self) -> None:
        """Begins to note what belongs to the run."""
        around = [run.id for run in self.around]
        try:
            process.govern().open_run(self.id, around)
        except Exception as error:
            base = self.policy or process.default
            told = failed(base is not None and base.raises, error)
            if told is not None:
                raise told from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kept = self._report()
        self.closed = True
        self._warn_if_ungoverned()
        if process.governor is not None:
            process.governor.close_run(self.id)
        try:
            current_run.reset(self._token)
        except ValueError:
            # Left in another context than it was entered in, as async generators do.
            current_run.set(self.around[0] if self.around else None)
        deliver_events()

    def _warn_if_ungoverned(self) -> None:
        """Tells of limits that held for nothing, because nothing is governed in this process."""
        governs = process.default is not None or process.has_clients
        if governs or self.around or self.policy is None or not self.policy.limits:
            return
        log.warning(
            "the limits of softland.run() held for nothing: no request of this process is governed "
            "without softland.install() or a client of softland's, in a spawned process too"
        )

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _report(self) -> Report:
        if self._kept is not None:
            return self._kept
        # After a fork it is the child's governor, which knows what was done here.
        governor = process.governor
        found = None if governor is None else governor.report_run(self.id)
        return found or (None, None, None, 0.0, 0, 0, [])

    @property
    def outcome(self) -> str | None:
        """How the run ended: `answered`, `landed`, `stopped`, `failed` or `cancelled`.

        None while it goes on, also if an exception left it before its end; and if nothing was asked
        with tools: other requests are only counted. Of several conversations, the newest one's.
        """
        return self._report()[0]

    @property
    def reason(self) -> str | None:
        """Why it ended: `final`, or the limit or the loop that ended it."""
        return self._report()[1]

    @property
    def answered_by(self) -> str | None:
        """`model`, or `local` if softland answered in the model's place."""
        return self._report()[2]

    @property
    def cost_usd(self) -> float | None:
        """What it has cost, its nested runs included; None if a price is not known.

        None also if a gateway of softland governs its requests: the gateway knows.
        """
        return None if self.asks_gateway else self._report()[3]

    @property
    def tool_calls(self) -> int:
        """The tool calls of its own conversations."""
        return self._report()[4]

    @property
    def turns(self) -> int:
        """The turns of its own conversations."""
        return self._report()[5]

    @property
    def runs(self) -> list[str]:
        """softland's names of its conversations' runs, as events and the ledger have them."""
        return list(self._report()[6])

    def count_ungoverned(self) -> None:
        """Counts a request to a model that was not governed, here and in the runs around."""
        for run in (self, *self.around):
            run.ungoverned += 1

    def note_gateway(self) -> None:
        """Notes that a gateway governs requests of this run, for the runs around, too."""
        for run in (self, *self.around):
            run.asks_gateway = True

    def __repr__(self) -> str:
        return f"<softland.Run {self.id} {self.outcome or 'open'}>"
