"""Governs one request of httpx or httpx2, which have the same shape.

The client's own request is edited in place and given back as it was, and the transport's response
is kept where its bytes did not change: both are a third cheaper than new ones.
"""

from __future__ import annotations

import datetime
import importlib
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator

from . import _native, _route
from ._errors import make_error
from ._state import Policy, deliver_events, failed, find_run, inside, process
from ._steps import ANSWER, END, GIVE, HEAD, READ, SEND, WAIT

# Set in `request.extensions` of a request that is governed already, further out.
MARK = "softland"
# Headers of a body that is made anew.
_OF_BODY = (b"content-encoding", b"content-length", b"transfer-encoding")
PREFIX = "x-softland-"
_PREFIX = PREFIX.encode()
_SESSION = b"x-softland-session"
# Seconds between two looks at a request that waits, the first and the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.05
# Seconds behind a run's deadline at which a read gives up.
_BEHIND = 0.02


class _Exchange:
    """One request on its way: what the sync and the async driver share."""

    def __init__(self, lib: Any, policy: Policy, own: Policy | None, request: Any) -> None:
        self.lib = lib
        self.policy = policy
        self.own = own
        self.request = request
        self.call: Any = None
        self.error: BaseException | None = None
        self.kept = (request.stream, request.extensions)
        self.headers = list(request.headers.raw)
        self.body = b""
        self.begun = False

    def begin(self, body: bytes, waits: bool) -> tuple[Any, ...]:
        """Begins the call. Returns its first step."""
        url, run, self.body = self.request.url, find_run(), body
        around = _route.policies_around(self.own)
        limits = [(name, None if one is None else one.settings) for name, one in around]
        named = None if run is None else (run.id, limits)
        query = url.query.decode("ascii") or None
        headers = self.headers
        if run is not None and run.session is not None:
            headers = [pair for pair in headers if pair[0].lower() != _SESSION]
            headers.append((_SESSION, run.session.encode("ascii")))
        about = (_address(url), url.path, query, headers, body)
        self.call, step = process.govern().begin(self.policy.settings, about, named, waits)
        process.keep_call(self.call)
        return step

    def prepare(self, step: tuple[Any, ...]) -> Any:
        """Returns the request that a step wants sent."""
        _, body, path, left = step
        request, self.begun = self.request, True
        timeout = dict(request.extensions.get("timeout", {}))
        if left is not None:
            for name in ("connect", "read", "write", "pool"):
                known = timeout.get(name)
                timeout[name] = left + _BEHIND if known is None else min(known, left + _BEHIND)
        if path.partition("?")[0] != _native.find_endpoint(request.url.path):
            return self._other(path, body, timeout)
        headers = request.headers
        for name, _ in self.headers:
            if name.lower().startswith(_PREFIX):
                headers.pop(name.decode("latin-1"), None)
        # Some transports read the stream, others `request.content`, which is kept here.
        request.stream, request._content = self.lib.ByteStream(body), body
        headers.pop("transfer-encoding", None)
        headers["content-length"] = str(len(body))
        request.extensions = {**request.extensions, "timeout": timeout, MARK: True}
        return request

    def _other(self, path: str, body: bytes, timeout: dict[str, Any]) -> Any:
        """Returns a request for another endpoint of the same provider: a token count."""
        url = self.request.url
        known = _native.find_endpoint(url.path) or ""
        # What stands in front of the endpoint's own path.
        short = known if url.path.endswith(known) else known.removeprefix("/v1")
        front = url.path[: len(url.path) - len(short)]
        wanted = path if short == known else path.removeprefix("/v1")
        target = url.copy_with(raw_path=(front + wanted).encode("ascii"))
        headers = [
            (name, value)
            for name, value in self.headers
            if name.lower() not in _OF_BODY and not name.lower().startswith(_PREFIX)
        ]
        extensions = {**self.request.extensions, "timeout": timeout, MARK: True}
        return self.lib.Request(
            "POST", target, headers=headers, content=body, extensions=extensions
        )

    def give_back(self) -> None:
        """Gives the client's request back as it was."""
        request = self.request
        request.stream, request.extensions = self.kept
        request._content = self.body
        request.headers = self.lib.Headers(self.headers)

    def close(self) -> None:
        """Gives the call up, if it has not ended."""
        if self.call is not None:
            self.call.close()
        deliver_events()

    def answer(self, step: tuple[Any, ...], response: Any) -> Any:
        """Returns the client's response for a whole answer."""
        _, status, headers, body, is_failure = step
        self.give_back()
        deliver_events()
        if is_failure and self.error is not None:
            raise self.error
        if response is not None and response.status_code == status and response.content == body:
            _add_own(response, headers)
            return response
        made = self.lib.Response(
            status,
            headers=[pair for pair in headers if pair[0] not in _OF_BODY],
            content=body,
            request=self.request,
            extensions={} if response is None else _known(response.extensions),
        )
        made.elapsed = _elapsed(response)
        return made

    def stream(self, step: tuple[Any, ...], response: Any, stream: Any) -> Any:
        """Returns the client's response for a stream."""
        _, status, headers = step
        self.give_back()
        if response is not None and response.status_code == status and not _is_packed(response):
            response.stream = stream
            response.headers.pop("content-length", None)
            _add_own(response, headers)
            return response
        return self.lib.Response(
            status,
            headers=[pair for pair in headers if pair[0] not in _OF_BODY],
            stream=stream,
            request=self.request,
            extensions={} if response is None else _known(response.extensions),
        )

    def broken(self) -> BaseException:
        """Returns the exception of a stream that has broken off."""
        if self.error is not None:
            return self.error
        error: BaseException = self.lib.RemoteProtocolError(
            "the response broke off", request=self.request
        )
        return error


def _known(extensions: dict[str, Any]) -> dict[str, Any]:
    """Returns the extensions of a response that do not belong to its connection's stream."""
    return {name: value for name, value in extensions.items() if name != "network_stream"}


def _elapsed(response: Any) -> datetime.timedelta:
    """Returns how long a response took; a transport does not know that."""
    try:
        known: datetime.timedelta = response.elapsed
    except (AttributeError, RuntimeError):
        known = datetime.timedelta(0)
    return known


def _add_own(response: Any, headers: list[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        if name.startswith(_PREFIX):
            response.headers[name.decode("latin-1")] = value.decode("latin-1")


def _address(url: Any) -> str:
    return _route.write_address(url.host, _port(url))


def _port(url: Any) -> int | None:
    return _route.find_port(url.scheme, url.port)


def _is_packed(response: Any) -> bool:
    return "content-encoding" in response.headers


def _is_stream(response: Any) -> bool:
    kind = response.headers.get("content-type", "")
    return bool(response.is_success) and kind.lower().startswith("text/event-stream")


def _plain(response: Any) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a response whose body is decoded."""
    raw = ((name.lower(), value) for name, value in response.headers.raw)
    return [pair for pair in raw if pair[0] not in _OF_BODY]


def _is_late(lib: Any, error: BaseException) -> bool:
    # An SDK's own error names the library's as its cause.
    return isinstance(error, lib.ReadTimeout) or isinstance(error.__cause__, lib.ReadTimeout)


def _tell(error: BaseException) -> str:
    """Returns what an exception says, without an address that may have a credential in it."""
    return f"{type(error).__name__}: {error}"[:300]


# --- without await


def govern_sync(lib: Any, own: Policy | None, request: Any, send: Callable[[Any], Any]) -> Any:
    """Sends a request by `send`, governed if it is to be."""
    is_known = MARK in request.extensions or inside.get()
    policy = None if is_known else _route.choose_policy(own)
    if policy is None:
        return send(request)
    url = request.url
    way = _route.choose_way(own, policy, request.method, url.host, _port(url), url.path)
    if way == _route.PASS:
        return send(request)
    body = request.read()
    if way == _route.GOVERN:
        return run_sync(lib, policy, own, request, body, send)
    send = _marked_sync(send)
    if way is None:
        _route.check_unknown(policy, own, url.host, _port(url), url.path, body)
    else:
        _name_run(request)
    response = send(request)
    _note_gateway(url, response)
    return response


def _marked_sync(send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns `send`, within which no request is looked at once more."""

    def marked(request: Any) -> Any:
        token = inside.set(True)
        try:
            return send(request)
        finally:
            inside.reset(token)

    return marked


def run_sync(
    lib: Any,
    policy: Policy,
    own: Policy | None,
    request: Any,
    body: bytes,
    send: Callable[[Any], Any],
) -> Any:
    """Governs a request to a provider, which is sent by `send`, maybe more than once.

    `own` is the policy of its client, which the runs around the open run have, too.
    """
    send = _marked_sync(send)
    refusal = _refuse(lib, policy, own, request)
    if refusal is not None:
        return refusal
    if _native.find_endpoint(request.url.path) is None:
        return send(request)
    exchange = _Exchange(lib, policy, own, request)
    try:
        step = exchange.begin(body, True)
    except Exception as error:
        return _pass_or_raise(exchange, error, request, send)
    response = None
    try:
        while True:
            kind = step[0]
            if kind == SEND:
                try:
                    response = send(exchange.prepare(step))
                    streams = _is_stream(response)
                    whole = None if streams else response.read()
                except Exception as error:
                    exchange.error = error
                    step = exchange.call.fail(_tell(error), _is_late(lib, error), True)
                    continue
                exchange.error = None
                _note_gateway(request.url, response)
                headers = _plain(response)
                step = exchange.call.respond(response.status_code, headers, whole, True)
            elif kind == HEAD:
                return exchange.stream(step, response, _sync_stream(exchange, response, send))
            elif kind == ANSWER:
                return exchange.answer(step, response)
            else:
                raise RuntimeError(f"a step of kind {kind} has no place before the response")
    except BaseException:
        exchange.give_back()
        exchange.close()
        raise


def _pass_or_raise(
    exchange: _Exchange, error: Exception, request: Any, send: Callable[[Any], Any]
) -> Any:
    exchange.give_back()
    exchange.close()
    told = failed(_route.raises(exchange.policy, exchange.own), error)
    if told is not None:
        raise told from error
    return send(request)


def _sync_stream(exchange: _Exchange, response: Any, send: Callable[[Any], Any]) -> Any:
    lib = exchange.lib

    class GovernedStream(lib.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.source = _Source(response)

        def __iter__(self) -> Iterator[bytes]:
            return _relay_sync(exchange, self, send)

        def close(self) -> None:
            self.source.close()
            exchange.close()

    return GovernedStream()


class _Source:
    """The bytes of an upstream's stream, decoded. There are none while a request waits for money."""

    def __init__(self, response: Any) -> None:
        # The stream before the client's response got another one.
        self.stream: Any = None if response is None else response.stream
        self.pieces: Iterator[bytes] = iter(())
        if response is not None:
            pieces: Any = response.iter_bytes() if _is_packed(response) else self.stream
            self.pieces = iter(pieces)

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()


def _relay_sync(exchange: _Exchange, stream: Any, send: Callable[[Any], Any]) -> Iterator[bytes]:
    call = exchange.call
    step = call.advance(True)
    while True:
        kind = step[0]
        if kind == READ:
            if step[1]:
                deliver_events()
                yield step[1]
            try:
                piece = next(stream.source.pieces, None)
            except Exception as error:
                exchange.error = error
                step = call.fail(_tell(error), _is_late(exchange.lib, error), True)
                continue
            step = call.finish(True) if piece is None else call.push(piece, True)
        elif kind == SEND:
            stream.source.close()
            try:
                response = send(exchange.prepare(step))
                streams = _is_stream(response)
                whole = None if streams else response.read()
            except Exception as error:
                exchange.error = error
                step = call.fail(_tell(error), _is_late(exchange.lib, error), True)
                continue
            finally:
                exchange.give_back()
            exchange.error = None
            stream.source = _Source(response) if streams else stream.source
            step = call.respond(response.status_code, _plain(response), whole, True)
        elif kind == GIVE:
            yield step[1]
            step = call.advance(True)
        elif kind == END:
            deliver_events()
            if step[1]:
                yield step[1]
            if step[2]:
                raise exchange.broken()
            return
        else:
            raise RuntimeError(f"a step of kind {kind} has no place in a stream")


# --- with await


async def govern_async(
    lib: Any, own: Policy | None, request: Any, send: Callable[[Any], Awaitable[Any]]
) -> Any:
    """Sends a request by `send`, governed if it is to be."""
    is_known = MARK in request.extensions or inside.get()
    policy = None if is_known else _route.choose_policy(own)
    if policy is None:
        return await send(request)
    url = request.url
    way = _route.choose_way(own, policy, request.method, url.host, _port(url), url.path)
    if way == _route.PASS:
        return await send(request)
    body = await request.aread()
    if way == _route.GOVERN:
        return await run_async(lib, policy, own, request, body, send)
    send = _marked_async(send)
    if way is None:
        _route.check_unknown(policy, own, url.host, _port(url), url.path, body)
    else:
        _name_run(request)
    response = await send(request)
    _note_gateway(url, response)
    return response


def _marked_async(send: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Returns `send`, within which no request is looked at once more."""

    async def marked(request: Any) -> Any:
        token = inside.set(True)
        try:
            return await send(request)
        finally:
            inside.reset(token)

    return marked


async def run_async(
    lib: Any,
    policy: Policy,
    own: Policy | None,
    request: Any,
    body: bytes,
    send: Callable[[Any], Awaitable[Any]],
) -> Any:
    """Governs a request to a provider, which is sent by `send`, maybe more than once."""
    send = _marked_async(send)
    refusal = _refuse(lib, policy, own, request)
    if refusal is not None:
        return refusal
    if _native.find_endpoint(request.url.path) is None:
        return await send(request)
    exchange = _Exchange(lib, policy, own, request)
    try:
        step = exchange.begin(body, False)
    except Exception as error:
        exchange.give_back()
        exchange.close()
        told = failed(_route.raises(exchange.policy, exchange.own), error)
        if told is not None:
            raise told from error
        return await send(request)
    response, waited = None, _FIRST_WAIT
    try:
        while True:
            kind = step[0]
            if kind == WAIT:
                waited = await _wait(waited)
                step = exchange.call.advance(False)
                continue
            waited = _FIRST_WAIT
            if kind == SEND:
                try:
                    response = await send(exchange.prepare(step))
                    streams = _is_stream(response)
                    whole = None if streams else await response.aread()
                except Exception as error:
                    exchange.error = error
                    step = exchange.call.fail(_tell(error), _is_late(lib, error), False)
                    continue
                exchange.error = None
                _note_gateway(request.url, response)
                headers = _plain(response)
                step = exchange.call.respond(response.status_code, headers, whole, False)
            elif kind == HEAD:
                return exchange.stream(step, response, _async_stream(exchange, response, send))
            elif kind == ANSWER:
                return exchange.answer(step, response)
            else:
                raise RuntimeError(f"a step of kind {kind} has no place before the response")
    except BaseException:
        exchange.give_back()
        exchange.close()
        raise


async def _wait(seconds: float) -> float:
    """Waits a while. Returns how long to wait the next time."""
    anyio: Any = importlib.import_module("anyio")
    await anyio.sleep(seconds)
    return min(seconds * 2, _LONGEST_WAIT)


def _async_stream(exchange: _Exchange, response: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
    lib = exchange.lib

    class GovernedStream(lib.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.source = _AsyncSource(response)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return _relay_async(exchange, self, send)

        async def aclose(self) -> None:
            exchange.close()
            await self.source.aclose()

        def abandon(self) -> None:
            """Gives the call up, where nothing can be awaited."""
            exchange.close()

    return GovernedStream()


class _AsyncSource:
    """The bytes of an upstream's stream, decoded. There are none while a request waits for money."""

    def __init__(self, response: Any) -> None:
        self.stream: Any = None if response is None else response.stream
        self.pieces: Any = None
        if response is not None:
            pieces: Any = response.aiter_bytes() if _is_packed(response) else self.stream
            self.pieces = pieces.__aiter__()

    async def aclose(self) -> None:
        if self.stream is not None:
            await self.stream.aclose()


async def _relay_async(
    exchange: _Exchange, stream: Any, send: Callable[[Any], Awaitable[Any]]
) -> AsyncIterator[bytes]:
    call, waited = exchange.call, _FIRST_WAIT
    step = call.advance(False)
    while True:
        kind = step[0]
        if kind == WAIT:
            waited = await _wait(waited)
            step = call.advance(False)
            continue
        waited = _FIRST_WAIT
        if kind == READ:
            if step[1]:
                deliver_events()
                yield step[1]
            try:
                piece = await anext(stream.source.pieces, None)
            except Exception as error:
                exchange.error = error
                step = call.fail(_tell(error), _is_late(exchange.lib, error), False)
                continue
            step = call.finish(False) if piece is None else call.push(piece, False)
        elif kind == SEND:
            await stream.source.aclose()
            try:
                response = await send(exchange.prepare(step))
                streams = _is_stream(response)
                whole = None if streams else await response.aread()
            except Exception as error:
                exchange.error = error
                step = call.fail(_tell(error), _is_late(exchange.lib, error), False)
                continue
            finally:
                exchange.give_back()
            exchange.error = None
            stream.source = _AsyncSource(response) if streams else stream.source
            step = call.respond(response.status_code, _plain(response), whole, False)
        elif kind == GIVE:
            yield step[1]
            step = call.advance(False)
        elif kind == END:
            deliver_events()
            if step[1]:
                yield step[1]
            if step[2]:
                raise exchange.broken()
            return
        else:
            raise RuntimeError(f"a step of kind {kind} has no place in a stream")


# --- shared


def _refuse(lib: Any, policy: Policy, own: Policy | None, request: Any) -> Any:
    """Returns the refusal of a request that cannot be governed while a limit holds, if it is one."""
    url = request.url
    if _native.find_endpoint(url.path) is not None:
        encoding = request.headers.get("content-encoding")
        if encoding is not None and _route.raises(policy, own):
            raise make_error(f"a limit holds, and the body is {encoding}, which is not read here")
        return None
    headers = list(request.headers.raw)
    settings = _route.find_money_limit(policy, own).settings
    refusal = process.govern().refuse_unmetered(settings, _address(url), url.path, headers)
    if refusal is None:
        return None
    status, headers, body = refusal
    made = lib.Response(status, headers=headers, content=body, request=request)
    made.elapsed = datetime.timedelta(0)
    return made


def _name_run(request: Any) -> None:
    """Names the open run, and as its session the outermost run around it, to a gateway."""
    run = find_run()
    if run is None:
        return
    outermost = run.around[-1].id if run.around else run.id
    session = outermost if run.session is None else run.session
    for name, value in (("x-softland-run", run.id), ("x-softland-session", session)):
        request.headers.setdefault(name, value)


def _note_gateway(url: Any, response: Any) -> None:
    if "x-softland-run" in response.headers:
        _route.note_gateway(url.host, _port(url))
