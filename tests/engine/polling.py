"""What it costs to follow a run by asking again and again, and how late its events come.

    polling.py BINARY RESTATE-SERVER WORK
"""

import datetime
import json
import os
import statistics
import subprocess
import sys
import time

from stack import Stack, until

# The runs whose events are timed, those who follow a run that does nothing, and the seconds that they are watched.
RUNS, FOLLOWERS, SECONDS = 5, 20, 20


def main(binary, program, work):
    with Stack(binary, program, work, "polling") as stack:
        worker = stack.worker()
        print(delays(stack))
        print(cost(stack, worker))


def delays(stack):
    """How long behind its own time an event is printed by the program that follows the run."""
    stack.folder.take(0.5)
    late, took = [], []
    for _ in range(RUNS):
        process = subprocess.Popen([stack.binary, "run", "lead", "Go.", "--engine", stack.url, "--format", "json"],
                                   env=stack.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        began = time.monotonic()
        for line in process.stdout:
            event = json.loads(line)
            told = datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()
            late.append(time.time() - told)
        took.append(time.monotonic() - began)
        assert process.wait() == 0
    late.sort()
    return (f"{len(late)} events of {RUNS} runs of {statistics.median(took):.1f} s: late by {ms(statistics.median(late))} "
            f"in the median, {ms(late[len(late) * 95 // 100])} at the 95th percentile, {ms(late[-1])} at most")


def cost(stack, worker):
    """The processor time that is used while a call runs and nothing happens, without followers and with them."""
    stack.folder.forget()
    stack.folder.take(600)
    follower, run = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    follower.process.kill()
    processes = {"the server": stack.server.process.pid, "the worker": worker.process.pid}
    alone = used(processes)
    followers = [stack.keep(stack.follow("--attach", run)) for _ in range(FOLLOWERS)]
    until(lambda: all(each.lines for each in followers), "all follow")
    time.sleep(5)
    first = followers[0].process.pid
    with_all = used(processes | {"the program that follows": first})
    for each in followers:
        each.process.kill()
    worker.kill()
    spent = {name: (with_all[name] - alone[name]) / FOLLOWERS for name in processes}
    spent["the program that follows"] = with_all["the program that follows"]
    told = ", ".join(f"{name} {1000 * seconds / SECONDS:.1f} ms" for name, seconds in spent.items())
    return f"processor time a second for each who follows a run in which nothing happens: {told}"


def used(processes):
    before = {name: cpu(pid) for name, pid in processes.items()}
    time.sleep(SECONDS)
    return {name: cpu(pid) - before[name] for name, pid in processes.items()}


def cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ms(seconds):
    return f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main(*sys.argv[1:])
