"""What the tests of an engine stand on: a model with a bill, servers of Restate, workers, a balancer, clients."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fleet"))
from world import Answers, Gateway, Provider, USAGE, free_port, until

MODEL = "claude-sonnet-4-5"
# What one request costs at the prices of that model.
COST_USD = (USAGE["input_tokens"] * 3 + USAGE["output_tokens"] * 15) / 1e6
# The longest time that a command may take, in seconds.
PATIENCE = 90
# The tool of the agents: it notes that it runs, takes its time whoever asks it to end, and says that it is done.
TOOL = """\
import json, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
asked = json.load(sys.stdin)
place = pathlib.Path(sys.argv[1])
with open(place / "ran", "a") as ran:
    ran.write(f"{asked['key']} {pathlib.Path.cwd().name}\\n")
end = time.monotonic() + float((place / "seconds").read_text())
while time.monotonic() < end:
    time.sleep(0.01)
with open(place / "done", "a") as done:
    done.write(f"{asked['key']}\\n")
print(f"{asked['key']} is done")
"""
# The rounds of each agent: `n…` may not run twice, `p…` may, other names are agents. 20 calls of tools, of which
# four run side by side.
PLANS = {
    "lead": [["n1"], ["p2"], ["scout", "deputy"], ["n3", "p4", "n5", "p6"], ["n7"]],
    "scout": [["n8"], ["p9"], ["n10"], ["p11"], ["n12"], ["p13"]],
    "deputy": [["p14"], ["n15"], ["p16"], ["n17"], ["p18"], ["n19"], ["p20"]],
    "single": [["n1"], ["n2"], ["n3"]],
}
KEYS = [key for name in ("lead", "scout", "deputy") for round in PLANS[name] for key in round if key not in PLANS]


class Model(Answers):
    """Reads its plan from the system prompt and its position from the history, so that each process meets the
    same model."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server, said = self.server, reply(asked)
        with server.lock:
            server.asked += 1
            server.answered += 1
        time.sleep(server.delay)
        if asked.get("stream"):
            self.stream(said)
        else:
            self.send(200, json.dumps(said).encode(), "application/json")


def reply(asked):
    plan = PLANS[re.search(r"Your plan is (\w+)", json.dumps(asked["system"]))[1]]
    results = [block for message in asked["messages"] if isinstance(message["content"], list)
               for block in message["content"] if block["type"] == "tool_result"]
    done = sum(message["role"] == "assistant" for message in asked["messages"])
    if done < len(plan):
        content = [call_of(key) | {"id": f"toolu_{done:02}{at:02}abcdefgh"} for at, key in enumerate(plan[done])]
        stop = "tool_use"
    else:
        content = [{"type": "text", "text": "; ".join(map(text_of, results)) + "."}]
        stop = "end_turn"
    return {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": MODEL, "content": content,
            "stop_reason": stop, "stop_sequence": None, "usage": dict(USAGE)}


def call_of(key):
    if key in PLANS:
        return {"type": "tool_use", "name": "agent", "input": {"name": key, "prompt": "Go on."}}
    return {"type": "tool_use", "name": "note" if key[0] == "n" else "peek", "input": {"key": key}}


def text_of(result):
    content = result["content"]
    return (content if isinstance(content, str) else content[0]["text"]).strip()


def start_model(delay=0.02):
    provider = Provider(delay=delay)
    provider.RequestHandlerClass = Model
    return provider


class Folder:
    """The agent files of the workers, and what their tools leave."""

    def __init__(self, place, seconds=0.03):
        self.place, self.agents = place, place / "agents"
        self.agents.mkdir(parents=True)
        (place / "tool.py").write_text(TOOL)
        self.take(seconds)
        for name in PLANS:
            self.write(name)

    def write(self, name, more=""):
        run = json.dumps([sys.executable, str(self.place / "tool.py"), str(self.place)])
        schema = "{type: object, properties: {key: {type: string}}, required: [key]}"
        delegates = any(key in PLANS for round in PLANS[name] for key in round)
        (self.agents / f"{name}.md").write_text(f"""\
---
name: {name}
description: does a part
tools: {'[agent]' if delegates else '[]'}
commands:
  note: {{description: does a part, schema: {schema}, run: {run}}}
  peek: {{description: looks, schema: {schema}, run: {run}, repeatable: true}}
{more}---
Your plan is {name}.
""")

    def take(self, seconds):
        """Lets each call take so long."""
        (self.place / "seconds").write_text(str(seconds))

    def lines(self, name):
        with contextlib.suppress(FileNotFoundError):
            return (self.place / name).read_text().split("\n")[:-1]
        return []

    @property
    def ran(self):
        """The keys of the calls that have begun, in their order."""
        return [line.split()[0] for line in self.lines("ran")]

    @property
    def workers(self):
        """The workers that have begun calls, in the order of the calls."""
        return [line.split()[1] for line in self.lines("ran")]

    def forget(self):
        for name in ("ran", "done"):
            (self.place / name).unlink(missing_ok=True)


class Server:
    """A server of Restate, alone or as a node of a cluster. It keeps what it has stored when it is killed."""

    def __init__(self, program, place, name="one", more="", node=None, provision=True, metadata=""):
        place.mkdir(parents=True, exist_ok=True)
        self.program, self.place, self.name = program, place, name
        self.ingress, self.admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.node = node or f"127.0.0.1:{free_port()}"
        (place / "restate.toml").write_text(f"""\
node-name = "{name}"
cluster-name = "test"
auto-provision = {'true' if provision else 'false'}
listen-mode = "tcp"
base-dir = "{place}/data"
disable-telemetry = true
default-num-partitions = 4
rocksdb-total-memory-size = "128 MiB"
bind-address = "{self.node}"
advertised-address = "http://{self.node}"
{more}
{metadata}
[admin]
bind-address = "{self.admin}"
advertised-address = "http://{self.admin}"
disable-web-ui = true
[ingress]
bind-address = "{self.ingress}"
advertised-address = "http://{self.ingress}"
""")
        self.process = None

    def start(self):
        self.launch()
        self.wait()
        return self

    def launch(self):
        log = open(self.place / "log", "ab")
        self.process = subprocess.Popen([self.program, "--no-logo", "-c", str(self.place / "restate.toml")],
                                        stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait(self):
        """Waits until it takes requests. A port that a killed server still holds ends the new one, so it is
        started again."""
        end = time.monotonic() + 60
        while not (answers(f"http://{self.ingress}/restate/health") and answers(f"http://{self.admin}/health")):
            if self.process.poll() is not None:
                self.launch()
            assert time.monotonic() < end, f"the server does not start: see {self.place}/log"
            time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None):
        """Asks the administration."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "accept": "application/json"}
        request = urllib.request.Request(f"http://{self.admin}/{path}", sent, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def invocation(self, run):
        """The id, the state and the deployment of a run, as the engine has them."""
        query = ("SELECT id, status, pinned_deployment_id, retry_count FROM sys_invocation WHERE "
                 f"target_service_name = 'SoftlandRun' AND target_handler_name = 'run' AND target_service_key = '{run}'")
        rows = self.query(query)
        return rows[0] if rows else {}

    def query(self, query):
        return self.ask("POST", "query", {"query": query})["rows"]

    def kept(self, run):
        """What is kept of a run, as numbers of rows: invocations, with journals, and values of its state."""
        of_run = f"target_service_name = 'SoftlandRun' AND target_service_key = '{run}'"
        queries = {
            "invocations": f"SELECT COUNT(*) AS n FROM sys_invocation WHERE {of_run}",
            "steps": f"SELECT COUNT(*) AS n FROM sys_journal WHERE id IN (SELECT id FROM sys_invocation WHERE {of_run})",
            "values": f"SELECT COUNT(*) AS n FROM state WHERE service_name = 'SoftlandRun' AND service_key = '{run}'",
            "promises": f"SELECT COUNT(*) AS n FROM sys_promise WHERE service_name = 'SoftlandRun' AND service_key = '{run}'",
        }
        return {what: self.query(query)[0]["n"] for what, query in queries.items()}


def answers(url):
    with contextlib.suppress(OSError, urllib.error.URLError):
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    return False


class Worker:
    """A worker's process. Its root has its name, so that its calls can be told from those of others."""

    def __init__(self, stack, name="first", binary=None, listen=None, advertise=None, server=None, flags=(), model=None):
        self.name, self.listen = name, listen or f"127.0.0.1:{free_port()}"
        root = stack.work / "roots" / name
        root.mkdir(parents=True, exist_ok=True)
        words = ["worker", "--agents", str(stack.folder.agents), "--restate", f"http://{(server or stack.server).admin}",
                 "--listen", self.listen, "--root", str(root), "--allow-shell", "--model", f"anthropic/{MODEL}",
                 "--base-url", model or stack.model.url, *flags]
        if advertise:
            words += ["--advertise", advertise]
        self.said = []
        self.process = subprocess.Popen([binary or stack.binary, *words], env=stack.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = self.process.stderr
        for line in lines:
            self.said.append(line)
            if "registered with" in line:
                break
        else:
            raise SystemExit(f"the worker does not start:\n{''.join(self.said)}")
        threading.Thread(target=lambda: self.said.extend(lines), daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self, patience=PATIENCE):
        """Sends SIGTERM. Returns the status and the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(patience)
        return status, time.monotonic() - began


class Follower:
    """`softland run --engine` or `--attach`, in the background."""

    def __init__(self, stack, *words):
        self.process = subprocess.Popen([stack.binary, "run", *words, "--format", "json"], env=stack.environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.noted = [], []
        self.readers = [threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True),
                        threading.Thread(target=lambda: self.noted.extend(self.process.stderr), daemon=True)]
        for reader in self.readers:
            reader.start()

    @property
    def run(self):
        until(lambda: self.lines or self.process.poll() is not None, "the first event")
        assert self.lines, "".join(self.noted)
        return json.loads(self.lines[0])["run"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, patience=PATIENCE):
        """Waits for the end. Returns the status and the events."""
        status = self.process.wait(patience)
        for reader in self.readers:
            reader.join(10)
        return status, [json.loads(line) for line in self.lines]


class Stack:
    """A server, agent files, a model, and what was started with them."""

    def __init__(self, binary, program, work, name, **settings):
        self.binary, self.work = binary, pathlib.Path(work) / name
        self.work.mkdir(parents=True)
        self.folder, self.model, self.started = Folder(self.work / "files"), start_model(), []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SOFTLAND_")}
        self.environment |= {"ANTHROPIC_API_KEY": "k", "XDG_STATE_HOME": str(self.work), "NO_COLOR": "1"}
        self.program = program
        if settings.pop("serves", True):
            self.server = self.keep(Server(program, self.work / "server", **settings).start())

    def keep(self, what):
        self.started.append(what)
        return what

    def worker(self, *given, **named):
        return self.keep(Worker(self, *given, **named))

    @property
    def url(self):
        return f"http://{self.server.ingress}"

    def softland(self, *words, status=0, patience=PATIENCE):
        """Runs a command to its end. Returns what it said on both outputs."""
        done = subprocess.run([self.binary, *words], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=patience)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def follow(self, *words):
        return Follower(self, *words, "--engine", self.url)

    def begin(self, agent):
        """Starts a run. Returns its follower and its id."""
        follower = self.follow(agent, "Go.")
        return follower, follower.run

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for what in reversed(self.started):
            if what.process and what.process.poll() is None:
                what.kill()
        self.model.shutdown()
