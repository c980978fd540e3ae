"""Whole gateways on one Redis or PostgreSQL. Each check is a function; the first that does not hold ends the test."""

import concurrent.futures
import hashlib
import json
import random
import re
import sys
import threading
import time

from releases import check_lines, check_replaced
from world import (
    COST, PASSWORD, PATIENCE, Balancer, Broken, Conversation, Provider, TOKEN, World, free_port, until,
)

QUESTIONS = ["plain reading", "an empty turn within", "unicode äß漢 reading"]
ADMIN = {"authorization": f"Bearer {TOKEN}"}


def check_bytes(world):
    """By turns through two gateways: the provider gets the bytes that one gateway sends, to the end of the run."""
    count = 0
    # Calls are counted from the history, tokens are kept in the store.
    for keys in ["tool_calls_limit = 6", "tokens_limit = 12000"]:
        seen = []
        for shared, gateways in [("memory:", 1), (world.store.url, 2)]:
            with world.gateways(gateways, shared, keys) as (provider, gateways):
                for question in QUESTIONS:
                    conversation = Conversation(question)
                    turns = conversation.finish([gateway.port for gateway in gateways])
                    assert 4 <= turns <= 8 and conversation.repeats == 0, (keys, question, turns)
                    assert len(set(conversation.runs)) == 1, "it is one run"
                seen.append(provider.bodies)
        assert seen[0].keys() == seen[1].keys()
        for question, bodies in seen[0].items():
            assert bodies == seen[1][question], f"{keys}, {question}: two gateways send other bytes than one"
        assert any(b"[no answer]" in body for body in seen[0]["an empty turn within"]), "it was nudged"
        count += sum(map(len, seen[0].values()))
    return f"{count} requests"


def check_killed(world, each=()):
    """A run of a gateway that is killed goes on elsewhere under its id, is listed and is cancelled."""
    with world.gateways(2, world.store.url, each=each) as (provider, (one, other)):
        conversation = Conversation("hold on to it")
        provider.holds.set()
        conversation.step(one.port)
        conversation.step(one.port)
        provider.holds.clear()
        begun = len(provider.bodies["hold on to it"])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            under_way = pool.submit(conversation.step, one.port)
            until(lambda: len(provider.bodies["hold on to it"]) > begun, "the request is with the provider")
            one.kill()
            assert isinstance(under_way.exception(), Broken), "its client's connection broke"
        provider.holds.set()
        conversation.step(other.port)
        [run] = set(conversation.runs)
        assert run, "the run has a name"
        rows = [row for row in other.read("/api/runs")["runs"] if row["run"] == run]
        assert len(rows) == 1 and "ended" not in rows[0], rows
        status, _, body = other.request("POST", f"/api/runs/{run}/cancel", "", **ADMIN)
        assert status == 200 and json.loads(body)["cancelled"] == [run], (status, body)
        status, _, body = other.ask(conversation.messages)
        assert status == 400 and b"cancelled" in body, (status, body)


def check_cancel(world, each=()):
    """A run that one gateway serves is listed and cancelled through the other."""
    with world.gateways(2, world.store.url, each=each) as (provider, (one, other)):
        conversation = Conversation("hold until cancelled")
        provider.holds.set()
        conversation.step(one.port)
        provider.holds.clear()
        run = conversation.runs[0]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            under_way = pool.submit(one.ask, conversation.messages)
            busy = lambda: any(row["run"] == run and row.get("busy") for row in other.read("/api/runs")["runs"])
            until(busy, "the other gateway lists it as busy")
            status, _, body = other.request("POST", f"/api/runs/{run}/cancel", "", **ADMIN)
            assert status == 200, (status, body)
            # The provider still holds its answer: only the cancellation ends this request.
            status, _, body = under_way.result()
            assert status == 400 and b"cancelled" in body, (status, body)
        for gateway in [one, other]:
            status, _, body = gateway.ask(conversation.messages)
            assert status == 400 and b"cancelled" in body, (status, body)


def check_deletion(world):
    """A run is deleted from the store, through the ledger of any gateway that served it, and no other run is."""
    with world.gateways(2, world.store.url, ledger="sqlite:ledger.db") as (provider, gateways):
        gone, kept = Conversation("an empty turn within"), Conversation("an empty turn within, for another")
        for conversation in [gone, kept]:
            conversation.finish([gateway.port for gateway in gateways])

        def delete(gateway, conversation):
            [run] = set(conversation.runs)
            listed = lambda: run in gateway.run("runs", "--json", "--config", "softland.toml").stdout
            until(listed, "the ledger has the run")
            told = gateway.run("runs", "--delete", run, "--config", "softland.toml")
            assert told.returncode == 0 and f"deleted {run}" in told.stderr and PASSWORD not in told.stderr, told
            assert not listed(), "the ledger has it no more"
            return re.search(r"deleted (\d+) conversations? from the shared store", told.stderr)[1]

        one, other = gateways
        assert [delete(one, gone), delete(other, gone), delete(one, kept)] == ["1", "0", "1"]


def check_money(world, sessions=50, binaries=()):
    """Many sessions at a time through two gateways: one limit is held, to the nano-dollar."""
    limit, keys = 300_000_000, "session_cost_limit_usd = 0.3"
    each = [(binary, keys) for binary in binaries]
    with world.gateways(2, world.store.url, keys, each=each) as (provider, gateways):
        ports = [gateway.port for gateway in gateways]
        talks = [Conversation(f"reading {number}", x_softland_session="shared") for number in range(sessions)]
        with concurrent.futures.ThreadPoolExecutor(sessions) as pool:
            done = pool.map(lambda talk: talk.finish([ports[talks.index(talk) % 2]]), talks)
            assert len(list(done)) == sessions
        assert limit * 9 // 10 <= provider.bill <= limit, f"{provider.bill} of {limit} is spent"
        until(lambda: world.store.accounts("session:shared")[1] == 0, "nothing stays reserved")
        spent, _ = world.store.accounts("session:shared")
        assert spent == provider.bill, (spent, provider.bill)
    return f"{provider.bill / 1e9} of {limit / 1e9} dollars"


def check_budget(world, sessions=8, limit=500_000_000):
    """One window of a budget under the sessions of three gateways: they land in it, and it is really spent."""
    more = f"""
[[key]]
name = "ana"
token_sha256 = "{hashlib.sha256(b"token-of-ana").hexdigest()}"
account = "acme/ana"
[[budget]]
account = "acme"
limit_usd = {limit / 1e9}
window = "day"
"""
    provider = Provider(delay=0.02, own_ids=True)
    with world.gateways(3, world.store.url, more=more, provider=provider) as (provider, gateways):
        ports = [gateway.port for gateway in gateways]

        def talk(number):
            conversation = Conversation(f"reading {number}", number % 2 == 0, x_softland_key="token-of-ana")
            # A stream waits for money in silence for up to half a minute.
            return conversation.finish([ports[number % 3]], patience=180)

        with concurrent.futures.ThreadPoolExecutor(sessions * 3) as pool:
            turns = sum(pool.map(talk, range(sessions * 12)))
        assert limit * 9 // 10 <= provider.bill <= limit, f"{provider.bill} of {limit} is spent"
        paid = lambda: world.store.accounts("budget:day:UTC:acme@") == (provider.bill, 0)
        until(paid, "the window is the bill, to the nano-dollar, and nothing stays reserved")
    return f"{turns} turns, {provider.bill / 1e9} of {limit / 1e9} dollars"


def check_loss(world):
    """The store ends and comes back: `closed` refuses where money is limited, others go on, and nothing is forgotten."""
    for policy, limit in [("closed", "cost_limit_usd = 1"), ("open", "cost_limit_usd = 1"), ("closed", "")]:
        keys = f'{limit}\non_store_loss = "{policy}"'
        with world.gateways(1, world.store.url, keys) as (provider, (gateway,)):
            conversation = Conversation("reading without a store")
            conversation.step(gateway.port)
            world.store.kill()
            asked = provider.asked
            status, _, body = gateway.ask(conversation.messages)
            if policy == "closed" and limit:
                assert status == 503 and provider.asked == asked, "nothing is sent"
                error = json.loads(body)["error"]
                assert "the cost limit cannot be enforced now" in error["message"], error
            else:
                assert status == 200, (status, body)
            world.store.start()
            until(lambda: gateway.ask(conversation.messages)[0] == 200, "it recovers by itself")
            before = conversation.runs[0]
            conversation.step(gateway.port)
            assert conversation.runs[-1] == before, "the same run goes on"
            said = "".join(gateway.said)
            assert "the shared store does not answer" in said and "the shared store answers again" in said, said
            if limit:
                paid = lambda: world.store.accounts("run:") == (provider.bill, 0)
                until(paid, f"{policy}: what was spent meanwhile is booked, once")


def check_keys(world):
    """Keys in the store: each gateway follows a change within 5 seconds, and no other token opens anything."""
    more = "[policy.coding]\ntool_calls_limit = 12\n[policy.strict]\ntool_calls_limit = 3"
    with world.gateways(2, world.store.url, more=more) as (provider, gateways):
        slowest = 0.0

        def keys(*words, status=0):
            done = gateways[0].run("keys", *words, "--config", "softland.toml")
            assert done.returncode == status, (words, done)
            return done.stdout.strip(), done.stderr

        def ask(gateway, token, **headers):
            question = [{"role": "user", "content": f"answer at once {random.random()}"}]
            return gateway.ask(question, x_softland_key=token, **headers)

        def in_force(token, wanted):
            nonlocal slowest
            began = time.monotonic()
            for gateway in gateways:
                until(lambda: ask(gateway, token)[0] == wanted, f"a token gets {wanted}")
            slowest = max(slowest, time.monotonic() - began)
            assert slowest < 5, f"in force after {slowest} s"

        assert ask(gateways[0], "nobodys")[0] == 200, "without keys everybody is served"
        ana, said = keys("add", "ana", "--account", "acme/ana", "--policy", "coding")
        assert ana.startswith("sl-") and len(ana) == 67 and ana not in said, said
        in_force("nobodys", 401)
        in_force(ana, 200)
        bo, _ = keys("add", "bo", "--policy", "coding", "--policies", "coding,strict")
        in_force(bo, 200)
        # What a key may select, and what it may not.
        for token, header, wanted in [(ana, "strict", "they may choose coding"), (bo, "strict", "0/3"),
                                      (bo, "default", "they may choose coding, strict")]:
            status, headers, body = ask(gateways[1], token, x_softland_policy=header)
            told = headers.get("x-softland-tool-calls", "") + body.decode()
            assert wanted in told and status == (200 if wanted[0] == "0" else 403), (header, status, told)
        # A forged token, run, session and history.
        for forged in [ana[:-1], ana + "0", ana.upper(), "sl-", "", bo[:40] + ana[40:], "ana"]:
            assert ask(gateways[0], forged)[0] == 401, forged
        conversation = Conversation("forged", x_softland_key=ana, x_softland_run="nightly")
        conversation.step(gateways[0].port)
        for headers in [{}, {"x_softland_run": "nightly"}, {"x_softland_session": "nightly"}]:
            status, told, _ = gateways[1].ask(conversation.messages, x_softland_key=bo, **headers)
            assert status == 200 and told["x-softland-run"] != conversation.runs[0], headers
        # Names and policies that a config refuses.
        for words in [("a/b",), ("a:b",), ("a b",), ("ana",), ("eve", "--account", "acme//eve"),
                      ("eve", "--policy", "codign"), ("eve", "--policies", "coding,lax"), ()]:
            assert keys("add", *words, status=2)[0] == "", words
        new, said = keys("rotate", "ana", "--grace", "1h")
        in_force(new, 200)
        assert ask(gateways[1], ana)[0] == 200 and "accepted until" in said, "the token before has an hour"
        newest, _ = keys("rotate", "ana")
        in_force(newest, 200)
        for token in (ana, new):
            in_force(token, 401)
        conversation.headers["x_softland_key"] = newest
        conversation.step(gateways[1].port)
        assert conversation.runs[0] == conversation.runs[1], "with a new token the run goes on"
        # A name that the config has, too: the config's key is in force, and the log says so.
        said = lambda gateway: "".join(gateway.said)
        for keys_of_config, wanted in [(f'[[key]]\nname = "bo"\ntoken_sha256 = "{"7" * 64}"\n', 401), ("", 200)]:
            gateways[1].reload(more=keys_of_config)
            until(lambda: ask(gateways[1], bo)[0] == wanted, f"after the reload the token gets {wanted}")
        told = said(gateways[1])
        assert 'both have a key of this name' in told and 'key="bo"' in told, told
        world.store.kill()
        for gateway in gateways:
            until(lambda: "those that were read last stay in force" in said(gateway), "it is logged")
        assert ask(gateways[0], newest)[0] == 200 and ask(gateways[0], new)[0] == 401
        assert "is not known" in keys("revoke", "ana", status=4)[1]
        gateways[1].kill()
        gateways[1].start()
        status, _, body = ask(gateways[1], newest)
        assert status == 503 and b"cannot be read" in body, (status, body)
        world.store.start()
        in_force(newest, 200)
        keys("revoke", "ana")
        in_force(newest, 401)
        assert "revoked" in keys("rotate", "ana", status=2)[1], "no new token brings it back"
        rows = [json.loads(line) for line in keys("list", "--format", "json")[0].splitlines()]
        assert [(row["name"], row["revoked"] is not None) for row in rows] == [("ana", True), ("bo", False)], rows
        tokens = [token.encode() for token in (ana, bo, new, newest)]
        for file in world.work.rglob("*"):
            held = file.read_bytes() if file.is_file() else b""
            assert not any(token in held for token in tokens), f"{file} has a token"
        assert not any(token.decode() in said(gateway) for token in tokens for gateway in gateways)
        assert not any(b"sl-" in body for bodies in provider.bodies.values() for body in bodies)
    return f"in force after {slowest:.1f} s at most"


def check_balanced(world, sessions=15, minutes=0.0):
    """Three gateways behind a balancer: whichever is killed, limits hold and every client is answered."""
    # In short, the limit is not reached: what a killed gateway has reserved is held for a minute.
    limit = 2_000_000_000
    keys = "tool_calls_limit = 6"
    more = f"[policy.money]\nsession_cost_limit_usd = {limit / 1e9}"
    ports = [free_port() for _ in range(3)]
    provider = Provider(delay=0.05, refused_every=17, own_ids=True)
    with world.gateways(3, world.store.url, keys, ports, more, provider) as (provider, gateways):
        balancer = Balancer(world.nginx, world.work, ports)
        try:
            return balance(world, balancer, provider, gateways, (sessions, minutes, limit))
        finally:
            balancer.end()


def balance(world, balancer, provider, gateways, load):
    sessions, minutes, limit = load
    is_over, chance, kills = threading.Event(), random.Random(36), []
    lock, splits = threading.Lock(), []

    def slow_calls():
        """What the gateways say of calls that the store has not answered in time."""
        said = [line for gateway in gateways for line in list(gateway.said)]
        return [line for line in said if "the shared store does not answer" in line]

    def leaves():
        with lock:
            return chance.random() < 0.05

    def kill():
        # A gateway is killed while requests are with the provider, and comes back, again and again.
        for number in range(10**6):
            if is_over.wait(1.0 if minutes else 0.5) or minutes and time.monotonic() > end:
                return
            until(lambda: provider.under_way or is_over.is_set(), "a request is under way", PATIENCE + 60 * minutes)
            gateway = gateways[number % 3]
            gateway.kill()
            kills.append(gateway.port)
            gateway.start()

    def talk(number):
        """Returns how often the client has asked again."""
        named = {"x_softland_policy": "money", "x_softland_session": "all"} if number % 2 else {}
        conversation = Conversation(f"reading {number}", number % 4 > 1, **named)
        # A stream that waits for money is broken with its gateway, and waits anew.
        conversation.finish([balancer.port], leaves, 120 + 60 * minutes)
        # A client that leaves cancels its run. On a machine so loaded that a call of the store takes more than
        # its 5 seconds, the conversation is not found, and the log says so.
        one = conversation.has_left or len(conversation.open_runs) <= 1
        assert one or slow_calls(), f"one run from end to end: {conversation.runs}"
        splits.append(not one)
        assert named or conversation.results == 6, f"{conversation.results} calls of 6"
        return conversation.repeats

    def talks(number):
        """One conversation after the other, with pauses: what is told at once that the money is spent would spin."""
        repeats = []
        while not repeats or time.monotonic() < end:
            # As many further as keep the kind.
            repeats.append(talk(number + len(repeats) * sessions * 4))
            is_over.wait(5 if minutes else 0)
        return repeats

    end = time.monotonic() + 60 * minutes
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(sessions * 3) as pool:
            repeats = sum(pool.map(talks, range(sessions * 3)), [])
    finally:
        is_over.set()
        killer.join()
    assert kills, "a gateway was killed"
    bill = sum(len(bodies) for question, bodies in provider.bodies.items() if int(question.split()[1]) % 2) * 4_500_000
    spent, held = world.store.accounts("session:all")
    assert bill <= spent + held <= limit, f"{bill} is asked, {spent} spent and {held} held, of {limit}"
    if minutes:
        # What a killed gateway had reserved is booked when its lease ends.
        until(lambda: world.store.accounts("session:all")[1] == 0, "leases end", 120)
        spent, _ = world.store.accounts("session:all")
        assert bill <= spent <= limit, f"{bill} is asked and {spent} spent, of {limit}"
    return (f"{len(repeats)} conversations, {len(kills)} kills, {sum(repeats)} requests sent again, "
            f"{len(slow_calls())} slow calls, {sum(splits)} runs split by them; "
            f"asked {bill / 1e9}, booked {(spent + held) / 1e9} of {limit / 1e9} dollars")


def check_store_killed(world, sessions=8, minutes=2.0):
    """The store is killed under load, again and again: `closed` sends nothing, others go on, and all is booked once."""
    kinds = ["closed", "open", "free"]
    more = "".join(f'[policy.{kind}]\nsession_cost_limit_usd = 1000\non_store_loss = "{kind}"\n' for kind in kinds[:2])
    provider = Provider(delay=0.05, own_ids=True)
    with world.gateways(3, world.store.url, more=more, provider=provider) as (provider, gateways):
        ports = [gateway.port for gateway in gateways]
        is_over, outages, turns = threading.Event(), [], dict.fromkeys(kinds, 0)

        def sent(kind):
            with provider.lock:
                return sum(len(bodies) for question, bodies in provider.bodies.items() if kind in question)

        def outage():
            world.store.kill()
            # A call that was under way has failed by then.
            is_over.wait(6)
            before = {kind: sent(kind) for kind in kinds}
            until(lambda: all(sent(kind) > before[kind] for kind in kinds[1:]), "others go on without the store")
            is_over.wait(1)
            assert sent("closed") == before["closed"], "nothing is sent where money is limited"
            world.store.start()
            until(lambda: sent("closed") > before["closed"], "it recovers by itself")
            outages.append(world.store)

        def talk(number):
            kind, rounds = kinds[number % 3], 0
            named = {"x_softland_policy": kind, "x_softland_session": kind} if kind != "free" else {}
            while not is_over.is_set():
                conversation = Conversation(f"{kind} {number} {rounds}", number % 2 == 0, **named)
                turns[kind] += conversation.finish([ports[number % 3]], patience=180)
                rounds += 1

        with concurrent.futures.ThreadPoolExecutor(sessions * 3) as pool:
            talks = [pool.submit(talk, number) for number in range(sessions * 3)]
            try:
                end = time.monotonic() + 60 * minutes
                while time.monotonic() < end:
                    is_over.wait(2)
                    outage()
            finally:
                is_over.set()
            for one in talks:
                one.result()
        for kind in kinds[:2]:
            booked = lambda: world.store.accounts(f"session:{kind}") == (sent(kind) * COST, 0)
            until(booked, f"{kind}: the account is the bill, to the nano-dollar", 90)
        said = "".join(line for gateway in gateways for line in gateway.said)
        assert "the shared store does not answer" in said and "the shared store answers again" in said, said
    return f"{len(outages)} outages, {turns} turns"


def check_all(world, long):
    checks = [check_bytes, check_killed, check_cancel, check_deletion, check_money, check_loss, check_keys]
    for check in checks:
        report(check.__name__, check, world)
    report("check_budget", check_budget, world, *([50, 2_000_000_000] if long else []))
    if not world.nginx:
        print("fleet: check_balanced: skipped: no nginx here, and Debian has not given one", flush=True)
    elif long:
        report("check_balanced", check_balanced, world, 50, 3.0)
    else:
        report("check_balanced", check_balanced, world)
    if long:
        report("check_store_killed", check_store_killed, world)


def check_releases(world, other):
    """A gateway of this release and one of another, by turns."""
    pairs = [(other, world.binary), (world.binary, other)]
    report("check_lines", check_lines, world, other)
    report("check_replaced", check_replaced, world, other)
    for name, pair in zip(["older first", "newer first"], pairs):
        each = [(binary, "tool_calls_limit = 6") for binary in pair]
        report(f"check_killed, {name}", check_killed, world, each)
        report(f"check_cancel, {name}", check_cancel, world, each)
    report("check_money", check_money, world, 50, pairs[0])


def main(binary, store, nginx, work, *options):
    world = World(binary, store, nginx, work)
    print(f"fleet: on {world.store.name}", flush=True)
    try:
        if options[:1] == ("--other",):
            check_releases(world, options[1])
        else:
            check_all(world, options)
    finally:
        world.store.end()


def report(name, check, *given):
    began = time.monotonic()
    what = check(*given)
    print(f"fleet: {name}: {what or 'holds'} ({time.monotonic() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
