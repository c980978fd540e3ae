"""Clients and transports with limits of their own, for who does not want `install()`."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any, Callable, Iterable

from . import _http, _native
from ._state import Event, Policy, process

_NAMES = (
    "policy",
    "hosts",
    "on_failure",
    "allow_unmetered",
    "tags",
)


def _library(http: str | None) -> Any:
    """Returns the library to build on: the one that is named, else httpx2, else httpx."""
    wanted = ("httpx2", "httpx") if http is None else (http,)
    for name in wanted:
        if name not in ("httpx", "httpx2"):
            raise ValueError(f'http must be "httpx2" or "httpx"; found {name!r}')
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    raise ImportError(f"softland.Client needs {' or '.join(wanted)}, and neither is installed")


def _split(arguments: dict[str, Any]) -> tuple[Policy, dict[str, Any]]:
    """Parts a client's arguments into softland's and the library's."""
    known = _native.policy_keys()
    own = {name: arguments.pop(name) for name in _NAMES if name in arguments}
    keys = {name: arguments.pop(name) for name in known if name in arguments}
    process.has_clients = True
    return Policy(own.pop("policy", None), **own, keys=keys), arguments


def Client(*, http: str | None = None, **arguments: Any) -> Any:
    """Returns an `httpx2.Client` (or `httpx.Client` with `http="httpx"`) with limits of its own.

    Takes what `install()` takes, but for `on_event`, `ledger` and `shared`, and everything that the
    library's client takes:

        anthropic.Anthropic(http_client=softland.Client(policy="coding", timeout=60))
    """
    lib = _library(http)
    policy, rest = _split(arguments)

    class GovernedClient(lib.Client):  # type: ignore[misc, name-defined]
        def _send_single_request(self, request: Any) -> Any:
            send = super()._send_single_request
            return _http.govern_sync(lib, policy, request, send)

    rest.setdefault("follow_redirects", True)
    return GovernedClient(**rest)


def AsyncClient(*, http: str | None = None, **arguments: Any) -> Any:
    """Returns an `httpx2.AsyncClient` with limits of its own. Takes what `softland.Client` takes."""
    lib = _library(http)
    policy, rest = _split(arguments)

    class GovernedAsyncClient(lib.AsyncClient):  # type: ignore[misc, name-defined]
        async def _send_single_request(self, request: Any) -> Any:
            send = super()._send_single_request
            return await _http.govern_async(lib, policy, request, send)

    rest.setdefault("follow_redirects", True)
    return GovernedAsyncClient(**rest)


def Transport(inner: Any = None, *, http: str | None = None, **arguments: Any) -> Any:
    """Returns a transport around another one, for a client that is made elsewhere.

        httpx2.Client(transport=softland.Transport(httpx2.HTTPTransport(), tool_calls_limit=30))
    """
    lib = _library(http) if inner is None else find_library(type(inner))
    policy, rest = _split(arguments)
    _no_more(rest)
    inner = lib.HTTPTransport() if inner is None else inner

    class GovernedTransport(lib.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            return _http.govern_sync(lib, policy, request, inner.handle_request)

        def close(self) -> None:
            inner.close()

    return GovernedTransport()


def AsyncTransport(inner: Any = None, *, http: str | None = None, **arguments: Any) -> Any:
    """Returns an async transport around another one; see `softland.Transport`."""
    lib = _library(http) if inner is None else find_library(type(inner))
    policy, rest = _split(arguments)
    _no_more(rest)
    inner = lib.AsyncHTTPTransport() if inner is None else inner

    class GovernedAsyncTransport(lib.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            return await _http.govern_async(lib, policy, request, inner.handle_async_request)

        async def aclose(self) -> None:
            await inner.aclose()

    return GovernedAsyncTransport()


def find_library(kind: type) -> ModuleType:
    """Returns the library that a class of transports or clients belongs to."""
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return importlib.import_module(name)
    raise TypeError(f"{kind.__name__} belongs to neither httpx2 nor httpx")


def _no_more(rest: dict[str, Any]) -> None:
    if rest:
        raise TypeError(f"unknown: {', '.join(sorted(rest))}; policy keys are listed in the docs")
