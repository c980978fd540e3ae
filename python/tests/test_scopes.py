"""Which limits hold where: of runs, clients, transports and `install()`, and in which threads."""

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from conftest import Server
from loops import Loop, ask, ask_async, clients, run_loop

import softland
from softland import _state

# The simulated looper asks the same again and again.
PATIENT = {"repeat_limit": 1000, "cycle_limit": 1000}
PRICED = """
[policy.job]
tool_calls_limit = 30
repeat_limit = 1000

[[price]]
model = "looper@claude-sonnet-5-5"
input = 1
output = 2
"""


def question(what, **more):
    return {**Loop("anthropic", f"What did we decide about {what}?").request(), **more}


def ask_about(client, what, **more):
    return ask(client, "anthropic", question(what, **more), False)


@pytest.fixture
def looper(sim):
    return sim("looper")


def plain_client(server):
    return clients("anthropic", server.url, httpx2.Client())


class Subclass(threading.Thread):
    """A thread as many programs write it."""

    def __init__(self, work):
        super().__init__()
        self.work = work

    def run(self):
        self.work()


def test_threads_with_a_run_method_of_their_own_belong_to_the_run(looper):
    softland.install(hosts=[looper.host], **PATIENT)
    client = plain_client(looper)
    for make in (Subclass, lambda work: threading.Timer(0, work), lambda work: threading.Thread(target=work)):
        calls = []
        with softland.run(tool_calls_limit=2) as run:
            thread = make(lambda: calls.append(run_loop(client, "anthropic")[1]))
            thread.start()
            thread.join()
        assert (run.outcome, run.tool_calls, calls) == ("landed", 2, [2]), make
        assert "run" not in vars(thread), "it is as it was"
        with pytest.raises(RuntimeError):
            thread.start()


def test_a_run_method_that_is_set_on_a_thread_stays(looper):
    softland.install(hosts=[looper.host])
    found = []
    with softland.run() as run:
        thread = threading.Thread()
        mine = thread.run = lambda: found.append(_state.find_run())
        thread.start()
        thread.join()
    assert found == [run] and thread.run is mine


def test_conversations_of_one_run_share_its_tokens_and_its_time(looper):
    softland.install(hosts=[looper.host], **PATIENT)
    client = plain_client(looper)
    for limits, reason in (({"tokens_limit": 3000, "reserve_tokens": 50}, "tokens"), ({"time_limit": "1500ms"}, "time")):
        with softland.run(**limits) as run:
            first = 0
            while run.reason is None:
                first += 1
                assert first < 10_000
                ask_about(client, f"{reason} {first}", max_tokens=50)
            message = ask_about(client, f"{reason} once more", max_tokens=50)
            assert message.stop_reason == "end_turn", "it answers at once"
        assert first > 1, "the first one has all of it"
        assert run.reason == reason
        with softland.run(**limits) as other:
            ask_about(client, f"{reason} of another run", max_tokens=50)
        assert other.reason is None


def test_what_a_run_does_not_say_is_as_it_is_installed(looper, tmp_path):
    softland.install(hosts=[looper.host], tool_calls_limit=2, cost_limit_usd=1, **PATIENT)
    client = plain_client(looper)
    for said in ({"hosts": ["other.test"]}, {"tags": ["use_tool"]}, {"on_failure": "pass"}, {"countdown": "off"}):
        with softland.run(**said) as run:
            run_loop(client, "anthropic", prompt=f"What of {said}?")
        assert (run.outcome, run.reason, run.tool_calls) == ("landed", "tool_calls", 2), said
    with softland.run(tool_calls_limit=1):
        with softland.run(hosts=["other.test"]) as run:
            run_loop(client, "anthropic", prompt="What of nested runs?")
    assert run.tool_calls == 1, "as it is around it"
    # A limit of money is installed, and holds beside those of the run.
    with softland.run(tool_calls_limit=9):
        with pytest.raises(softland.GovernorError, match="limit of money"):
            ask_about(clients("anthropic", "http://localhost.test:1", httpx2.Client()), "money")
    # A policy by its name is all of the policy.
    with softland.run(policy="default", **PATIENT) as run:
        for number in range(4):
            ask_about(client, "names")
        assert run.policy.over(_state.process.default).limits_money is False


def test_prices_and_tags_hold_for_runs_with_limits_of_their_own(looper, tmp_path):
    config = tmp_path / "softland.toml"
    config.write_text(PRICED)
    softland.install(policy=f"{config}#job", hosts=[looper.host])
    client = plain_client(looper)
    with softland.run(cost_limit_usd=1) as run:
        ask_about(client, "prices", model="looper@claude-sonnet-5-5")
    assert run.cost_usd > 0
    made = softland.run(tool_calls_limit=3).policy.over(softland._state.Policy(tags=["use_tool"]))
    assert made.tags == ["use_tool"] and made.limits


def test_a_transport_has_its_limits_also_beside_install(looper):
    softland.install(hosts=[looper.host], tool_calls_limit=9, **PATIENT)
    limits = {"hosts": [looper.host], "tool_calls_limit": 2}
    transport = softland.Transport(httpx2.HTTPTransport(), **limits)
    client = clients("anthropic", looper.url, httpx2.Client(transport=transport))
    assert run_loop(client, "anthropic")[1] == 2

    async def turns():
        http_client = httpx2.AsyncClient(transport=softland.AsyncTransport(**limits))
        client = clients("anthropic", looper.url, http_client, is_async=True)
        loop = Loop("anthropic", "What of transports?")
        while loop.take(await ask_async(client, "anthropic", loop.request(), False)) is None:
            assert loop.calls < 9
        return loop.calls

    assert asyncio.run(turns()) == 2


def test_what_outlives_a_run_belongs_to_the_run_around_it(looper):
    softland.install(hosts=[looper.host], **PATIENT)
    client = plain_client(looper)
    ended = threading.Event()

    def work():
        ended.wait(60)
        return run_loop(client, "anthropic")[1]

    with ThreadPoolExecutor(1) as pool, softland.run(tool_calls_limit=2) as outer:
        with softland.run(tool_calls_limit=1):
            working = pool.submit(work)
        ended.set()
        assert working.result() == 2
    assert (outer.outcome, outer.tool_calls) == ("landed", 2)


def test_hosts_may_be_named_with_the_port_that_a_url_leaves_out():
    for named, url in (
        ("llm.test:443", "https://llm.test/v1/messages"),
        ("llm.test:443", "https://llm.test:443/v1/messages"),
        ("llm.test:80", "http://llm.test/v1/messages"),
        ("[::1]:8080", "http://[::1]:8080/v1/messages"),
    ):
        with httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500))) as client:
            softland.install(hosts=[named])
            with softland.run() as run:
                client.post(url, json=question("ports"))
        assert (run.ungoverned, len(run.runs)) == (0, 1), (named, url)
    softland.install(hosts=["llm.test:443"])
    with softland.run() as run, httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500))) as client:
        client.post("http://llm.test/v1/messages", json=question("ports"))
    assert run.ungoverned == 1, "another port"


def test_a_run_behind_a_gateway_knows_no_cost(looper, tmp_path):
    config = tmp_path / "softland.toml"
    config.write_text(f'listen = "127.0.0.1:0"\n[upstream.anthropic]\nbase_url = "{looper.url}"\n')
    gateway = Server("serve", "--config", str(config))
    try:
        softland.install(hosts=[gateway.host])
        client = clients("anthropic", gateway.url, httpx2.Client())
        with softland.run() as outer, softland.run() as run:
            ask_about(client, "gateways")
            ask_about(client, "gateways, again")
        assert (run.cost_usd, outer.cost_usd) == (None, None)
    finally:
        gateway.stop()


def test_an_error_of_the_governor_goes_from_process_to_process(looper):
    softland.install(cost_limit_usd=1)
    with pytest.raises(softland.GovernorError) as raised:
        ask_about(plain_client(looper), "pickles")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is type(raised.value) and str(copy) == str(raised.value)
