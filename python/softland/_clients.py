"""Clients and transports with limits of their own, for who does not want `install()`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
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
    raise ImportError(f"this needs {' or '.join(wanted)}, which is not installed")


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

    _check_rest(rest, lib.Client)

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

    _check_rest(rest, lib.AsyncClient)

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
    _check_rest(rest)
    _check_method(inner, "handle_request")
    inner = lib.HTTPTransport() if inner is None else inner

    class GovernedTransport(lib.BaseTransport):  # type: ignore[misc, name-defined]
        _softland = policy

        def handle_request(self, request: Any) -> Any:
            return _http.govern_sync(lib, policy, request, inner.handle_request)

        def close(self) -> None:
            inner.close()

    return GovernedTransport()


def AsyncTransport(inner: Any = None, *, http: str | None = None, **arguments: Any) -> Any:
    """Returns an async transport around another one; see `softland.Transport`."""
    lib = _library(http) if inner is None else find_library(type(inner))
    policy, rest = _split(arguments)
    _check_rest(rest)
    _check_method(inner, "handle_async_request")
    inner = lib.AsyncHTTPTransport() if inner is None else inner

    class GovernedAsyncTransport(lib.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        _softland = policy

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


def _check_rest(rest: dict[str, Any], kind: type | None = None) -> None:
    """Refuses arguments that are neither softland's nor those of the library's `kind` of client."""
    taken = [] if kind is None else list(inspect.signature(kind).parameters)
    unknown = next((name for name in rest if name not in taken), None)
    if unknown is None:
        return
    near = difflib.get_close_matches(unknown, [*_NAMES, *_native.policy_keys(), *taken], 1)
    hint = f"; did you mean {near[0]}?" if near else "; policy keys are listed in the docs"
    raise TypeError(f"unknown argument: {unknown}{hint}")


def _check_method(inner: Any, method: str) -> None:
    """Refuses a transport of the other kind: sync and async ones have different methods."""
    if inner is not None and not hasattr(inner, method):
        other = "AsyncTransport" if method == "handle_request" else "Transport"
        raise TypeError(f"{type(inner).__name__} has no {method}(): use softland.{other}")
