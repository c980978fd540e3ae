"""What the process shares: the governor, the installed policy, the run that is open here."""

from __future__ import annotations

import atexit
import collections.abc
import contextvars
import inspect
import json
import logging
import os
import re
import sys
import threading
import weakref
from copy import copy
from dataclasses import replace
from typing import Any, Callable, Iterable

from . import _config, _native
from ._errors import GovernorError, make_error

log = logging.getLogger("softland")

Event = dict[str, Any]

# A name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
_HOST = re.compile(r"(?:[^\s/:*?#@\[\]]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")


class Policy:
    """The limits of requests, and what else holds for them."""

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
        #: The policy's keys; None if the program gave none.
        self.source: _config.Source | None = None
        if policy is not None or keys:
            source = _config.read_policy(policy)
            self.source = replace(source, keys={**source.keys, **(keys or {})})
        self.tags = _read_tags(tags)
        self.hosts = _read_hosts(hosts)
        self.on_failure = on_failure
        self.allow_unmetered = allow_unmetered
        #: The newest policy that this one was put over, and what came of it.
        self._over: tuple[Policy, Policy] | None = None
        self._prepare()

    def _prepare(self) -> None:
        source = self.source or _config.Source()
        self.settings = _native.Settings(
            source.name,
            source.is_configured,
            source.keys,
            source.prices,
            self.tags,
            self.allow_unmetered,
        )
        self.limits = self.settings.limits
        self.limits_money = self.settings.limits_money

    def over(self, outer: Policy | None) -> Policy:
        """Returns this policy with what it does not say as `outer` has it.

        Each key holds that this policy has, and of the others those of `outer`; but a policy with a
        name has the keys of that name alone. Prices and hosts of both are known.
        """
        if outer is None or outer is self:
            return self
        known = self._over
        if known is not None and known[0] is outer:
            return known[1]
        made = copy(self)
        made._over = None
        made.source = self.source or outer.source
        if self.source is not None and outer.source is not None:
            begun = outer.source if self.source.name is None else self.source
            keys = {**begun.keys, **self.source.keys}
            prices = self.source.prices + outer.source.prices
            made.source = replace(begun, keys=keys, prices=prices)
        made.tags = self.tags or outer.tags
        made.hosts = self.hosts | outer.hosts
        made.on_failure = self.on_failure or outer.on_failure
        made.allow_unmetered = self.allow_unmetered or outer.allow_unmetered
        made._prepare()
        self._over = (outer, made)
        return made

    @property
    def raises(self) -> bool:
        """True if a request is not sent when softland itself fails."""
        return self.limits if self.on_failure is None else self.on_failure == "raise"


def _read_tags(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise TypeError("tags must be a list of names, not one text")
    found = list(tags)
    for tag in found:
        if not isinstance(tag, str):
            raise TypeError(f"tags must be texts; found {tag!r}")
    return found


def _read_hosts(hosts: Iterable[str]) -> frozenset[str]:
    """Returns the hosts as requests have them. One that no request can have is refused."""
    if isinstance(hosts, str) or not isinstance(hosts, collections.abc.Iterable):
        raise TypeError(f"hosts must be a list of hosts; found {hosts!r}")
    found = set()
    for host in hosts:
        if not isinstance(host, str):
            raise TypeError(f"hosts must be texts; found {host!r}")
        matched = _HOST.fullmatch(host.lower())
        if matched is None or int(matched["port"] or 1) not in range(1, 65536):
            raise ValueError(
                f'hosts must be "HOST" or "HOST:PORT", such as "127.0.0.1:8080"; found {host!r}'
            )
        found.add(host.lower())
    return frozenset(found)


def _read_ledger(ledger: str) -> str:
    """Returns the path of a ledger."""
    if not isinstance(ledger, str):
        raise TypeError(f'ledger must be "sqlite:PATH"; found {ledger!r}')
    kind, _, path = ledger.partition(":")
    if kind != "sqlite" or not path:
        raise ValueError(f'ledger must be "sqlite:PATH"; found {ledger!r}')
    if os.path.isdir(path):
        raise IsADirectoryError(f"ledger: {path} is a folder, and must be a file")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(f"ledger: there is no folder {folder}")
    return path


class _Process:
    """What a process shares. A fork begins with a governor of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.governor: _native.Governor | None = None
        self.default: Policy | None = None
        self.on_event: Callable[[Event], None] | None = None
        self.ledger: str | None = None
        self.shared: str | None = None
        # Forks that are under way. Meanwhile the ledger's file is closed.
        self.forks = 0
        # Calls, of which some may not have ended.
        self.calls: set[weakref.ref[_native.Call]] = set()
        # True once a client has limits of its own, so that requests are governed without `install()`.
        self.has_clients = False
        # Hosts that are gateways of softland, and warnings that were given.
        self.gateways: set[str] = set()
        self.warned: set[str] = set()

    def govern(self) -> _native.Governor:
        """Returns the governor, which is made when it is first needed."""
        governor = self.governor
        if governor is None:
            with self.lock:
                if self.governor is None:
                    is_told = self.on_event is not None
                    self.governor = _native.Governor(is_told, self.ledger, self.shared)
                governor = self.governor
        return governor

    def configure(
        self, on_event: Callable[[Event], None] | None, ledger: str | None, shared: str | None
    ) -> None:
        """Sets who is told of events, the file that keeps what runs did, and the shared state."""
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event must be a function; found {on_event!r}")
        if inspect.iscoroutinefunction(on_event):
            raise TypeError("on_event must be a plain function: an async one would not be awaited")
        path = None if ledger is None else _read_ledger(ledger)
        if shared is not None and not isinstance(shared, str):
            raise TypeError(f"shared must be an address; found {shared!r}")
        if shared is not None:
            _native.check_shared(shared)
        with self.lock:
            if self.governor is not None and shared != self.shared:
                raise RuntimeError("shared cannot change after the first run or request")
            if self.governor is not None and path != self.ledger:
                self.governor.set_ledger(path)
            if self.governor is not None:
                self.governor.set_events(on_event is not None)
            self.on_event, self.ledger, self.shared = on_event, path, shared

    def before_fork(self) -> None:
        """Closes the ledger: no file of SQLite may be open in a process that forks."""
        with self.lock:
            self.forks += 1
            if self.governor is not None and self.ledger is not None:
                self.governor.pause_ledger()

    def after_fork(self) -> None:
        """Opens the ledger again, in the parent."""
        with self.lock:
            self.forks -= 1
            if self.forks == 0 and self.governor is not None and self.ledger is not None:
                try:
                    self.governor.set_ledger(self.ledger)
                except OSError:
                    log.exception("the ledger cannot be opened again after a fork")

    def in_child(self) -> None:
        """Begins anew in a forked child. What its parent knew of conversations is the parent's."""
        # Another thread may have held the lock, and locks inside of the governor and its calls.
        self.lock, self.forks = threading.Lock(), 0
        for call in self.open_calls():
            call.abandon()
        self.calls = set()
        if self.governor is not None:
            self.governor.abandon()
        self.governor = None
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # It forgets what is registered so far, and calls this then.
            util.register_after_fork(self, _Process.close_with_multiprocessing)

    def close_with_multiprocessing(self) -> None:
        """Closes at the end of a child of multiprocessing, where `atexit` may not run."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.close, exitpriority=-100)

    def keep_call(self, call: _native.Call) -> None:
        """Notes a call that is to be ended with the process, as long as anybody has it."""
        self.calls.add(weakref.ref(call, self.calls.discard))

    def open_calls(self) -> list[_native.Call]:
        """Returns the calls that somebody has."""
        found = (call() for call in list(self.calls))
        return [call for call in found if call is not None]

    def close(self) -> None:
        """Books what is under way, and closes the ledger: at the end of the process."""
        for call in self.open_calls():
            call.try_close()
        if self.governor is not None:
            self.governor.close()
        deliver_events()


process = _Process()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=process.before_fork,
        after_in_parent=process.after_fork,
        after_in_child=process.in_child,
    )
atexit.register(process.close)
process.close_with_multiprocessing()

# The run that is open here: a `softland.Run`.
current_run: contextvars.ContextVar[Any] = contextvars.ContextVar("softland_run", default=None)


# True while a request is sent that is governed or was looked at already, further out.
inside: contextvars.ContextVar[bool] = contextvars.ContextVar("softland_inside", default=False)


def find_run() -> Any:
    """Returns the innermost open run of this context; None if there is none."""
    run = current_run.get()
    if run is None or not run.closed:
        return run
    return next((around for around in run.around if not around.closed), None)


def deliver_events() -> None:
    """Hands events that have come to whoever wants them, and messages to the log.

    What a callback raises is logged.
    """
    for is_error, message in _native.take_messages():
        log.log(logging.ERROR if is_error else logging.INFO, "softland: %s", message)
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
    run = find_run()
    if run is not None:
        run.count_ungoverned()
    log.error("softland could not govern a request, which is sent as it is: %s", error)
    return None
