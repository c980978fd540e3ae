"""Governs requests of aiohttp. On their way they have the shape of httpx2 or httpx, of which one has
to be installed; the client gets responses of aiohttp.
"""

from __future__ import annotations

import asyncio
import http
import importlib
import importlib.util
from typing import Any, Awaitable, Callable

from . import _http, _others, _route
from ._state import Policy, inside

# Arguments that carry a body. Those but `json` and plain `data` are not read here.
_BODIES = ("json", "data", "compress", "chunked")
# Headers that belong to a body as it came.
_OF_BODY = ("content-encoding", "content-length", "transfer-encoding")

_Send = Callable[..., Awaitable[Any]]


def hook_aiohttp(lib: Any) -> Callable[[], None]:
    """Hooks the one method that all requests of aiohttp go through."""
    session = lib.ClientSession
    plain = session._request

    async def send(self: Any, method: str, str_or_url: Any, **more: Any) -> Any:
        request = _Request(self, method.upper(), str_or_url, more)
        policy = None if inside.get() else _route.choose_policy(None)
        way = _route.PASS if policy is None else request.choose_way(policy)
        if policy is None or way == _route.PASS:
            return await plain(self, method, str_or_url, **more)
        if way == _route.GOVERN and request.body is not None and _library() is not None:
            return await request.govern(lib, policy, plain)
        _others.check(_explain(way, request), request.method, str(request.url))
        return await plain(self, method, str_or_url, **more)

    session._request = send

    def undo() -> None:
        if session._request is send:
            session._request = plain

    return undo


def _explain(way: str | None, request: _Request) -> str:
    """Returns the reason for which a request of aiohttp is not governed."""
    if way == _route.GOVERN and _library() is None:
        return "requests of aiohttp are governed where httpx2 or httpx is installed"
    if way == _route.GOVERN:
        return "this body of aiohttp is a stream, a form or compressed; json= and plain data= are read"
    return "requests of aiohttp are not governed there"


def _library() -> Any:
    """Returns httpx2 or httpx; None if neither is installed."""
    for name in ("httpx2", "httpx"):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    return None


class _Request:
    """A request of aiohttp."""

    def __init__(self, session: Any, method: str, str_or_url: Any, more: dict[str, Any]) -> None:
        self.session, self.method, self.more = session, method, more
        self.url_given = str_or_url
        url = session._build_url(str_or_url)
        params = more.get("params")
        self.url = url.update_query(params) if params else url

    def choose_way(self, policy: Policy) -> str | None:
        host, url = (self.url.host or "").lower(), self.url
        return _route.choose_way(None, policy, self.method, host, url.port, url.path)

    @property
    def body(self) -> bytes | None:
        """The body; None if it is not one text."""
        more = self.more
        if more.get("compress") or more.get("chunked"):
            return None
        if more.get("json") is not None:
            written = self.session._json_serialize(more["json"])
            return written if isinstance(written, bytes) else str(written).encode()
        data = more.get("data")
        if isinstance(data, str):
            return data.encode()
        return bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else None

    def _headers(self) -> dict[str, str]:
        """Returns the headers that the client has set, for this request or for all."""
        merged = self.session._prepare_headers(self.more.get("headers"))
        return {str(name): str(value) for name, value in merged.items()}

    async def govern(self, lib: Any, policy: Policy, plain: _Send) -> Any:
        """Sends the request governed. Returns the client's response."""
        httpx = _library()
        body, headers = self.body or b"", self._headers()
        headers.setdefault("content-type", "application/json")
        carrier = httpx.Request("POST", str(self.url), headers=headers, content=body)
        last: list[Any] = []

        async def send(sent: Any) -> Any:
            content = b"".join(sent.stream)
            left = sent.extensions.get("timeout")
            more, url = self.more, self.url_given
            if sent is not carrier or content != body or left or _names_run(headers):
                more, url = self._derive(lib, sent, content, left), str(sent.url)
            try:
                response = await plain(self.session, "POST", url, **more)
            except asyncio.TimeoutError as error:
                if isinstance(error, getattr(lib, "ConnectionTimeoutError", ())):
                    raise
                # The provider has the request.
                raise httpx.ReadTimeout(str(error)) from error
            last.append(response)
            return _to_httpx(httpx, sent, response, self._decodes())

        try:
            made = await _http.run_async(httpx, policy, None, carrier, body, send)
        except httpx.ReadTimeout as late:
            raise (late.__cause__ or late) from None
        return _make_response(lib, self, made, last[-1] if last else None)

    def _decodes(self) -> bool:
        wanted = self.more.get("auto_decompress")
        return bool(self.session._auto_decompress if wanted is None else wanted)

    def _derive(
        self, lib: Any, sent: Any, content: bytes, left: dict[str, float] | None
    ) -> dict[str, Any]:
        """Returns the arguments of a request of softland's."""
        dropped = (*_BODIES, "params", "headers", "timeout")
        more = {name: value for name, value in self.more.items() if name not in dropped}
        if "timeout" in self.more:
            more["timeout"] = self.more["timeout"]
        if left:
            more["timeout"] = lib.ClientTimeout(total=left["read"])
        headers = sent.headers.items()
        more["headers"] = {name: value for name, value in headers if name not in (*_OF_BODY, "host")}
        more["data"] = content
        return more


def _names_run(headers: dict[str, str]) -> bool:
    return any(name.lower().startswith(_http.PREFIX) for name in headers)


def _to_httpx(httpx: Any, sent: Any, response: Any, decodes: bool) -> Any:
    """Returns a response of aiohttp in the shape of httpx."""

    class Pieces(httpx.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> Any:
            async for piece in response.content.iter_any():
                yield piece

        async def aclose(self) -> None:
            response.close()

    dropped = _OF_BODY if decodes else ("content-length", "transfer-encoding")
    headers = [
        (name, value) for name, value in response.headers.items() if name.lower() not in dropped
    ]
    return httpx.Response(response.status, headers=headers, stream=Pieces(), request=sent)


def _make_response(lib: Any, request: _Request, made: Any, upstream: Any) -> Any:
    """Returns the client's response, of aiohttp."""
    protocols: Any = importlib.import_module("aiohttp.base_protocol")
    streams: Any = importlib.import_module("aiohttp.streams")
    multidict: Any = importlib.import_module("multidict")
    loop = asyncio.get_running_loop()

    class Protocol(protocols.BaseProtocol):  # type: ignore[misc]
        """No connection: pieces come when they are asked for."""

        connected = True

        def pause_reading(self, *_: Any) -> None: ...
        def resume_reading(self, *_: Any, **__: Any) -> None: ...

    class Reader(streams.StreamReader):  # type: ignore[misc]
        """A body that is made while it is read."""

        pieces: Any = None

        async def _wait(self, func_name: str) -> None:
            try:
                piece = await anext(self.pieces, None)
            except (asyncio.TimeoutError, lib.ClientError, OSError):
                raise
            except Exception as error:
                raise lib.ClientPayloadError(str(error)) from error
            if piece is None:
                self.feed_eof()
            else:
                self.feed_data(piece)

    class GovernedResponse(lib.ClientResponse):  # type: ignore[misc]
        """A response whose body softland has made or passed on."""

        def __init__(self) -> None:
            self.method, self._loop = request.method, loop
            self._real_url = self._url = request.url
            self._cache: dict[str, Any] = {}
            self._traces: list[Any] = []
            self._timer = None
            self.version = getattr(upstream, "version", None)
            self._history = getattr(upstream, "_history", ())
            self.status = made.status_code
            self.reason = getattr(upstream, "reason", None) or _phrase(self.status)
            pairs = [(name, value) for name, value in made.headers.multi_items() if name not in _OF_BODY]
            self._headers = multidict.CIMultiDictProxy(multidict.CIMultiDict(pairs))
            self._raw_headers = tuple((name.encode(), value.encode()) for name, value in pairs)
            info = lib.RequestInfo(request.url, request.method, self._headers, request.url)
            self._request_info = getattr(upstream, "request_info", info)
            self.content = Reader(Protocol(loop), 2**16, loop=loop)
            if made.is_stream_consumed or made.is_closed:
                self.content.feed_data(made.content)
                self.content.feed_eof()
            else:
                self.content.pieces = made.stream.__aiter__()

        def _give_up(self) -> None:
            if not made.is_closed and hasattr(made.stream, "abandon"):
                made.stream.abandon()
            if upstream is not None:
                upstream.close()

        def close(self) -> None:
            super().close()
            self._give_up()

        def release(self) -> Any:
            self._give_up()
            return super().release()

        def __del__(self, *_: Any) -> None: ...

    return GovernedResponse()


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""
