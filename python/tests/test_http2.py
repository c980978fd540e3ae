"""HTTP/2: requests that are governed on a connection that they share, and streams that come as they are sent."""

import asyncio
import functools
import http.client
import socket
import ssl
import threading
import zlib

import httpx
import httpx2
import pytest
import trustme
from hypercorn.asyncio import serve
from hypercorn.config import Config
from loops import Loop, clients, run_loop, run_loop_async

import softland

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
# What a proxy passes on of a response's headers.
HEADERS = ("content-type", "request-id", "x-request-id", "retry-after")


class Server:
    """An HTTP/2 server with TLS, in a thread, which packs what it answers if it is asked to."""

    def __init__(self, app):
        authority = trustme.CA()
        self.trusted = ssl.create_default_context()
        authority.configure_trust(self.trusted)
        certificate = authority.issue_cert("localhost")
        listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"localhost:{listening.getsockname()[1]}"
        self.url = f"https://{self.host}"
        config = Config()
        config.bind = [f"fd://{listening.detach()}"]
        config.create_ssl_context = lambda: _server_side(certificate)
        config.certfile = config.keyfile = "see create_ssl_context"
        config.loglevel = "CRITICAL"
        # The versions and the connections by which requests have come.
        self.came = []
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(app, config)))
        self._thread.start()
        self._is_ready.wait()

    async def _serve(self, app, config):
        async def noting(scope, receive, send):
            if scope["type"] == "http":
                self.came.append((scope["http_version"], scope["client"]))
                await app(scope, receive, send)

        over = asyncio.Event()
        self._over = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, over.set)
        self._is_ready.set()
        await serve(noting, config, shutdown_trigger=over.wait)

    def stop(self):
        self._over()
        self._thread.join()


def _server_side(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    certificate.configure_cert(context)
    return context


async def read(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def pass_on_to(provider):
    """Passes requests on to the simulator, and its answers back, packed."""

    async def app(scope, receive, send):
        body, loop = await read(receive), asyncio.get_running_loop()
        asked = {name.decode(): value.decode() for name, value in scope["headers"] if not name.startswith(b":")}
        assert int(asked["content-length"]) == len(body) and "transfer-encoding" not in asked
        connection = http.client.HTTPConnection(provider.host)
        kept = {name: asked[name] for name in asked if name not in ("host", "accept-encoding")}
        await loop.run_in_executor(None, connection.request, "POST", scope["path"], body, kept)
        answer = await loop.run_in_executor(None, connection.getresponse)
        headers = [(name.lower().encode(), value.encode()) for name, value in answer.getheaders()]
        headers = [pair for pair in headers if pair[0].decode() in HEADERS]
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [*headers, (b"content-encoding", b"gzip")],
            }
        )
        packer = zlib.compressobj(wbits=31)
        while piece := await loop.run_in_executor(None, answer.read1):
            packed = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
            await send({"type": "http.response.body", "body": packed, "more_body": True})
        await send({"type": "http.response.body", "body": packer.flush()})

    return app


@pytest.fixture
def http2():
    """Starts HTTP/2 servers: `http2(app)`."""
    started = []

    def start(app):
        started.append(Server(app))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", ["anthropic", "chat", "responses"])
def test_a_run_over_http2_lands(sim, http2, protocol, stream):
    server = http2(pass_on_to(sim("stubborn")))
    softland.install(hosts=[server.host], **LIMITS)
    with httpx2.Client(http2=True, verify=server.trusted) as client, softland.run() as run:
        answer, calls = run_loop(clients(protocol, server.url, client), protocol, stream=stream)
    assert calls == 4 and answer.strip() and (run.outcome, run.tool_calls) == ("landed", 4)
    assert len(server.came) == 7
    assert {version for version, _ in server.came} == {"2"} and len(set(server.came)) == 1


def test_runs_that_share_a_connection_are_kept_apart(sim, http2):
    server = http2(pass_on_to(sim("looper")))
    softland.install(hosts=[server.host], **LIMITS)

    async def one(client, number):
        async with softland.run(name=f"run-{number}") as run:
            await run_loop_async(client, "chat", stream=number % 2 == 0, prompt=f"What of {number}?")
        return run.outcome, run.tool_calls

    async def main():
        limits = httpx2.Limits(max_connections=1)
        async with httpx2.AsyncClient(http2=True, verify=server.trusted, limits=limits) as http:
            client = clients("chat", server.url, http, is_async=True)
            return await asyncio.gather(*(one(client, number) for number in range(6)))

    assert asyncio.run(main()) == [("landed", 4)] * 6
    assert len(set(server.came)) == 1 and server.came[0][0] == "2"


def test_a_stream_over_http2_comes_as_it_is_sent(http2):
    said = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-5.2","choices":[%s]}'
    words = [f'{{"index":0,"delta":{{"content":"{word}"}},"finish_reason":null}}' for word in ("one", "two")]
    end = '{"index":0,"delta":{},"finish_reason":"stop"}'
    has_first = threading.Event()

    async def app(scope, receive, send):
        await read(receive)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, choice in enumerate([*words, end]):
            event = f"data: {said % choice}\n\n".encode()
            await send({"type": "http.response.body", "body": event, "more_body": True})
            if number == 0:
                came = await asyncio.get_running_loop().run_in_executor(None, has_first.wait, 60)
                assert came, "the first event waits for what is not sent before it has come"
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    server = http2(app)
    softland.install(hosts=[server.host], tool_calls_limit=9)
    with httpx2.Client(http2=True, verify=server.trusted) as http:
        client = clients("chat", server.url, http, max_retries=0)
        with client.chat.completions.create(stream=True, **Loop("chat").request()) as events:
            told = []
            for event in events:
                told.append(event.choices[0].delta.content)
                has_first.set()
    assert told == ["one", "two", None] and server.came[0][0] == "2"


def test_the_older_httpx_governs_over_http2_too(sim, http2):
    server = http2(pass_on_to(sim("mute")))
    softland.install(hosts=[server.host], tool_calls_limit=0)
    with httpx.Client(http2=True, verify=server.trusted) as client, softland.run() as run:
        asked = {**Loop("anthropic").request(), "stream": True}
        headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
        answer = client.post(f"{server.url}/v1/messages", json=asked, headers=headers)
    assert "[This answer is softland's" in answer.text and run.answered_by == "local"
    assert {version for version, _ in server.came} == {"2"}
