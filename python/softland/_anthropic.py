"""softland as middleware of the Anthropic SDK, which documents it: no HTTP library is hooked.

The SDK calls middleware once for each attempt, above what signs and sends the request. So a body
may be edited here that is signed below, as for Bedrock.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Awaitable, Callable

from . import _http, _native, _route
from ._clients import find_library
from ._state import Policy, process

_BASE = "https://api.anthropic.com"


class Attempt:
    """One attempt of the SDK, and the request of its HTTP library that stands for it here."""

    def __init__(self, lib: Any, request: Any, call_next: Any) -> None:
        self.lib = lib
        self.request = request
        self.call_next = call_next
        self.client = _find_client(call_next)
        #: What the SDK made of the newest response to the attempt.
        self.last: Any = None
        self.json: Any = request.json
        more = request.options.extra_json
        if more is not None:
            self.json = {**(self.json or {}), **more}
        self.body = _dump(self.json)
        path = str(request.url)
        url = f"{_BASE}{path}" if self.client is None else self.client._prepare_url(path)
        named = {name: value for name, value in request.headers.items() if isinstance(value, str)}
        #: True if headers name a run: they are softland's and not the provider's.
        self.names_run = any(name.lower().startswith(_http.PREFIX) for name in named)
        self.timeout = self._read_timeout()
        extensions = {} if self.timeout is None else {"timeout": self.timeout}
        self.carrier = lib.Request(
            "POST", url, headers=named, content=self.body, extensions=extensions
        )

    def is_turn(self) -> bool:
        """True for a request that can be governed."""
        if self.request.method.upper() != "POST" or not isinstance(self.json, dict):
            return False
        path = str(self.request.url).partition("?")[0]
        return _native.find_endpoint(path) is not None

    def is_framed(self) -> bool:
        """True for a stream that comes in frames of AWS, which are not read here."""
        kind = type(self.client).__module__
        return bool(self.request.stream) and "bedrock" in kind and "mantle" not in kind

    def _read_timeout(self) -> dict[str, Any] | None:
        """Returns the timeouts of the attempt, as its HTTP library has them."""
        wanted = self.request.timeout
        if type(wanted).__name__ in ("NotGiven", "Omit"):
            wanted = getattr(self.client, "timeout", None)
        if wanted is None:
            return None
        known: dict[str, Any] = self.lib.Timeout(wanted).as_dict()
        return known

    def derive(self, sent: Any) -> Any:
        """Returns the attempt for a request of softland's."""
        body, timeout = b"".join(sent.stream), sent.extensions.get("timeout") or None
        is_same = body == self.body and timeout == self.timeout
        if is_same and sent is self.carrier and not self.names_run:
            return self.request
        derived = self.request.copy(body=json.loads(body))
        derived.options.extra_json = None
        if self.names_run:
            kept = derived.options.headers.items()
            derived.options.headers = {
                name: value for name, value in kept if not name.lower().startswith(_http.PREFIX)
            }
        if sent is not self.carrier:
            derived.options.url = _native.find_endpoint(sent.url.path)
            derived.stream = False
        if timeout != self.timeout:
            derived.options.timeout = self.lib.Timeout(**{**_NO_TIMEOUT, **(timeout or {})})
        return derived

    def take(self, sent: Any, answered: Any) -> Any:
        """Takes what the SDK made of the response to `sent`. Returns the response itself."""
        if sent is self.carrier:
            self.last = answered
        return answered.http_response

    def finish(self, kind: str, response: Any) -> Any:
        """Returns the SDK's wrapper around the response that the caller gets."""
        if self.last is not None:
            self.last.http_response = response
            return self.last
        wrapper = getattr(importlib.import_module("anthropic"), kind)
        return wrapper(
            raw=response,
            client=self.client,
            cast_to=self.request.cast_to,
            stream=self.request.stream,
            stream_cls=self.request.stream_cls,
            options=self.request.options,
            retries_taken=self.request.retries_taken,
        )


_NO_TIMEOUT = {"connect": None, "read": None, "write": None, "pool": None}


def _find_client(call_next: Any) -> Any:
    """Returns the client whose attempt a chain of middleware ends in; None if it is not found."""
    for _ in range(100):
        code, cells = getattr(call_next, "__code__", None), getattr(call_next, "__closure__", None)
        if code is None or cells is None:
            return None
        held = dict(zip(code.co_freevars, cells))
        if "self" in held:
            return held["self"].cell_contents
        if "call_next" not in held:
            return None
        call_next = held["call_next"].cell_contents
    return None


def _dump(value: Any) -> bytes:
    """Returns a body as the SDK writes it."""
    try:
        written: bytes = importlib.import_module("anthropic._utils._json").openapi_dumps(value)
    except (ImportError, AttributeError):
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return written


def make_middleware(policy: Policy) -> Any:
    """Returns the middleware, for sync and async clients."""
    try:
        sdk: Any = importlib.import_module("anthropic")
    except ModuleNotFoundError:
        raise ImportError("anthropic_middleware() needs the package anthropic") from None
    if not hasattr(sdk, "Middleware"):
        raise ImportError(f"anthropic {sdk.__version__} has no middleware: a newer one is needed")
    lib = find_library(sdk.DefaultHttpxClient)
    process.has_clients = True

    def begin(request: Any, call_next: Any) -> tuple[Attempt | None, Policy]:
        chosen = _route.choose_policy(policy) or policy
        attempt = Attempt(lib, request, call_next)
        if not attempt.is_turn():
            return None, chosen
        if attempt.is_framed():
            what = "a stream of Bedrock within the Anthropic SDK"
            _route.count_ungoverned(chosen, what, policy)
            return None, chosen
        return attempt, chosen

    class GovernedMiddleware(sdk.Middleware):  # type: ignore[misc]
        """Governs the requests of one client of the Anthropic SDK."""

        def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            attempt, chosen = begin(request, call_next)
            if attempt is None:
                return call_next(request)

            def send(sent: Any) -> Any:
                return attempt.take(sent, call_next(attempt.derive(sent)))

            made = _http.run_sync(lib, chosen, policy, attempt.carrier, attempt.body, send)
            return attempt.finish("APIResponse", made)

        async def handle_async(
            self, request: Any, call_next: Callable[[Any], Awaitable[Any]]
        ) -> Any:
            attempt, chosen = begin(request, call_next)
            if attempt is None:
                return await call_next(request)

            async def send(sent: Any) -> Any:
                return attempt.take(sent, await call_next(attempt.derive(sent)))

            made = await _http.run_async(lib, chosen, policy, attempt.carrier, attempt.body, send)
            return attempt.finish("AsyncAPIResponse", made)

    return GovernedMiddleware()
