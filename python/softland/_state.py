"""What the process shares: the governor, the installed policy, the run that is open here."""

from __future__ import annotations

import contextvars
import json
import logging
import os
import threading
from typing import Any, Callable, Iterable

from . import _config, _native
from ._errors import GovernorError, make_error

log = logging.getLogger("softland")

Event = dict[str, Any]


class Policy:
    """The limits of requests, and what else holds for them."""

    __slots__ = (
        "settings",
        "hosts",
        "on_failure",
        "allow_unmetered",
        "limits",
        "limits_money",
    )

    def __init__(
        self,
        policy: str | None = None,
        *,
        hosts: Iterable[str] = (),
        on_failure: str | None = None,
        allow_unmetered: bool = False,
        tags: Iterable[str] = (),
        keys: dict[str, Any] | None = None,
    ) -> None:
        if on_failure not in (None, "raise", "pass"):
            raise ValueError(f'on_failure must be "raise" or "pass"; found {on_failure!r}')
        if isinstance(hosts, str):
            raise TypeError("hosts must be a list of hosts, not one text")
        if isinstance(tags, str):
            raise TypeError("tags must be a list of names, not one text")
        source = _config.read_policy(policy)
        self.settings = _native.Settings(
            source.name,
            source.is_configured,
            {**source.keys, **(keys or {})},
            source.prices,
            list(tags),
            allow_unmetered,
        )
        self.hosts = frozenset(host.lower() for host in hosts)
        self.on_failure = on_failure
        self.allow_unmetered = allow_unmetered
        self.limits = self.settings.limits
        self.limits_money = self.settings.limits_money

    @property
    def raises(self) -> bool:
        """True if a request is not sent when softland itself fails."""
        return self.limits if self.on_failure is None else self.on_failure == "raise"


class _Process:
    """What a process shares. A fork begins with a governor of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.governor: _native.Governor | None = None
        self.default: Policy | None = None
        self.on_event: Callable[[Event], None] | None = None
        self.ledger: str | None = None
        # Hosts that are gateways of softland, and warnings that were given.
        self.gateways: set[str] = set()
        self.warned: set[str] = set()

    def govern(self) -> _native.Governor:
        """Returns the governor, which is made when it is first needed."""
        governor = self.governor
        if governor is None:
            with self.lock:
                if self.governor is None:
                    self.governor = _native.Governor(self.on_event is not None, self.ledger)
                governor = self.governor
        return governor

    def configure(self, on_event: Callable[[Event], None] | None, ledger: str | None) -> None:
        """Sets who is told of events, and the file that keeps what runs did."""
        path = None
        if ledger is not None:
            kind, _, path = ledger.partition(":")
            if kind != "sqlite" or not path:
                raise ValueError(f'ledger must be "sqlite:PATH"; found {ledger!r}')
        with self.lock:
            if self.governor is not None and path != self.ledger:
                self.governor.set_ledger(path)
            if self.governor is not None:
                self.governor.set_events(on_event is not None)
            self.on_event, self.ledger = on_event, path

    def after_fork(self) -> None:
        # Another thread may have held the lock, and locks inside of the governor. What this process
        # knew of conversations is the parent's.
        self.lock = threading.Lock()
        self.governor = None


process = _Process()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.after_fork)

# The run that is open here: a `softland.Run`.
current_run: contextvars.ContextVar[Any] = contextvars.ContextVar("softland_run", default=None)


# True while a request is sent that is governed or was looked at already, further out.
inside: contextvars.ContextVar[bool] = contextvars.ContextVar("softland_inside", default=False)


def find_run() -> Any:
    """Returns the open run of this context; None if there is none or it was closed."""
    run = current_run.get()
    return None if run is None or run.closed else run


def deliver_events() -> None:
    """Hands events that have come to whoever wants them. What a callback raises is logged."""
    callback, governor = process.on_event, process.governor
    if callback is None or governor is None:
        return
    for line in governor.take_events():
        try:
            callback(json.loads(line))
        except Exception:
            log.exception("on_event raised an exception; the run goes on")


def failed(raises: bool, error: Exception) -> GovernorError | None:
    """Returns the error to raise where softland itself has failed; None if the request passes."""
    if raises:
        return make_error(f"softland could not govern a request, and nothing was sent: {error}")
    log.error("softland could not govern a request, which is sent as it is: %s", error)
    return None
