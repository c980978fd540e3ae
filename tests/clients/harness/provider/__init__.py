"""A lenient provider for long runs, on loopback: asks for one call after the other, whatever was said
to it, reports as many tokens as makes a client compact, and answers a request for a summary with one.

`softland sim` plays a scenario by what a conversation shows, so that it begins again behind a summary.
This one counts for itself: it asks for each call once, and for no call beyond the last."""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .. import messages, protocols, scenarios, tap
from . import anthropic, chat, responses

WIRES = {protocols.anthropic: anthropic, protocols.chat: chat, protocols.responses: responses}
# Said before each call, so that histories grow.
WORDS = "I look at the next part of the work, compare it with what I have seen, and go on. "
SUMMARY = "The steps were taken one after the other as they were asked for, and more of them remain. "
# What clients that keep their tools declared say at the end of a request for a summary.
WANTS_SUMMARY = re.compile(
    r"summar(y|i[sz]e)|\bcompact(ion|ed|ing)?\b|\bhandoff\b|context checkpoint", re.IGNORECASE
)


@dataclass
class Turn:
    """What the model says: text, then perhaps a call."""

    text: str
    # `(tool, arguments)`; arguments that are a text are those of a tool without a schema.
    calls: list = field(default_factory=list)


class Provider:
    """Listens on a free port of loopback; stopped when the `with` block ends."""

    def __init__(self, client, steps):
        self._client = client
        self._steps = steps
        self._lock = threading.Lock()
        # How many calls were asked for, responses given, and summaries given once work had begun.
        self.asked = 0
        self.given = 0
        self.summaries = 0
        # Whether it was told that the limit is reached.
        self.landed = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next(self, protocol, request):
        """The model's turn for this request and a number that no other has."""
        with self._lock:
            self.given += 1
            return self._turn(protocol, request), self.given

    def tokens(self, body):
        """A token for four bytes, times what the client needs to find its context full."""
        return len(body) // 4 * self._client.fills

    def _turn(self, protocol, request):
        conversation = protocol.conversation(request)
        if messages.ASK.search(json.dumps(conversation[-3:], ensure_ascii=False)):
            self.landed = True
            return self._answer(scenarios.LANDED)
        if not messages.has_tools(request) or _wants_summary(conversation):
            self.summaries += bool(self.asked)
            return Turn(f"<summary>{self.given}. {SUMMARY * 8}</summary>")
        if WIRES[protocol].forbids_calls(request):
            return self._answer(scenarios.LANDED)
        if self.asked == self._steps:
            return self._answer(scenarios.ANSWER)
        self.asked += 1
        said = WORDS * self._client.words
        return Turn(f"Step {self.asked}. {said}", [self._client.call(self.asked)])

    def _answer(self, text):
        if not self._client.answers_by:
            return Turn(text)
        tool, key = self._client.answers_by
        return Turn("That is all.", [(tool, {key: text})])


def _wants_summary(conversation):
    """By its last text from the user; a history that was compacted holds the summary that it was given."""
    said = _last_text(conversation[-1]) if conversation else ""
    return SUMMARY not in said and bool(WANTS_SUMMARY.search(said))


def _last_text(message):
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return content[-1].get("text", "") if content else ""


def _handler(provider):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_GET(self):
            model = {"id": "gpt-4.1", "object": "model", "created": 1, "owned_by": "nobody"}
            self._json(200, {"object": "list", "data": [model]})

        def do_POST(self):
            body = tap.read_body(self)
            protocol = protocols.BY_PATH.get(self.path.split("?")[0])
            if protocol is None:
                error = {"message": f"nothing is at {self.path}", "type": "not_found_error"}
                self._json(404, {"error": error})
                return
            request = json.loads(body)
            turn, number = provider.next(protocol, request)
            given = WIRES[protocol].Response(turn, number, request, provider.tokens(body))
            if request.get("stream"):
                self._stream(given.events())
            else:
                self._json(200, given.whole())

        def _json(self, status, value):
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, events):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in events:
                piece = event.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

    return Handler
