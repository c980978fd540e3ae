"""What lies between the SDK and the wire: encodings, lengths, timeouts, and streams that are read slowly."""

import gzip

import httpx2
import pytest
from loops import Loop, clients, run_loop

import softland

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}


class Packed(httpx2.HTTPTransport):
    """Packs responses as servers do that are asked for gzip."""

    def handle_request(self, request):
        assert "gzip" in request.headers["accept-encoding"]
        response = super().handle_request(request)
        response.read()
        headers = dict(response.headers)
        for name in ("content-length", "transfer-encoding"):
            headers.pop(name, None)
        packed = httpx2.ByteStream(gzip.compress(response.content))
        return httpx2.Response(response.status_code, headers={**headers, "content-encoding": "gzip"}, stream=packed)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", ["anthropic", "chat", "responses"])
def test_a_packed_response_is_governed(sim, protocol, stream):
    server = sim("stubborn")
    softland.install(hosts=[server.host], **LIMITS)
    client = clients(protocol, server.url, httpx2.Client(transport=Packed()))
    with softland.run() as run:
        answer, calls = run_loop(client, protocol, stream=stream)
    assert calls == 4 and answer.strip() and run.outcome == "landed"


class Noting(httpx2.HTTPTransport):
    """Notes of each request its length, by its header and in truth, and its timeouts."""

    def __init__(self):
        super().__init__()
        self.lengths, self.timeouts = [], []

    def handle_request(self, request):
        body = b"".join(request.stream)
        self.lengths.append((int(request.headers["content-length"]), len(body)))
        self.timeouts.append(request.extensions["timeout"])
        return super().handle_request(request)


def test_lengths_are_those_of_what_is_sent_and_timeouts_the_clients(sim):
    server, noting = sim("stubborn"), Noting()
    softland.install(hosts=[server.host], **LIMITS)
    http = httpx2.Client(transport=noting)
    client = clients("anthropic", server.url, http, timeout=httpx2.Timeout(31, connect=7))
    run_loop(client, "anthropic")
    assert len(noting.lengths) == 7 and all(told == sent for told, sent in noting.lengths)
    wanted = {"connect": 7, "read": 31, "write": 31, "pool": 31}
    assert all(timeout == wanted for timeout in noting.timeouts)


class Slow(httpx2.BaseTransport):
    """A provider whose stream says how far it was read."""

    EVENTS = 500

    def __init__(self):
        self.given = 0

    def handle_request(self, request):
        request.read()
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Events(self))


class _Events(httpx2.SyncByteStream):
    def __init__(self, provider):
        self.provider = provider

    def __iter__(self):
        said = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-5.2","choices":[%s]}'
        for _ in range(self.provider.EVENTS):
            self.provider.given += 1
            choice = '{"index":0,"delta":{"content":"word "},"finish_reason":null}'
            yield f"data: {said % choice}\n\n".encode()
        end = '{"index":0,"delta":{},"finish_reason":"stop"}'
        yield f"data: {said % end}\n\n".encode()
        yield b"data: [DONE]\n\n"


def test_a_stream_is_read_no_faster_than_the_client_reads_it():
    provider = Slow()
    softland.install(tool_calls_limit=9)
    http = httpx2.Client(transport=provider)
    client = clients("chat", "https://api.openai.com", http)
    asked = Loop("chat").request()
    with client.chat.completions.create(stream=True, **asked) as events:
        first = next(iter(events))
        assert first.choices[0].delta.content == "word "
        assert provider.given < 10, "the rest waits at the provider"
        rest = sum(1 for _ in events)
    assert provider.given == provider.EVENTS and rest == provider.EVENTS
