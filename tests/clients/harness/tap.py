"""A recorder between two HTTP peers on loopback: hands every byte of every body on as it comes, and
keeps what was said. One stands before the gateway and one behind it."""

import http.client
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Meant for the next peer only (RFC 9110, 7.6.1), and the framing that follows from that.
HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
}
PIECE = 65536


@dataclass
class Exchange:
    """One request and its response."""

    method: str
    path: str
    headers: list
    body: bytes
    status: int = 0
    answer_headers: list = field(default_factory=list)
    answer: bytes = b""
    # Whether the response came to its end.
    whole: bool = False


class Tap:
    """Listens on a free port of loopback and hands on to `port`."""

    def __init__(self, port):
        self.exchanges = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, port))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(tap, port):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def handle_one_request(self):
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

        def relay(self):
            said = Exchange(self.command, self.path, self.headers.items(), _body(self))
            tap.exchanges.append(said)
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                upstream.connect()
                upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _send(upstream, said, port)
                _answer(self, upstream.getresponse(), said)
            except (OSError, http.client.HTTPException):
                # A broken response is broken for the client too; no answer of ours is invented.
                self.close_connection = True
            finally:
                upstream.close()

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = relay

    return Handler


def _body(handler):
    if "chunked" in handler.headers.get("transfer-encoding", "").lower():
        pieces = []
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            pieces.append(handler.rfile.read(size))
            handler.rfile.readline()
        while handler.rfile.readline().strip():
            pass
        return b"".join(pieces)
    return handler.rfile.read(int(handler.headers.get("content-length") or 0))


def _send(upstream, said, port):
    upstream.putrequest(said.method, said.path, skip_host=True, skip_accept_encoding=True)
    upstream.putheader("Host", f"127.0.0.1:{port}")
    for name, value in said.headers:
        if name.lower() not in HOP_BY_HOP | {"host"}:
            upstream.putheader(name, value)
    if said.body or said.method == "POST":
        upstream.putheader("Content-Length", str(len(said.body)))
    upstream.endheaders(said.body or None)


def _answer(handler, response, said):
    said.status = response.status
    said.answer_headers = response.getheaders()
    handler.send_response_only(response.status, response.reason)
    for name, value in said.answer_headers:
        if name.lower() not in HOP_BY_HOP:
            handler.send_header(name, value)
    chunked = response.chunked
    if chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    elif response.length is not None:
        handler.send_header("Content-Length", str(response.length))
    elif said.method != "HEAD":
        # Ended by its connection, so that is how it ends here too.
        handler.send_header("Connection", "close")
        handler.close_connection = True
    handler.end_headers()
    while piece := response.read1(PIECE):
        said.answer += piece
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    if chunked:
        handler.wfile.write(b"0\r\n\r\n")
    said.whole = not response.length
