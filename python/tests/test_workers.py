"""Servers that load a program once and fork workers from it."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import binary

import softland

LISTENING = re.compile(r"Listening at: http://127\.0\.0\.1:(\d+)")
# Installs softland and has a governed run before the workers are there. A request is answered once
# requests have come to two workers.
PROGRAM = """
import json, os, pathlib, time
import httpx2, softland
from loops import clients, run_loop

url, ledger, seen = os.environ["SIM"], os.environ["LEDGER"], pathlib.Path(os.environ["SEEN"])
softland.install(
    hosts=[url.removeprefix("http://")], ledger=f"sqlite:{ledger}", tool_calls_limit=4, repeat_limit=50
)

def work(name):
    with softland.run(name=name) as run:
        run_loop(clients("anthropic", url, httpx2.Client()), "anthropic", stream=True)
    return {"pid": os.getpid(), "run": run.id, "ended": [run.outcome, run.reason, run.tool_calls]}

loaded = work("parent")

def app(environ, start_response):
    (seen / str(os.getpid())).touch()
    while len(list(seen.iterdir())) < 2:
        time.sleep(0.01)
    body = json.dumps({"loaded": loaded, "worked": work("worker")}).encode()
    start_response("200 OK", [("content-type", "application/json")])
    return [body]
"""


class Gunicorn:
    """gunicorn on a free port of loopback, with two workers forked from a loaded program."""

    def __init__(self, folder, environment):
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "gunicorn.conf.py").write_text("preload_app = True\n", encoding="utf-8")
        paths = [str(Path(softland.__file__).parents[1]), str(Path(__file__).parent), *sys.path]
        options = ["--workers", "2", "--timeout", "200", "--bind", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *options, "program:app"],
            cwd=folder,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        while (found := LISTENING.search(said)) is None:
            line = self._process.stderr.readline()
            if not line:
                raise RuntimeError(f"gunicorn ended at once: {said}")
            said += line
        self.port, self.pid = int(found.group(1)), self._process.pid
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=200)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.status == 200
        return json.loads(response.read())

    def stop(self):
        """Ends it as an operator does. Returns its exit status."""
        self._process.terminate()
        return self._process.wait(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_workers_of_gunicorn_are_governed(sim, tmp_path):
    seen, ledger = tmp_path / "seen", tmp_path / "runs.db"
    seen.mkdir()
    environment = {"SIM": sim("looper").url, "LEDGER": str(ledger), "SEEN": str(seen)}
    server, answers = Gunicorn(tmp_path, environment), []
    try:
        threads = [threading.Thread(target=lambda: answers.append(server.ask())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        status = server.stop()
    assert status == 0 and len(answers) == 2
    loaded, worked = [one["loaded"] for one in answers], [one["worked"] for one in answers]
    assert {one["pid"] for one in loaded} == {server.pid}
    assert len({one["pid"] for one in worked} - {server.pid}) == 2
    assert [one["ended"] for one in loaded + worked] == [["landed", "tool_calls", 4]] * 4
    # The parent's and the workers' governors write to one ledger.
    for name in {one["run"] for one in loaded + worked}:
        command = [binary(), "show", name, "--ledger", str(ledger)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "landed" in shown.stdout, shown
