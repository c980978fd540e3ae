"""What a governed request costs the shared store, and how a Redis bears the load of many.

    tests/fleet/capacity [--binary FILE] [--seconds N]

First one gateway serves some runs over a real Redis, behind a proxy that writes down what is asked of it. The
server's own counters say what each request and each run took. Then those scripts are asked again, under other
names, for as many runs a second as a tenth of 1,000,000 runs a day brings in its busiest hours.
"""

import hashlib
import json
import re
import socket
import statistics
import sys
import threading
import time

from world import PASSWORD, Conversation, World

# What is asked for on paper: runs a day, and how much more the busiest hour brings than the average one.
RUNS_A_DAY, BUSIEST = 1_000_000, 5
# The simulation has a tenth of them.
SHARE = 10
RUNS, WORKERS = 30, 16
BUDGETS = """
[[key]]
name = "ana"
token_sha256 = "%s"
account = "acme/search/ana"
policy = "default"
[[budget]]
account = "acme"
limit_usd = 100000
window = "month"
[[budget]]
account = "acme/search/*"
limit_usd = 10000
window = "day"
""" % hashlib.sha256(b"k" * 20).hexdigest()


def read_command(stream):
    """Reads one command as its client sends it; nothing at the end."""
    line = stream.readline()
    if not line.startswith(b"*"):
        return None
    words = []
    for _ in range(int(line[1:])):
        size = int(stream.readline()[1:])
        words.append(stream.read(size))
        stream.read(2)
    return words


def write_command(words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Proxy:
    """Passes on what comes, and keeps the commands."""

    def __init__(self, port):
        self.to, self.commands = port, []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.pass_commands, args=(client, server), daemon=True).start()
            threading.Thread(target=pass_bytes, args=(server, client), daemon=True).start()

    def pass_commands(self, client, server):
        stream = client.makefile("rb")
        while words := read_command(stream):
            self.commands.append(words)
            server.sendall(write_command(words))
        server.close()


def pass_bytes(one, other):
    try:
        while piece := one.recv(65536):
            other.sendall(piece)
    except OSError:
        pass


class Link:
    """A connection of its own, which asks and waits."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        self.ask(b"AUTH", PASSWORD.encode())

    def ask(self, *words):
        self.socket.sendall(write_command(words))
        return self.read()

    def read(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise SystemExit(f"Redis refuses: {rest!r}")
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(max(0, int(rest)))]
        return rest


def counters(link):
    """The numbers of INFO, and those of the scripts."""
    numbers = {}
    for section in (b"stats", b"memory", b"cpu", b"persistence", b"commandstats"):
        for line in link.ask(b"INFO", section).decode().splitlines():
            name, _, value = line.partition(":")
            if name == "cmdstat_evalsha":
                parts = dict(part.split("=") for part in value.split(","))
                numbers |= {"scripts": float(parts["calls"]), "usec": float(parts["usec"])}
            elif re.fullmatch(r"[\d.]+", value):
                numbers[name] = float(value)
    return numbers | {"keys": float(link.ask(b"DBSIZE"))}


def differences(before, after):
    return {name: after[name] - before.get(name, 0) for name in after}


def measure(world):
    """Serves some runs, and returns the scripts of each and what the server counted."""
    redis, proxy = world.store, Proxy(world.store.port)
    shared = f"redis://:{PASSWORD}@127.0.0.1:{proxy.port}"
    with world.gateways(1, shared, "tool_calls_limit = 50\ncost_limit_usd = 100", more=BUDGETS) as (_, [gateway]):
        link, headers = Link(redis.port), {"x_softland_key": "k" * 20}
        # The first run makes what all share.
        Conversation("the first", **headers).finish([gateway.port])
        quiet = counters(link)
        time.sleep(5)
        idle = differences(quiet, counters(link))
        runs, requests = [], 0
        before, began = counters(link), time.monotonic()
        for number in range(RUNS):
            start = len(proxy.commands)
            requests += Conversation(f"run {number}", **headers).finish([gateway.port])
            runs.append([words for words in proxy.commands[start:] if words[0].upper() == b"EVALSHA"])
        time.sleep(0.5)
        took, all_of = time.monotonic() - began, differences(before, counters(link))
    # What a gateway asks each second in any case is not a request's.
    for name in ("scripts", "total_net_input_bytes", "total_net_output_bytes"):
        all_of[name] -= idle[name] * took / 5
    print(f"{RUNS} runs, {requests} requests; an idle gateway: {idle['scripts'] / 5:.1f} scripts a second")
    each = requests
    print(f"a request: {all_of['scripts'] / each:.2f} round trips, {all_of['total_net_input_bytes'] / each:,.0f} bytes"
          f" to Redis, {all_of['total_net_output_bytes'] / each:,.0f} back, {all_of['usec'] / each:,.0f} us of scripts,"
          f" {all_of['aof_current_size'] / each:,.0f} bytes of its log")
    print(f"a run of {requests / RUNS:.1f} requests: {all_of['keys'] / RUNS:.1f} keys,"
          f" {all_of['used_memory'] / RUNS:,.0f} bytes of memory")
    return runs, requests / RUNS


def renamed(words, salt, note):
    """The script's call for another run: each digest and each id becomes another one, and each note is new."""
    def other(found):
        text = found[0]
        return hashlib.sha256((salt + text).encode()).hexdigest()[:len(text)]

    arguments = []
    for word in words[5:]:
        operation = re.sub(r"[0-9a-f]{16,64}", other, word.decode())
        arguments.append(re.sub(r'"note":\d+', lambda _: f'"note":{next(note)}', operation).encode())
    return [*words[:5], *arguments]


def simulate(world, runs, seconds):
    """Asks the scripts of runs again, at the rate of the busiest hours, and says how long each took."""
    rate = RUNS_A_DAY / SHARE / 86_400 * BUSIEST
    notes, lock, waits, late = iter(range(10_000_000, 1 << 50)), threading.Lock(), [], []
    link = Link(world.store.port)
    before, began = counters(link), time.monotonic()
    planned, taken = int(rate * seconds), iter(range(int(rate * seconds)))

    def work():
        own = Link(world.store.port)
        while True:
            with lock:
                number = next(taken, None)
            if number is None:
                return
            # The runs that a worker asks for at a time are interleaved with those of the others.
            begins = began + number / rate
            time.sleep(max(0, begins - time.monotonic()))
            late.append(time.monotonic() - begins)
            for words in runs[number % len(runs)]:
                call = renamed(words, f"{number}:", notes)
                asked = time.perf_counter()
                own.ask(*call)
                waits.append(time.perf_counter() - asked)

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took, all_of = time.monotonic() - began, differences(before, counters(link))
    waits.sort()
    used = all_of["used_cpu_user"] + all_of["used_cpu_sys"]
    print(f"{planned} runs in {took:.0f} s, {rate:.1f} a second: {len(waits) / took:.0f} scripts a second;"
          f" p50 {1000 * statistics.median(waits):.2f} ms, p99 {1000 * waits[len(waits) * 99 // 100]:.2f} ms;"
          f" the latest run began {max(late):.1f} s late")
    print(f"Redis: {100 * used / took:.0f} % of a core, {all_of['usec'] / len(waits):.0f} us a script,"
          f" {all_of['keys']:,.0f} keys and {all_of['used_memory'] / 1e6:.1f} MB more,"
          f" {all_of['aof_current_size'] / took / 1e6:.2f} MB of its log a second")
    assert took < seconds * 1.5, "the store does not bear it, or this machine cannot ask so fast"
    assert all_of["keys"] > planned, "each run has keys of its own"


def main():
    binary, server, work, seconds = sys.argv[1:]
    world = World(binary, f"redis:{server}", None, work)
    try:
        runs, _ = measure(world)
        assert all(len(scripts) > 20 for scripts in runs), "the scripts of each run are known"
        simulate(world, runs, float(seconds))
    finally:
        world.store.end()


if __name__ == "__main__":
    main()
