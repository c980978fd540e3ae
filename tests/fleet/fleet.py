"""Two gateways on one Redis. Each check is a function; the first that does not hold ends the test."""

import concurrent.futures
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
import sys
import threading
import time

MODEL = "claude-sonnet-4-5"
# What the provider's answers cost: 1,000 tokens of input at $3 and 100 of output at $15 a million.
COST = 1000 * 3_000 + 100 * 15_000
PATIENCE = 60
TOOL = {"name": "read_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


class Provider(http.server.ThreadingHTTPServer):
    """Answers by what the history shows, so that equal histories have equal answers."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.lock = threading.Lock()
        self.bodies = {}  # the bodies of each conversation, by its question
        self.answered = 0
        self.holds = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        question = text_of(asked["messages"][0])
        with self.server.lock:
            self.server.bodies.setdefault(question, []).append(body)
        if "hold" in question and len(asked["messages"]) > 1:
            self.server.holds.wait(PATIENCE)
        with self.server.lock:
            self.server.answered += 1
        data = json.dumps(answer(question, asked)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)


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
    if forbidden or turn >= 9 or "answer at once" in question:
        content, stop = [{"type": "text", "text": f"All of {question} is read after {turn} turns."}], "end_turn"
    elif turn == 2 and isinstance(last, list) and "empty" in question:
        # An empty turn, behind which softland asks again.
        content, stop = [], "end_turn"
    else:
        content, stop = calls, "tool_use"
    usage = {"input_tokens": 1000, "output_tokens": 100}
    return {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": MODEL,
            "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def free_port():
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return at.getsockname()[1]


class Redis:
    def __init__(self, program, folder):
        self.program, self.folder, self.port, self.process = program, folder, free_port(), None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "yes",
             "--save", "", "--dir", self.folder], stdout=subprocess.DEVNULL)
        until(lambda: self.ask("PING") == b"+PONG", "Redis answers")

    def ask(self, *words):
        """Sends a command whose answer is one line or one text."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as link:
                parts = [word.encode() for word in words]
                sent = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
                link.sendall(sent)
                read = link.makefile("rb")
                line = read.readline().strip()
                return read.readline().strip() if line.startswith(b"$") and line != b"$-1" else line
        except OSError:
            return b""

    def kill(self):
        self.process.kill()
        self.process.wait()


class Gateway:
    def __init__(self, binary, folder, config):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "softland.toml").write_text(config)
        environment = dict(os.environ, XDG_STATE_HOME=str(folder), TOKEN="token-of-the-pages")
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--config", "softland.toml"], cwd=folder,
            env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("a gateway does not start:\n" + "".join(self.said))
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def request(self, method, path, body=None, **headers):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            headers |= {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
            link.request(method, path, body, headers)
            response = link.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            link.close()

    def ask(self, messages, **headers):
        body = json.dumps({"model": MODEL, "max_tokens": 200, "tools": [TOOL], "messages": messages})
        return self.request("POST", "/v1/messages", body, **headers)

    def read(self, path):
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def until(holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


class Conversation:
    """A client that calls a tool until it is answered."""

    def __init__(self, question, **headers):
        self.messages, self.headers = [{"role": "user", "content": question}], headers
        self.runs, self.is_over = [], False

    def step(self, gateway):
        status, headers, body = gateway.ask(self.messages, **self.headers)
        assert status == 200, (status, body)
        said = json.loads(body)
        self.runs.append(headers.get("x-softland-run"))
        self.messages.append({"role": "assistant", "content": said["content"]})
        calls = [block for block in said["content"] if block["type"] == "tool_use"]
        self.is_over = not calls
        if calls:
            results = [{"type": "tool_result", "tool_use_id": call["id"],
                        "content": f"content of {call['input']['path']}"} for call in calls]
            self.messages.append({"role": "user", "content": results})

    def finish(self, gateways):
        turn = 0
        while not self.is_over:
            self.step(gateways[turn % len(gateways)])
            turn += 1
        return turn


QUESTIONS = ["plain reading", "an empty turn within", "unicode äß漢 reading"]


def config(provider, shared, policy="tool_calls_limit = 6", more=""):
    return f"""
[ledger]
url = "off"
[shared]
url = "{shared}"
[admin]
token_env = "TOKEN"
[upstream.anthropic]
base_url = "{provider.url}"
[policy.default]
{policy}
{more}
"""


def check_bytes(world):
    """By turns through two gateways: the provider gets the bytes that one gateway sends."""
    seen = []
    for shared, count in [("memory:", 1), (world.redis.url, 2)]:
        with world.gateways(count, shared) as (provider, gateways):
            for question in QUESTIONS:
                conversation = Conversation(question)
                turns = conversation.finish(gateways)
                assert turns >= 7, (question, turns)
            seen.append(provider.bodies)
    assert seen[0].keys() == seen[1].keys()
    for question, bodies in seen[0].items():
        assert bodies == seen[1][question], f"{question}: two gateways send other bytes than one"
    assert any(b"[no answer]" in body for body in seen[0]["an empty turn within"]), "it was nudged"
    return f"{sum(map(len, seen[0].values()))} requests"


def check_killed(world):
    """A run of a gateway that is killed goes on elsewhere under its id, is listed and is cancelled."""
    with world.gateways(2, world.redis.url) as (provider, (one, other)):
        conversation = Conversation("hold on to it")
        provider.holds.set()
        conversation.step(one)
        conversation.step(one)
        provider.holds.clear()
        begun = len(provider.bodies["hold on to it"])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            under_way = pool.submit(conversation.step, one)
            until(lambda: len(provider.bodies["hold on to it"]) > begun, "the request is with the provider")
            one.kill()
            assert under_way.exception() is not None, "its client's connection broke"
        provider.holds.set()
        conversation.step(other)
        [run] = set(conversation.runs)
        assert run, "the run has a name"
        rows = [row for row in other.read("/api/runs")["runs"] if row["run"] == run]
        assert len(rows) == 1 and "ended" not in rows[0], rows
        token = "Bearer token-of-the-pages"
        status, _, body = other.request("POST", f"/api/runs/{run}/cancel", "", authorization=token)
        assert status == 200 and json.loads(body)["cancelled"] == [run], (status, body)
        status, _, body = other.ask(conversation.messages)
        assert status == 400 and b"cancelled" in body, (status, body)
    return run


def check_cancel(world):
    """A run that one gateway serves is listed and cancelled through the other."""
    with world.gateways(2, world.redis.url) as (provider, (one, other)):
        conversation = Conversation("hold until cancelled")
        provider.holds.set()
        conversation.step(one)
        provider.holds.clear()
        run = conversation.runs[0]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            under_way = pool.submit(one.ask, conversation.messages)
            busy = lambda: any(row["run"] == run and row.get("busy") for row in other.read("/api/runs")["runs"])
            until(busy, "the other gateway lists it as busy")
            token = "Bearer token-of-the-pages"
            status, _, body = other.request("POST", f"/api/runs/{run}/cancel", "", authorization=token)
            assert status == 200, (status, body)
            under_way.result(PATIENCE)
        provider.holds.set()


def check_money(world, sessions=50):
    """Many sessions at once through two gateways: one limit is held, to the nano-dollar."""
    limit = 300_000_000
    with world.gateways(2, world.redis.url, "session_cost_limit_usd = 0.3") as (provider, gateways):
        def run(number):
            gateway = gateways[number % 2]
            conversation = Conversation(f"reading {number}", x_softland_session="shared")
            while not conversation.is_over:
                try:
                    conversation.step(gateway)
                except AssertionError:
                    return
        with concurrent.futures.ThreadPoolExecutor(sessions) as pool:
            list(pool.map(run, range(sessions)))
        bill = provider.answered * COST
        assert bill <= limit, f"{bill} of {limit} is spent"
        assert bill >= limit * 9 // 10, f"only {bill} of {limit} is spent"
        spent = lambda: world.redis.ask("HGET", "{softland}:a:" + world.account("session:"), "s")
        held = lambda: world.redis.ask("HGET", "{softland}:a:" + world.account("session:"), "r")
        until(lambda: held() == b"0", "nothing stays reserved")
        assert int(spent()) == bill, (spent(), bill)
    return f"{bill / 1e9} of {limit / 1e9} dollars"


def check_loss(world):
    """Redis ends and comes back: `closed` refuses where money is limited, `open` goes on."""
    for policy in ["closed", "open"]:
        keys = f'cost_limit_usd = 1\non_store_loss = "{policy}"'
        with world.gateways(1, world.redis.url, keys) as (_, (gateway,)):
            conversation = Conversation(f"reading while {policy}")
            conversation.step(gateway)
            world.redis.kill()
            status, _, body = gateway.ask(conversation.messages)
            if policy == "closed":
                assert status == 503 and b"the cost limit cannot be enforced now" in body, (status, body)
            else:
                assert status == 200, (status, body)
            world.redis.start()
            until(lambda: gateway.ask(conversation.messages)[0] == 200, "it recovers by itself")
            before = conversation.runs[0]
            conversation.step(gateway)
            assert conversation.runs[-1] == before, "the same run goes on"


class World:
    def __init__(self, binary, redis, work):
        self.binary, self.work, self.count = binary, pathlib.Path(work), 0
        self.redis = Redis(redis, work)

    @contextlib.contextmanager
    def gateways(self, count, shared, policy="tool_calls_limit = 6", more=""):
        self.redis.ask("FLUSHALL")
        provider, gateways = Provider(), []
        try:
            for _ in range(count):
                self.count += 1
                folder = self.work / f"gateway-{self.count}"
                gateways.append(Gateway(self.binary, folder, config(provider, shared, policy, more)))
            yield provider, gateways
        finally:
            provider.holds.set()
            for gateway in gateways:
                gateway.kill()
            provider.shutdown()

    def account(self, beginning):
        """The one account whose name begins so."""
        with socket.create_connection(("127.0.0.1", self.redis.port), 5) as link:
            link.sendall(b"KEYS {softland}:a:" + beginning.encode() + b"*\r\n")
            text = link.makefile("rb")
            count = int(text.readline().strip()[1:])
            names = [(text.readline(), text.readline().strip().decode())[1] for _ in range(count)]
        [name] = names
        return name.split(":a:", 1)[1]


def main(binary, redis, work):
    world = World(binary, redis, work)
    try:
        for check in [check_bytes, check_killed, check_cancel, check_money, check_loss]:
            began = time.monotonic()
            what = check(world)
            print(f"fleet: {check.__name__}: {what or 'holds'} ({time.monotonic() - began:.1f} s)", flush=True)
    finally:
        world.redis.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
