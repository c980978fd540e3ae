"""What goes wrong is told clearly, and nothing is lost or hangs."""

import asyncio
import gc
import importlib
import logging
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anthropic
import httpx
import httpx2
import pytest
from conftest import Recorder, binary
from loops import Loop, ask, clients, run_loop, run_loop_async

import softland
from softland import _state

LIMITS = {"tool_calls_limit": 4, "repeat_limit": 50}
FOLDER = Path(softland.__file__).resolve().parents[1]


def python(code, *arguments):
    """Runs a program in a Python of its own. Returns what it prints."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_no_sdk_and_no_http_library_is_needed():
    code = """
import sys
for name in ("httpx", "httpx2", "anthropic", "openai", "anyio", "aiohttp", "botocore"):
    sys.modules[name] = None
import softland
softland.install(tool_calls_limit=3)
with softland.run() as run:
    pass
softland.uninstall()
print(run.outcome, run.cost_usd, run.tool_calls)
"""
    assert python(code) == "None 0.0 0\n"


def test_a_library_that_is_imported_later_is_hooked():
    code = """
import softland
softland.install()
import httpx2
print(httpx2.Client._send_single_request.__module__)
softland.uninstall()
print(httpx2.Client._send_single_request.__module__)
"""
    assert python(code) == "softland._hooks\nhttpx2._client\n"


def test_another_project_in_the_place_of_the_native_part_is_named(tmp_path):
    package = tmp_path / "softland"
    package.mkdir()
    (package / "__init__.py").write_bytes((FOLDER / "softland" / "__init__.py").read_bytes())
    code = """
import sys
sys.path.insert(0, sys.argv[1])
try:
    import softland
except ImportError as error:
    print(error)
"""
    assert "belongs to another project" in python(code, str(tmp_path))


def test_installing_twice_governs_once(sim):
    server, recorder = sim("looper"), Recorder()
    for _ in range(2):
        softland.install(hosts=[server.host], **LIMITS)
    client = clients("anthropic", server.url, httpx2.Client(transport=recorder))
    _, calls = run_loop(client, "anthropic")
    assert calls == 4
    assert b"".join(recorder.bodies).count(b"2 tool calls remaining") == 3
    softland.uninstall()
    assert httpx2.Client._send_single_request.__module__ == "httpx2._client"


def test_both_generations_are_governed_at_once(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], **LIMITS)
    for lib in (httpx, httpx2):
        with lib.Client() as http, softland.run() as run:
            loop = Loop("anthropic")
            while run.outcome is None:
                asked = {**loop.request(), "messages": loop.history}
                headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
                answer = http.post(f"{server.url}/v1/messages", json=asked, headers=headers).json()
                content = [block for block in answer["content"]]
                loop.history.append({"role": "assistant", "content": content})
                results = [
                    {"type": "tool_result", "tool_use_id": block["id"], "content": "notes"}
                    for block in content
                    if block["type"] == "tool_use"
                ]
                loop.history.append({"role": "user", "content": results})
        assert (run.outcome, run.tool_calls) == ("landed", 4)


def test_an_exception_in_on_event_is_logged_and_stops_nothing(sim, caplog):
    server, seen = sim("looper"), []

    def on_event(event):
        seen.append(event["event"])
        raise ValueError("mine")

    softland.install(hosts=[server.host], on_event=on_event, **LIMITS)
    with softland.run() as run:
        run_loop(clients("anthropic", server.url, httpx2.Client()), "anthropic")
    assert run.outcome == "landed"
    assert seen[0] == "run_start" and seen[-1] == "done" and "intervention" in seen
    assert "on_event raised" in caplog.text and "mine" in caplog.text


def test_events_are_numbered_without_gaps(sim):
    server, events = sim("looper"), []
    softland.install(hosts=[server.host], on_event=events.append, **LIMITS)
    with softland.run(name="told") as run:
        run_loop(clients("anthropic", server.url, httpx2.Client()), "anthropic", stream=True)
    assert {event["run"] for event in events} == set(run.runs)
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["outcome"] == "landed" and events[0]["name"] == run.id


def test_an_unknown_host_passes_with_one_warning(sim, caplog):
    server = sim("reader")
    caplog.set_level(logging.WARNING, "softland")
    softland.install(tool_calls_limit=0)
    with softland.run() as run:
        _, calls = run_loop(clients("anthropic", server.url, httpx2.Client()), "anthropic")
    assert calls > 0 and run.ungoverned == calls + 1
    warnings = [record for record in caplog.records if server.host in record.getMessage()]
    assert len(warnings) == 1 and f'hosts=["{server.host}"]' in warnings[0].getMessage()


def test_an_unknown_host_is_refused_under_a_limit_of_money(sim):
    server, recorder = sim("reader"), Recorder()
    client = clients("anthropic", server.url, httpx2.Client(transport=recorder), max_retries=0)
    softland.install(cost_limit_usd=1)
    with pytest.raises(softland.GovernorError, match="a limit of money holds"):
        run_loop(client, "anthropic")
    assert recorder.bodies == []
    softland.install(cost_limit_usd=1, allow_unmetered=True)
    run_loop(client, "anthropic")


def test_a_fault_of_softland_raises_under_a_limit_and_passes_without(sim, monkeypatch, caplog):
    class Faulty:
        def begin(self, *_):
            raise RuntimeError("softland has a fault")

        def take_events(self):
            return []

    server, recorder = sim("reader"), Recorder()
    client = clients("anthropic", server.url, httpx2.Client(transport=recorder), max_retries=0)
    monkeypatch.setattr(_state.process, "governor", Faulty())
    _state.process.default = None
    for keys, sent in (
        ({"tool_calls_limit": 5}, False),
        ({}, True),
        ({"tool_calls_limit": 5, "on_failure": "pass"}, True),
        ({"on_failure": "raise"}, False),
    ):
        recorder.bodies.clear()
        monkeypatch.setattr(
            _state.process, "default", _state.Policy(
                hosts=[server.host],
                on_failure=keys.get("on_failure"),
                keys={key: value for key, value in keys.items() if key != "on_failure"},
            )
        )
        softland._hooks.install()
        if sent:
            ask(client, "anthropic", Loop("anthropic").request(), False)
            assert "is sent as it is" in caplog.text
        else:
            with pytest.raises(softland.GovernorError, match="nothing was sent"):
                ask(client, "anthropic", Loop("anthropic").request(), False)
        assert bool(recorder.bodies) == sent


@pytest.mark.parametrize("scenario", ["cut", "overloaded"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", ["anthropic", "chat", "responses"])
def test_a_failure_of_the_provider_is_what_it_is_without_softland(sim, protocol, stream, scenario):
    server = sim(scenario)

    def told():
        client = clients(protocol, server.url, httpx2.Client(), max_retries=0)
        try:
            return ask(client, protocol, Loop(protocol).request(), stream) and None
        except Exception as error:
            return type(error), getattr(error, "status_code", None)

    plain = told()
    softland.install(hosts=[server.host], **LIMITS)
    assert told() == plain


def test_retries_of_the_sdk_count_once(sim):
    server = sim("overloaded")
    softland.install(hosts=[server.host], tool_calls_limit=40)
    client = clients("anthropic", server.url, httpx2.Client(), max_retries=4)
    with softland.run() as run:
        _, calls = run_loop(client, "anthropic")
    assert run.outcome == "answered" and run.tool_calls == calls and run.turns == calls + 1


def test_a_host_that_refuses_connections_raises_what_the_sdk_raises(sim):
    server = sim("reader")
    server.stop()
    softland.install(hosts=[server.host], **LIMITS)
    client = clients("anthropic", server.url, httpx2.Client(), max_retries=0)
    with softland.run() as run, pytest.raises(anthropic.APIConnectionError) as raised:
        ask(client, "anthropic", Loop("anthropic").request(), False)
    assert isinstance(raised.value.__cause__, httpx2.ConnectError)
    assert run.cost_usd == 0


def test_a_task_that_is_cancelled_in_mid_stream_is_booked(sim):
    server = sim("slow")
    softland.install(hosts=[server.host], **LIMITS)

    async def main():
        client = clients("anthropic", server.url, httpx2.AsyncClient(), is_async=True)
        began = asyncio.Event()

        async def read():
            async with client.messages.stream(**Loop("anthropic").request()) as events:
                async for _ in events:
                    began.set()

        with softland.run() as run:
            task = asyncio.create_task(read())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return run

    run = asyncio.run(main())
    assert run.cost_usd > 0 and run.outcome in (None, "cancelled")


def test_a_stream_that_is_left_or_forgotten_is_booked(sim):
    server = sim("reader")
    softland.install(hosts=[server.host], **LIMITS)
    client = clients("anthropic", server.url, httpx2.Client())
    asked = {**Loop("anthropic").request(), "stream": True}
    with softland.run() as left:
        events = client.messages.create(**asked)
        next(iter(events))
        events.close()
    with softland.run() as forgotten:
        events = client.messages.create(**asked)
        next(iter(events))
        del events
        gc.collect()
    assert left.cost_usd > 0 and forgotten.cost_usd > 0


def test_a_client_of_a_loop_that_is_closed_is_no_trouble(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], **LIMITS)
    for _ in range(2):
        http = httpx2.AsyncClient()
        client = clients("chat", server.url, http, is_async=True)

        async def main(client=client):
            async with softland.run() as run:
                await run_loop_async(client, "chat", stream=True)
            return run

        assert asyncio.run(main()).outcome == "landed"


def test_threads_and_pools_belong_to_the_run_around_them(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], **LIMITS)
    client = clients("anthropic", server.url, httpx2.Client())

    def work():
        return run_loop(client, "anthropic")[1]

    with ThreadPoolExecutor(2) as pool:
        with softland.run() as run:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert (run.outcome, run.tool_calls) == ("landed", 4)
        with softland.run() as one:
            first = pool.submit(work)
            first.result()
        with softland.run() as other:
            pool.submit(work).result()
        assert (one.tool_calls, other.tool_calls) == (4, 4)
        # Outside of any run, the thread of the pool is in none either.
        pool.submit(work).result()
        assert (one.tool_calls, other.tool_calls) == (4, 4)


def test_two_hundred_threads_at_once(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], **LIMITS)
    limits = httpx2.Limits(max_connections=None)
    client = clients("anthropic", server.url, httpx2.Client(limits=limits, timeout=200))
    ends = []

    def work(number):
        with softland.run(name=f"job-{number}") as run:
            run_loop(client, "anthropic", stream=number % 2 == 0, prompt=f"What of {number}?")
        ends.append((run.outcome, run.tool_calls))

    threads = [threading.Thread(target=work, args=[number]) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [("landed", 4)] * 200


def test_two_runs_at_once_are_kept_apart(sim):
    server = sim("looper")
    softland.install(hosts=[server.host], **LIMITS)

    async def one(client, name):
        async with softland.run(name=name) as run:
            _, calls = await run_loop_async(client, "anthropic", stream=True)
        return run, calls

    async def main():
        client = clients("anthropic", server.url, httpx2.AsyncClient(), is_async=True)
        return await asyncio.gather(one(client, "a"), one(client, "b"))

    for run, calls in asyncio.run(main()):
        assert (run.outcome, run.tool_calls, calls) == ("landed", 4, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_install_is_governed(sim):
    code = """
import os, sys, threading
sys.path.insert(0, sys.argv[2])
import httpx2, softland
from loops import clients, run_loop
url = sys.argv[1]
softland.install(hosts=[url.removeprefix("http://")], tool_calls_limit=4, repeat_limit=50)
run_loop(clients("anthropic", url, httpx2.Client()), "anthropic")
busy, stop = threading.Event(), threading.Event()
def work():
    while not stop.is_set():
        run_loop(clients("anthropic", url, httpx2.Client()), "anthropic")
        busy.set()
thread = threading.Thread(target=work)
thread.start()
busy.wait()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        with softland.run() as run:
            run_loop(clients("anthropic", url, httpx2.Client()), "anthropic", stream=True)
        os._exit(0 if (run.outcome, run.tool_calls) == ("landed", 4) else 1)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
stop.set()
thread.join()
print(ends)
"""
    server = sim("looper")
    assert python(code, server.url, str(Path(__file__).parent)) == "[0, 0, 0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_lose_nothing_of_the_ledger(sim, tmp_path):
    code = """
import multiprocessing, os, sys
sys.path.insert(0, sys.argv[2])
import httpx2, softland
from loops import Loop, clients, run_loop
url, ledger = sys.argv[1], sys.argv[3]
softland.install(
    hosts=[url.removeprefix("http://")], ledger=f"sqlite:{ledger}", tool_calls_limit=4, repeat_limit=50
)
def work(name):
    with softland.run(name=name) as run:
        run_loop(clients("anthropic", url, httpx2.Client()), "anthropic")
    print(run.id, run.outcome, run.tool_calls, flush=True)
work("parent")
# A stream and a run of the parent, which are open in each child as well.
opened = clients("anthropic", url, httpx2.Client()).messages.create(**Loop("anthropic").request(), stream=True)
next(iter(opened))
children = []
with softland.run(name="around") as around:
    for _ in range(2):
        child = os.fork()
        if child == 0:
            work("child")
            print(around.id, around.outcome, around.tool_calls, flush=True)
            sys.exit()
        children.append(child)
    ends = [os.waitpid(child, 0)[1] for child in children]
process = multiprocessing.get_context("fork").Process(target=work, args=["pool"])
process.start()
process.join()
work("parent")
opened.close()
print([*ends, process.exitcode])
"""
    server, ledger = sim("looper"), tmp_path / "runs.db"
    *lines, ends = python(code, server.url, str(Path(__file__).parent), str(ledger)).splitlines()
    assert ends == "[0, 0, 0]"
    told = [line.split() for line in lines]
    around = [line for line in told if line[0].startswith("around-")]
    assert [line[1:] for line in around] == [["None", "0"]] * 2
    worked = [line for line in told if not line[0].startswith("around-")]
    names = [name.rpartition("-")[0] for name, *_ in worked]
    assert (names.count("child"), names.count("pool")) == (2, 1) and names.count("parent") == 2
    for name, outcome, calls in worked:
        assert (outcome, calls) == ("landed", "4")
        assert "landed: tool_calls" in show(name, ledger)


def show(name, ledger):
    command = [binary(), "show", name, "--ledger", str(ledger)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown
    return shown.stdout


def test_a_program_that_ends_has_written_its_ledger(sim, tmp_path):
    code = """
import sys
sys.path.insert(0, sys.argv[2])
import httpx2, softland
from loops import Loop, clients, run_loop
url, ledger = sys.argv[1], sys.argv[3]
softland.install(hosts=[url.removeprefix("http://")], ledger=f"sqlite:{ledger}", tool_calls_limit=4, repeat_limit=50)
client = clients("anthropic", url, httpx2.Client())
with softland.run(name="whole"):
    run_loop(client, "anthropic")
with softland.run(name="open"):
    events = client.messages.create(**Loop("anthropic").request(), stream=True)
    next(iter(events))
"""
    server, ledger = sim("looper"), tmp_path / "runs.db"
    assert python(code, server.url, str(Path(__file__).parent), str(ledger)) == ""
    command = [binary(), "runs", "--ledger", str(ledger)]
    runs = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "landed" in runs and "open" not in runs.replace("open-", ""), runs


def test_a_shutdown_with_a_stream_open_ends(sim):
    code = """
import sys
sys.path.insert(0, sys.argv[2])
import httpx2, softland
from loops import Loop, clients
url = sys.argv[1]
softland.install(hosts=[url.removeprefix("http://")], tool_calls_limit=4)
client = clients("anthropic", url, httpx2.Client())
events = client.messages.create(**Loop("anthropic").request(), stream=True)
print(next(iter(events)).type)
"""
    server = sim("slow")
    assert python(code, server.url, str(Path(__file__).parent)) == "message_start\n"


def test_wrong_keys_are_named():
    with pytest.raises(ValueError, match="did you mean `tool_calls_limit`"):
        softland.install(tool_call_limit=4)
    with pytest.raises(ValueError, match="a whole number, 0 or more"):
        softland.run(tool_calls_limit=-1)
    with pytest.raises(ValueError, match="did you mean `coding`"):
        softland.install("codin")
    with pytest.raises(TypeError, match="a list of hosts"):
        softland.install(hosts="localhost")
    with pytest.raises(ValueError, match="sqlite:PATH"):
        softland.install(ledger="softland.db")
    with pytest.raises(ValueError, match="on_failure"):
        softland.install(on_failure="ignore")


def test_an_argument_that_a_client_does_not_have_is_named_with_what_is_near():
    for call, told in [
        (lambda: softland.Client(tool_call_limit=4), "did you mean tool_calls_limit?"),
        (lambda: softland.AsyncClient(timeuot=4), "did you mean timeout?"),
        (lambda: softland.Transport(tool_call_limit=4), "did you mean tool_calls_limit?"),
        (lambda: softland.Transport(httpx2.AsyncHTTPTransport()), "use softland.AsyncTransport"),
        (lambda: softland.AsyncTransport(httpx2.HTTPTransport()), "use softland.Transport"),
    ]:
        with pytest.raises(TypeError, match=re.escape(told)):
            call()


def test_the_types_name_every_policy_key():
    keys = softland._native.policy_keys()
    assert sorted(importlib.import_module("softland._keys").PolicyKeys.__annotations__) == sorted(keys)


def test_what_is_wrong_in_a_config_is_told_with_its_place(tmp_path):
    config = tmp_path / "c#1.toml"
    price = '[[price]]\nmodel = "m"\ninput = 3\n'
    for text, told in [
        (price, f"{config}: the price of `m`: `output` is required"),
        ("[policy.mine]\nturns_limit = -1\n", f"{config}: [policy.mine]: "),
        ("[policy.mine]\nturn_limit = 1\n", "did you mean `turns_limit`"),
        ("[policy.my]\nturns_limit = 1\n", f"{config} has no [policy.mine]; it has my"),
    ]:
        config.write_text(text)
        with pytest.raises(ValueError, match=re.escape(told)):
            softland.install(f"{config}#mine")
    # A built-in policy takes the prices of a config.
    config.write_text(price + "output = 15\n")
    softland.install(f"{config}#coding")


def test_a_count_of_tokens_at_an_unknown_host_passes_under_a_limit_of_money(sim):
    server = sim("looper")
    softland.install(cost_limit_usd=1)
    client = anthropic.Anthropic(base_url=server.url, api_key="k", http_client=httpx2.Client())
    counted = client.messages.count_tokens(model="claude-sonnet-5-5", messages=[{"role": "user", "content": "a"}])
    assert counted.input_tokens > 0


def test_a_time_limit_lands_a_run(sim):
    server = sim("slow")
    softland.install(hosts=[server.host], time_limit="300ms", reserve_time="100ms")
    client = clients("anthropic", server.url, httpx2.Client())
    with softland.run() as run:
        answer, _ = run_loop(client, "anthropic", stream=True)
    assert answer.strip() and run.reason == "time"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("protocol", ["anthropic", "chat", "responses"])
def test_softland_answers_where_the_provider_is_slower_than_the_time_limit(sim, protocol, is_async, stream):
    """The SDK does not repeat anything here: the same call gets the answer."""
    server = sim("slow")
    softland.install(hosts=[server.host], time_limit="300ms", reserve_time="100ms")
    kind = httpx2.AsyncClient if is_async else httpx2.Client
    client = clients(protocol, server.url, kind(), is_async=is_async).with_options(max_retries=0)
    with softland.run() as run:
        if is_async:
            answer, _ = asyncio.run(run_loop_async(client, protocol, stream=stream))
        else:
            answer, _ = run_loop(client, protocol, stream=stream)
    assert answer.startswith("[This answer is softland's, not the model's.]")
    assert (run.outcome, run.reason, run.answered_by) == ("stopped", "time", "local")


def test_a_ledger_has_what_runs_did(sim, tmp_path):
    server, path = sim("looper"), tmp_path / "runs.db"
    softland.install(hosts=[server.host], ledger=f"sqlite:{path}", **LIMITS)
    with softland.run(name="kept") as run:
        run_loop(clients("anthropic", server.url, httpx2.Client()), "anthropic")
    softland.install(hosts=[server.host], **LIMITS)
    assert "landed" in show(run.id, path)


@pytest.mark.parametrize(
    "host",
    ["http://127.0.0.1:80", "127.0.0.1/", "127.0.0.1:80/v1", " a.test", "a.test:99999", "a.test:", "", "*"],
)
def test_a_host_that_no_request_can_have_is_refused(host):
    with pytest.raises(ValueError, match='hosts must be "HOST" or "HOST:PORT"'):
        softland.install(hosts=[host])


def test_arguments_that_cannot_work_are_refused_when_they_are_given(tmp_path):
    softland.install(hosts=["A.test", "a-b.test:8080", "[::1]:80", "localhost"])

    async def listen(event):
        """Would never be awaited."""

    gone = tmp_path / "gone" / "l.db"
    for arguments, error, told in [
        ({"hosts": [5]}, TypeError, "hosts must be texts; found 5"),
        ({"hosts": None}, TypeError, "hosts must be a list of hosts; found None"),
        ({"on_event": "x"}, TypeError, "on_event must be a function; found 'x'"),
        ({"on_event": listen}, TypeError, "on_event must be a plain function"),
        ({"ledger": 5}, TypeError, 'ledger must be "sqlite:PATH"; found 5'),
        ({"ledger": f"sqlite:{gone}"}, FileNotFoundError, "ledger: there is no folder"),
        ({"ledger": f"sqlite:{tmp_path}"}, IsADirectoryError, "is a folder, and must be a file"),
        ({"policy": tmp_path}, TypeError, 'policy must be a name or "FILE.toml#NAME"; found'),
        ({"tags": [1]}, TypeError, "tags must be texts; found 1"),
        ({"shared": 3}, TypeError, "shared must be an address; found 3"),
    ]:
        with pytest.raises(error, match=re.escape(told)):
            softland.install(**arguments)
    assert softland._state.process.default.hosts == {"a.test", "a-b.test:8080", "[::1]:80", "localhost"}
