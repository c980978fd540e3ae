"""What the tests of a fleet stand on: a provider that keeps a bill, a store, gateways, a balancer, clients."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from postgres import PASSWORD, Postgres

MODEL = "claude-sonnet-4-5"
# What an answer of the provider costs, in nano-dollars: 1,000 tokens of input at $3 and 100 of output at
# $15 a million.
USAGE = {"input_tokens": 1000, "output_tokens": 100}
COST = 1000 * 3_000 + 100 * 15_000
# The longest time that anything waits for, in seconds.
PATIENCE = 60
TOOL = {"name": "read_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
TOKEN = "token-of-the-pages"
# Statuses behind which clients ask again: a gateway that is gone, a store that is, a busy provider.
AGAIN = (502, 503, 529)


def until(holds, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {patience} s"
        time.sleep(0.02)


def free_port():
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return at.getsockname()[1]


class Provider(http.server.ThreadingHTTPServer):
    """Answers by what the history shows. With `own_ids` each answer has an id of its own, as in life; without,
    equal histories have equal answers."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, delay=0.0, refused_every=0, own_ids=False):
        super().__init__(("127.0.0.1", 0), Answers)
        self.lock = threading.Lock()
        self.delay, self.refused_every, self.own_ids = delay, refused_every, own_ids
        self.bodies = {}  # the bodies of each conversation, by its question
        self.asked = self.answered = self.under_way = 0
        self.holds = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def bill(self):
        """What was asked and not refused, whole: also where nobody has read the answer."""
        return self.answered * COST

    def handle_error(self, *_):
        """A gateway that is killed breaks its connections."""

    def begin(self, question, body):
        """Notes a request; false if it is refused."""
        with self.lock:
            self.asked += 1
            if self.refused_every and self.asked % self.refused_every == 0:
                return False
            self.bodies.setdefault(question, []).append(body)
            self.answered += 1
            self.under_way += 1
            return True


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        question = text_of(asked["messages"][0])
        if not self.server.begin(question, body):
            refusal = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            self.send(529, json.dumps(refusal).encode(), "application/json")
            return
        try:
            if "hold" in question and len(asked["messages"]) > 1:
                self.server.holds.wait(PATIENCE)
            time.sleep(self.server.delay)
            said = answer(question, asked)
            for block in said["content"]:
                if self.server.own_ids and block["type"] == "tool_use":
                    block["id"] = f"toolu_{os.urandom(9).hex()}"
            if asked.get("stream"):
                self.stream(said)
            else:
                self.send(200, json.dumps(said).encode(), "application/json")
        finally:
            with self.server.lock:
                self.server.under_way -= 1

    def send(self, status, data, kind):
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def stream(self, said):
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for event in events(said):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
                time.sleep(self.server.delay / 10)
        self.close_connection = True


def events(said):
    usage = said["usage"] | {"output_tokens": 1}
    yield {"type": "message_start", "message": said | {"content": [], "stop_reason": None, "usage": usage}}
    for index, block in enumerate(said["content"]):
        if block["type"] == "text":
            start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            text = json.dumps(block["input"])
            start, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": text}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": said["stop_reason"], "stop_sequence": None},
           "usage": {"output_tokens": said["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else content[0].get("text", "")


def answer(question, asked):
    messages = asked["messages"]
    turn = sum(message["role"] == "assistant" for message in messages)
    calls = [{"type": "tool_use", "id": f"toolu_{len(question):04}{turn:04}ab12", "name": "read_file",
              "input": {"path": f"{question}-{turn}.txt"}}]
    last = messages[-1]["content"]
    forbidden = asked.get("tool_choice", {}).get("type") == "none"
    told = "Answer now with what you have" in json.dumps(last)
    if forbidden or told or turn >= 9 or "answer at once" in question:
        content, stop = [{"type": "text", "text": f"All of {question} is read after {turn} turns."}], "end_turn"
    elif turn == 2 and isinstance(last, list) and "empty" in question:
        # An empty turn, behind which softland asks again.
        content, stop = [], "end_turn"
    else:
        content, stop = calls, "tool_use"
    return {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": MODEL,
            "content": content, "stop_reason": stop, "stop_sequence": None, "usage": dict(USAGE)}


class Redis:
    """A Redis with a password, which keeps what it is told when it is killed."""

    name = "Redis"

    def __init__(self, program, folder, more=()):
        self.program, self.folder, self.more, self.port, self.process = program, folder, more, free_port(), None
        self.start()

    @property
    def url(self):
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "yes",
             "--requirepass", PASSWORD, "--save", "", "--dir", self.folder, *self.more], stdout=subprocess.DEVNULL)
        until(lambda: self.ask("PING") == b"+PONG", "Redis answers")

    def ask(self, *words):
        """Sends a command. Returns its answer: a line, a text or a list of texts; nothing if Redis is away."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as link:
                for command in [("AUTH", PASSWORD), words]:
                    parts = [word.encode() for word in command]
                    link.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
                read = link.makefile("rb")
                read.readline()
                line = read.readline().strip()
                if line.startswith(b"*"):
                    return [(read.readline(), read.readline().strip().decode())[1] for _ in range(int(line[1:]))]
                return read.readline().strip() if line.startswith(b"$") and line != b"$-1" else line
        except OSError:
            return b""

    def accounts(self, beginning):
        """What the accounts whose names begin so have spent together, and what they hold, in nano-dollars."""
        keys = self.ask("KEYS", "{softland}:a:" + beginning + "*")
        fields = [[self.ask("HGET", key, field) for key in keys] for field in ("s", "r")]
        # An account without a field has nothing there.
        return tuple(sum(0 if amount == b"$-1" else int(amount) for amount in field) for field in fields)

    def forget(self):
        self.ask("FLUSHALL")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()


class Cluster:
    """A Redis Cluster of three masters. Its address is that of one without the gateways' keys; the one that has them
    is asked, killed and started again."""

    name = "a cluster of three Redis"

    def __init__(self, program, folder):
        self.nodes, addresses = [], []
        for number in range(3):
            place, bus = pathlib.Path(folder) / f"node-{number}", free_port()
            place.mkdir()
            more = ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
            self.nodes.append(Redis(program, str(place), more))
            addresses.append(f"127.0.0.1:{self.nodes[-1].port}@{bus}")
        subprocess.run(["redis-cli", "-a", PASSWORD, "--no-auth-warning", "--cluster", "create", *addresses,
                        "--cluster-yes"], check=True, stdout=subprocess.DEVNULL)
        self.wait()
        [self.holder] = [node for node in self.nodes if not node.ask("GET", "{softland}").startswith(b"-MOVED")]
        self.url = next(node.url for node in self.nodes if node is not self.holder)
        self.ask, self.accounts, self.forget, self.kill = (
            self.holder.ask, self.holder.accounts, self.holder.forget, self.holder.kill)

    def wait(self):
        for node in self.nodes:
            until(lambda: node.ask("CLUSTER", "INFO") == b"cluster_state:ok", "all slots are served")

    def start(self):
        self.holder.start()
        self.wait()

    def end(self):
        for node in self.nodes:
            node.end()


class Gateway:
    """A gateway that can be killed and started again at its port. `at` is where requests go."""

    def __init__(self, binary, folder, config, shared, port=0):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "softland.toml").write_text(config)
        self.binary, self.folder, self.port, self.said = binary, folder, port, []
        self.config = config
        self.environment = dict(os.environ, XDG_STATE_HOME=str(folder), TOKEN=TOKEN, SHARED=shared)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--config", "softland.toml"],
            cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        lines = self.process.stderr
        for line in lines:
            self.said.append(line)
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("a gateway does not start:\n" + "".join(self.said))
        threading.Thread(target=lambda: self.said.extend(lines), daemon=True).start()

    def reload(self, more):
        """Lets it read its config again, with these lines at the end."""
        (self.folder / "softland.toml").write_text(self.config + more)
        self.process.send_signal(signal.SIGHUP)

    def run(self, *words):
        """Runs a command in its folder and its environment."""
        return subprocess.run([self.binary, *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)

    def request(self, method, path, body=None, **headers):
        return request(self.port, method, path, body, **headers)

    def ask(self, messages, **headers):
        return self.request("POST", "/v1/messages", body_of(messages), **headers)

    def read(self, path):
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def body_of(messages, stream=False):
    asked = {"model": MODEL, "max_tokens": 200, "tools": [TOOL], "messages": messages}
    return json.dumps(asked | ({"stream": True} if stream else {}))


@contextlib.contextmanager
def response_of(port, method, path, body=None, **headers):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        link.request(method, path, body, headers)
        yield link.getresponse()
    finally:
        link.close()


def request(port, method, path, body=None, **headers):
    with response_of(port, method, path, body, **headers) as response:
        return response.status, dict(response.getheaders()), response.read()


class Broken(Exception):
    """A request that a client sends again."""


class Conversation:
    """A client that calls a tool until it is answered."""

    def __init__(self, question, stream=False, **headers):
        self.messages, self.headers, self.streams = [{"role": "user", "content": question}], headers, stream
        self.runs, self.is_over, self.results = [], False, 0
        self.repeats, self.broken_at, self.has_left = 0, None, False

    @property
    def open_runs(self):
        """Its runs. One that ended with an answer that was lost on its way is another one when it is asked again."""
        known = self.runs[:-1] if self.broken_at == len(self.messages) - 1 else self.runs
        # The head of a stream that waits for money names none.
        return {run for run in known if run}

    def step(self, port, leaves=False):
        """One request. A client that `leaves` goes with the first bytes of its stream."""
        try:
            sent = body_of(self.messages, self.streams)
            with response_of(port, "POST", "/v1/messages", sent, **self.headers) as response:
                if leaves and response.status == 200:
                    response.read(64)
                    self.has_left = True
                    raise Broken("the client has left")
                status, headers, body = response.status, dict(response.getheaders()), response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Broken(repr(error)) from error
        if status in AGAIN:
            raise Broken(f"{status}: {body!r}")
        assert status == 200, (status, body)
        content = content_of(body) if self.streams else json.loads(body)["content"]
        self.runs.append(headers.get("x-softland-run"))
        self.messages.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        self.is_over = not calls
        self.results += len(calls)
        if calls:
            results = [{"type": "tool_result", "tool_use_id": call["id"],
                        "content": f"content of {call['input']['path']}"} for call in calls]
            self.messages.append({"role": "user", "content": results})

    def finish(self, ports, leaves=lambda: False, patience=PATIENCE):
        """Asks by turns at each of the ports until it is answered, and again where a connection breaks."""
        end, turn = time.monotonic() + patience, 0
        while not self.is_over:
            try:
                self.step(ports[turn % len(ports)], self.streams and leaves())
            except Broken as broken:
                self.repeats += 1
                self.broken_at = len(self.messages)
                assert time.monotonic() < end, f"no answer within {patience} s, in the end {broken}"
                time.sleep(0.05)
            turn += 1
        assert self.messages[-1]["content"], "the end is an answer"
        return len(self.messages) // 2


def content_of(stream):
    """The content that a client puts together from an event stream; one without an end is broken."""
    content, ended = [], False
    for line in stream.decode().splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line[6:])
        kind, delta = event["type"], event.get("delta", {})
        if kind == "content_block_start":
            content.append(event["content_block"] | {"partial": ""})
        elif kind == "content_block_delta" and delta["type"] == "text_delta":
            content[-1]["text"] += delta["text"]
        elif kind == "content_block_delta":
            content[-1]["partial"] += delta["partial_json"]
        elif kind == "error":
            raise Broken(line)
        ended = ended or kind == "message_stop"
    if not ended:
        raise Broken("the stream has no end")
    for block in content:
        text = block.pop("partial")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
    return content


class Balancer:
    """Debian's nginx before gateways at these ports."""

    def __init__(self, program, folder, ports):
        self.port = free_port()
        servers = "".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)
        paths = "".join(f"{name}_temp_path {folder}/{name};"
                        for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        config = folder / "nginx.conf"
        config.write_text(f"""daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off; {paths}
  upstream fleet {{ {servers} }}
  server {{
    listen 127.0.0.1:{self.port} backlog=1024;
    client_max_body_size 64m;
    location / {{
      proxy_pass http://fleet;
      proxy_http_version 1.1;
      proxy_set_header Host fleet.test;
      proxy_set_header Connection '';
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
""")
        self.process = subprocess.Popen([program, "-c", str(config), "-p", str(folder)], stderr=subprocess.DEVNULL)
        until(self.answers, "nginx answers")

    def answers(self):
        with contextlib.suppress(OSError):
            return request(self.port, "GET", "/healthz")[0] == 200
        return False

    def end(self):
        self.process.terminate()
        self.process.wait()


class World:
    def __init__(self, binary, store, nginx, work):
        self.binary, self.nginx, self.work, self.count = binary, nginx, pathlib.Path(work), 0
        kind, _, program = store.partition(":")
        self.store = Postgres(program) if kind == "postgres" else {"redis": Redis, "cluster": Cluster}[kind](program, work)

    @contextlib.contextmanager
    def gateways(self, count, shared, keys="tool_calls_limit = 6", ports=(), more="", provider=None, each=(),
                 ledger="off"):
        """A provider, and gateways before it whose policy has these keys. `each` has the binary and the keys of each
        gateway, where they are not all alike."""
        self.store.forget()
        provider, gateways = provider or Provider(), []
        config = lambda keys: f"""
allowed_hosts = ["fleet.test"]
[ledger]
url = "{ledger}"
[shared]
url_env = "SHARED"
[admin]
token_env = "TOKEN"
[upstream.anthropic]
base_url = "{provider.url}"
[policy.default]
{keys}
{more}
"""
        try:
            for number in range(count):
                self.count += 1
                folder = self.work / f"gateway-{self.count}"
                port = ports[number] if ports else 0
                binary, own = each[number] if each else (self.binary, keys)
                gateways.append(Gateway(binary, folder, config(own), shared, port))
            for gateway in gateways:
                until(lambda: gateway.request("GET", "/v1/models")[0] != 503, "it has read the store's keys")
            yield provider, gateways
        finally:
            provider.holds.set()
            for gateway in gateways:
                gateway.kill()
            provider.shutdown()
            assert not any(PASSWORD in line for gateway in gateways for line in gateway.said), "no log shows it"
