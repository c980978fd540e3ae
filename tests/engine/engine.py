"""The program itself on a real server of Restate. Each check is a function; the first that does not hold ends the
test.

    engine.py BINARY RESTATE-SERVER HAPROXY WORK [--long]
"""

import hashlib
import json
import shutil
import signal
import sys
import time

import balanced
import cluster
from stack import COST_USD, Gateway, KEYS, Stack, until
from told import sound, told


def check_commands(stack):
    """Each command for runs of an engine, as a person uses it."""
    _, said = stack.softland("run", "lead", "Go.", "--engine", "http://127.0.0.1:9", status=4)
    assert "the engine at http://127.0.0.1:9: " in said, said
    _, said = stack.softland("run", "lead", "Go.", "--engine", stack.url, status=2)
    assert "knows no worker of softland: start one with softland worker" in said, said
    worker = stack.worker()
    answer, said = stack.softland("run", "lead", "Go.", "--engine", stack.url)
    run = said.split()[0]
    assert said.startswith(f"{run} on {stack.url}"), said
    assert answer.count("is done") == len(KEYS), answer
    again, followed = stack.softland("run", "--attach", run, "--engine", stack.url)
    assert again == answer, "following again prints the same answer"
    assert followed == said, "and the same report, with the time that the run took"
    lines, _ = stack.softland("run", "--attach", run, "--engine", stack.url, "--format", "json")
    events = [json.loads(line) for line in lines.splitlines()]
    report = told(events)
    assert report["outcome"] == "answered" and events[0]["run"] == run, report
    assert report["cost_usd"] >= stack.model.asked * COST_USD * 0.9999, (report, stack.model.asked)
    sound(stack.folder, [report])
    stack.answer = report["answer"]
    listed, _ = stack.softland("runs", "--engine", stack.url)
    assert listed.split()[:3] == [run, "answered:", "final"], listed
    rows, _ = stack.softland("runs", "--engine", stack.url, "--json")
    row = json.loads(rows)
    assert [row[key] for key in ("run", "state", "outcome", "reason")] == [run, "completed", "answered", "final"], row
    _, said = stack.softland("cancel", run, "--engine", stack.url)
    assert said.strip().endswith(f"{run} has ended"), said
    stack.softland("runs", "--delete", "run-none", "--engine", stack.url, status=2)
    left = "SELECT id FROM sys_invocation WHERE target_service_name = 'SoftlandRunList'"
    until(lambda: not stack.server.query(left), "lists and deletions leave nothing behind")
    lines, _ = stack.softland("run", "ghost", "Go.", "--engine", stack.url, "--format", "json", status=2)
    refused = told([json.loads(line) for line in lines.splitlines()])
    assert (refused["outcome"], refused["reason"]) == ("failed", "setup"), refused
    assert [refused["run"], "failed:", "setup"] in listed_words(stack), "it is listed as refused"
    _, said = stack.softland("run", "--attach", "run-none", "--engine", stack.url, status=2)
    assert "run-none on " not in said, said
    bare, admin = stack.url.removeprefix("http://"), f"http://{stack.server.admin}"
    for words, why in [
            (("runs", "--engine", bare), f"such as {stack.url}"),
            (("runs", "--engine", admin), f"{admin} is not the address at which Restate takes requests"),
            (("cancel", f"{run}.1", "--engine", stack.url), f"kept with the run that began it: {run}"),
            (("worker", "--agents", str(stack.folder.agents), "--restate", stack.url),
             f"--restate: {stack.url} is not the address of Restate's administration"),
            (("worker", "--agents", str(stack.folder.agents), "--restate", admin, "--advertise", "10.0.0.5:9080"),
             "--advertise: `10.0.0.5:9080` is not the address of a worker: it must begin with http://")]:
        if words[0] == "worker":
            words += ("--model", "sim/reader", "--allow-shell")
        _, said = stack.softland(*words, status=2)
        assert why in said, said
    for words, why in [(("run", "ghost", "Go."), "the worker has no agent `ghost`; its agents are: "),
                       (("run", "--attach", "run-none"), "no run run-none is kept at"),
                       (("cancel", "run-none"), "no run run-none is kept at")]:
        _, said = stack.softland(*words, "--engine", stack.url, status=2)
        assert why in said, said
    worker.kill()


def listed_words(stack):
    """Returns the first words of each run in the list."""
    listed, _ = stack.softland("runs", "--engine", stack.url)
    return [line.split()[:3] for line in listed.splitlines()]


def check_cancel(stack):
    """A run is cancelled from elsewhere while its call runs; whoever only followed it has not ended it."""
    stack.folder.forget()
    stack.folder.take(60)
    worker = stack.worker()
    follower, run = stack.begin("lead")
    until(lambda: stack.folder.ran, "a call runs")
    follower.process.send_signal(signal.SIGINT)
    status, _ = follower.end()
    assert status == 130 and f"{run} goes on" in "".join(follower.noted), (status, follower.noted)
    follower = stack.follow("--attach", run)
    _, said = stack.softland("cancel", run, "--engine", stack.url)
    assert f"cancelling {run}" in said, said
    began = time.monotonic()
    status, events = follower.end()
    took = time.monotonic() - began
    assert status == 130 and told(events)["outcome"] == "cancelled", (status, events[-1])
    until(lambda: [run, "cancelled:", "user"] in listed_words(stack), "it is listed as cancelled")
    assert took < 20, f"the call went on for {took:.1f} s"
    stack.folder.take(0.03)
    worker.kill()
    return f"after {took:.1f} s"


def check_paused(stack):
    """A run that the engine has paused is listed so, told to those who follow it, and goes on when it is resumed."""
    stack.folder.forget()
    stack.folder.take(60)
    worker = stack.worker("paused")
    follower, run = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    worker.kill()
    until(lambda: stack.server.invocation(run)["status"] == "backing-off", "the engine tries again")
    id = stack.server.invocation(run)["id"]
    stack.server.ask("PATCH", f"invocations/{id}/pause")
    until(lambda: stack.server.invocation(run)["status"] == "paused", "the engine pauses the run")
    stack.folder.take(0.03)
    worker = stack.worker("paused", listen=worker.listen)
    status, events = follower.end()
    said = "".join(follower.noted)
    assert status == 4 and f"{run} is paused by the engine" in said and f"resume {id}" in said, (status, said)
    assert not any(event["event"] in ("done", "error") for event in events), "it has not ended"
    listed, _ = stack.softland("runs", "--engine", stack.url)
    assert [run, "paused"] in [line.split()[:2] for line in listed.splitlines()], listed
    _, said = stack.softland("run", "--attach", run, "--engine", stack.url, status=4)
    assert f"{run} is paused by the engine" in said, said
    stack.server.ask("PATCH", f"invocations/{id}/resume")
    status, events = stack.follow("--attach", run).end()
    assert status == 0 and told(events)["outcome"] == "answered", (status, events[-1])
    worker.kill()


def check_late_end(stack):
    """A cancelled run on which nobody works is ended by the engine after a time, and told as cancelled, each run of its
    tree once. Until then it is not deleted."""
    stack.folder.forget()
    stack.folder.take(0.3)
    worker = stack.worker("late")
    follower, run = stack.begin("lead")
    until(lambda: "p2" in stack.folder.ran, "the run is on its way")
    stack.folder.take(60)
    until(lambda: "n8" in stack.folder.ran, "the sub-agents are at work")
    worker.kill()
    until(lambda: stack.server.invocation(run)["status"] == "backing-off", "the engine tries again")
    stack.server.ask("PATCH", f"invocations/{stack.server.invocation(run)['id']}/pause")
    until(lambda: stack.server.invocation(run)["status"] == "paused", "the engine pauses the run")
    worker = stack.worker("late", listen=worker.listen)
    status, _ = follower.end()
    assert status == 4, (status, follower.noted)
    _, said = stack.softland("cancel", run, "--engine", stack.url)
    assert f"cancelling {run}; if it has not ended in 30 s, the engine ends it" in said, said
    _, said = stack.softland("runs", "--delete", run, "--engine", stack.url, status=2)
    assert f"{run} has not ended: softland cancel {run}" in said, said
    began = time.monotonic()
    until(lambda: stack.server.invocation(run)["status"] == "completed", "the engine ends the run")
    took = time.monotonic() - began
    assert 20 < took < 50, f"after {took:.1f} s"
    first, again = (stack.follow("--attach", run).end() for _ in range(2))
    assert first == again, (first, again)
    status, events = first
    report = told(events)
    assert status == 130 and report["outcome"] == "cancelled" and report["cost_usd"] is None, (status, report)
    assert len({event["run"] for event in events}) == 3, "the sub-agents have begun"
    assert [run, "cancelled:", "user"] in listed_words(stack), "it is listed as cancelled"
    stack.softland("runs", "--delete", run, "--engine", stack.url)
    until(lambda: not any(stack.server.kept(run).values()), "all is gone")
    stack.folder.take(0.03)
    worker.kill()
    return f"after {took:.1f} s"


def check_ended_by_the_engine(stack):
    """A run that is ended with the engine's own programs is told as cancelled, and nothing of it is left when it is
    deleted."""
    worker = stack.worker()
    stack.folder.take(3)
    for way in ("kill", "cancel"):
        stack.folder.forget()
        follower, run = stack.begin("single")
        until(lambda: stack.folder.ran, "a call runs")
        stack.server.ask("PATCH", f"invocations/{stack.server.invocation(run)['id']}/{way}")
        status, events = follower.end()
        assert status == 130 and told(events)["outcome"] == "cancelled", (way, status, events)
        stack.softland("runs", "--delete", run, "--engine", stack.url)
        until(lambda: not any(stack.server.kept(run).values()), f"all is gone, {stack.server.kept(run)}")
    stack.folder.take(0.03)
    worker.kill()


def check_deletion(stack):
    """Of a run that is deleted, nothing is kept: no prompt, result or answer."""
    stack.folder.forget()
    worker = stack.worker()
    follower, run = stack.begin("lead")
    until(lambda: stack.folder.ran, "a call runs")
    # Those who follow a run, and ask for it, leave nothing behind either.
    status, events = stack.follow("--attach", run).end()
    assert status == 0 and told(events)["outcome"] == "answered" and follower.end()[0] == 0
    before = stack.server.kept(run)
    assert before["invocations"] == 1 and before["steps"] > 20 and before["values"] > 20, before
    _, said = stack.softland("runs", "--delete", run, "--engine", stack.url)
    assert said.strip().endswith(f"deleted {run} at {stack.url}"), said
    until(lambda: not any(stack.server.kept(run).values()), "all is gone")
    for words in [("run", "--attach", run), ("runs", "--delete", run), ("cancel", run)]:
        _, said = stack.softland(*words, "--engine", stack.url, status=2)
        assert f"no run {run} is kept at" in said, said
    _, said = stack.softland("runs", "--delete", "--engine", stack.url, status=2)
    assert "--delete needs a RUN" in said, said
    worker.kill()
    return f"{before['steps']} steps and {before['values']} values of state are gone"


def check_budget(stack):
    """Workers whose requests go through a gateway of softland spend no more than the budget of their account."""
    stack.folder.forget()
    limit, token = 0.15, "a-token-that-the-workers-show"
    config = f"""\
[upstream.anthropic]
base_url = "{stack.model.url}"
api_key_env = "TOKEN"
[[key]]
name = "workers"
token_sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"
account = "acme/workers"
[[budget]]
account = "acme"
limit_usd = {limit}
window = "day"
"""
    gateway = stack.keep(Gateway(stack.binary, stack.work / "gateway", config, ""))
    stack.environment["ANTHROPIC_API_KEY"] = token
    worker = stack.worker("governed", model=f"http://127.0.0.1:{gateway.port}")
    asked = stack.model.asked
    ends = [follower.end() for follower in [stack.begin("lead")[0] for _ in range(4)]]
    bill = (stack.model.asked - asked) * COST_USD
    assert limit / 3 < bill <= limit, bill
    reports = [told(events) for _, events in ends]
    asked = stack.model.asked
    answer, _ = stack.softland("run", "single", "Go.", "--engine", stack.url, status=3)
    assert stack.model.asked == asked, "a run behind the budget asks nobody"
    assert "acme" in answer and "budget" in answer, answer
    stack.environment["ANTHROPIC_API_KEY"] = "k"
    worker.kill()
    return f"${bill:.4f} of ${limit}, outcomes {sorted(report['outcome'] for report in reports)}"


def two_builds(stack):
    """Returns two builds of the program: they differ in their digest, and in nothing else."""
    old, new = stack.work / "old", stack.work / "new"
    for binary in (old, new):
        shutil.copy(stack.binary, binary)
    with open(new, "ab") as file:
        # Behind the end of the program.
        file.write(b"\n")
    return old, new


def check_build(stack):
    """A run stays with the build that began it: it waits for that build, and new runs go to the new one."""
    stack.folder.forget()
    stack.folder.take(60)
    old, new = two_builds(stack)
    first = stack.worker("old", binary=old)
    follower, run = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    second = stack.worker("new", binary=new)
    first.kill()
    stack.folder.take(0.03)
    other, _ = stack.begin("single")
    status, events = other.end()
    assert status == 0 and told(events)["outcome"] == "answered"
    assert stack.folder.workers.count("new") == 3, stack.folder.workers
    state = stack.server.invocation(run)
    assert state["status"] == "backing-off" and state["retry_count"] > 1, f"it waits for its build: {state}"
    before = stack.folder.workers.count("old")
    first = stack.worker("old", binary=old, listen=first.listen)
    status, events = follower.end()
    assert status == 0 and told(events)["outcome"] == "answered", (status, events[-1])
    assert stack.folder.workers.count("new") == 3 and stack.folder.workers.count("old") > before, stack.folder.workers
    first.kill()
    second.kill()


def check_back_again(stack):
    """A worker that comes back to an address gets new runs, also if another has registered meanwhile and is gone. A run
    that has begun at the address goes on."""
    stack.folder.forget()
    stack.folder.take(60)
    first = stack.worker("back")
    follower, _ = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    second = stack.worker("gone")
    second.kill()
    first.kill()
    stack.folder.take(0.03)
    first = stack.worker("back", listen=first.listen)
    answer, _ = stack.softland("run", "single", "Go.", "--engine", stack.url, patience=30)
    assert "n3 is done" in answer, answer
    status, events = follower.end()
    assert status == 0 and told(events)["outcome"] == "answered", (status, events[-1])
    assert set(stack.folder.workers) == {"back"}, stack.folder.workers
    first.kill()


def check_stands_in(stack):
    """While nothing answers at the newest worker's address, another worker takes its place, so that runs are listed and
    cancelled. The newest worker gets its place back when it is there again. An engine that has lost its data is registered
    with again."""
    stack.folder.forget()
    stack.folder.take(60)
    old, new = two_builds(stack)
    first = stack.worker("old", binary=old)
    follower, run = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    second = stack.worker("new", binary=new)
    second.kill()
    began = time.monotonic()
    listed, _ = stack.softland("runs", "--engine", stack.url)
    took = time.monotonic() - began
    assert [run, "running"] in [line.split()[:2] for line in listed.splitlines()], listed
    assert 8 < took < 45, f"after {took:.1f} s"
    stack.softland("cancel", run, "--engine", stack.url)
    status, events = follower.end()
    assert status == 130 and told(events)["outcome"] == "cancelled", (status, events[-1])
    second = stack.worker("new", binary=new, listen=second.listen)
    stack.folder.take(0.03)
    stack.folder.forget()
    stack.softland("run", "single", "Go.", "--engine", stack.url, patience=30)
    assert stack.folder.workers == ["new"] * 3, stack.folder.workers
    stack.server.kill()
    shutil.rmtree(stack.server.place / "data")
    stack.server.launch()
    stack.server.wait()
    lost = time.monotonic()
    said = len(first.said) + len(second.said)
    until(lambda: len(first.said) + len(second.said) > said, "a worker registers again")
    again = time.monotonic() - lost
    stack.folder.forget()
    stack.softland("run", "single", "Go.", "--engine", stack.url, patience=30)
    first.kill()
    second.kill()
    return f"after {took:.1f} s, and after {again:.1f} s in an engine that has lost its data"


def check_stop(stack):
    """SIGTERM lets a call that may not run twice come to its end, and nothing new begins; a second signal ends it."""
    stack.folder.forget()
    stack.folder.take(2)
    worker = stack.worker()
    follower, _ = stack.begin("single")
    until(lambda: stack.folder.ran, "a call runs")
    status, took = worker.terminate()
    assert status == 0, (status, worker.said)
    assert stack.folder.ran == stack.folder.lines("done") == ["n1"], (took, worker.said, stack.folder.lines("done"))
    worker = stack.worker(listen=worker.listen)
    until(lambda: "n2" in stack.folder.ran, "the next worker goes on")
    stack.folder.take(60)
    until(lambda: "n3" in stack.folder.ran, "a long call runs")
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: any("a second signal" in line for line in worker.said), "it waits")
    worker.terminate(10)
    stack.folder.take(0.03)
    worker = stack.worker(listen=worker.listen)
    status, events = follower.end()
    answer = told(events)["answer"]
    assert status == 0 and answer.startswith("n1 is done; n2 is done; note: interrupted."), answer
    assert stack.folder.ran == ["n1", "n2", "n3"], stack.folder.ran
    worker.kill()
    return f"after {took:.1f} s"


def check_server(stack):
    """The server is killed once in a run, and started again: the run goes on by itself."""
    stack.folder.forget()
    stack.folder.take(0.3)
    worker = stack.worker()
    asked = stack.model.asked
    follower, _ = stack.begin("lead")
    until(lambda: "n8" in stack.folder.ran, "the sub-agents are at work")
    stack.server.kill()
    stack.server.launch()
    stack.server.wait()
    status, events = follower.end()
    report = told(events)
    assert status == 0 and report["outcome"] == "answered", (status, report)
    again = sound(stack.folder, [report])
    assert report["answer"] == stack.answer or "interrupted" in report["answer"], report
    bill = (stack.model.asked - asked) * COST_USD
    assert report["cost_usd"] >= bill * 0.9999, (report, bill)
    worker.kill()
    stack.folder.take(0.03)
    return f"{again} calls again"


def check_long_step(binary, program, work):
    """A step that is longer than the engine's own timeouts (1 and 10 minutes, here 1 and 2 s) is neither aborted nor
    made again."""
    short = '[worker.invoker]\ninactivity-timeout = "1s"\nabort-timeout = "2s"'
    with Stack(binary, program, work, "long-step", more=short) as stack:
        stack.folder.take(8)
        stack.worker()
        follower, _ = stack.begin("single")
        status, events = follower.end()
        assert status == 0 and told(events)["outcome"] == "answered", (status, events[-1])
        assert stack.folder.ran == ["n1", "n2", "n3"], stack.folder.ran
        assert not any("interrupted" in json.dumps(event) for event in events)


def main(binary, program, haproxy, work, *long):
    with Stack(binary, program, work, "one") as stack:
        for check in (check_commands, check_cancel, check_paused, check_late_end, check_ended_by_the_engine,
                      check_deletion, check_budget, check_build, check_back_again, check_stands_in, check_stop,
                      check_server):
            report(check, stack)
    if long:
        report(check_long_step, binary, program, work)
        report(cluster.check_nodes, binary, program, work)
        if haproxy:
            report(balanced.check_taken_away, binary, program, haproxy, work)
        else:
            print("engine: check_taken_away: skipped: no haproxy here, and Debian has not given one", flush=True)


def report(check, *given):
    began = time.monotonic()
    what = check(*given)
    print(f"engine: {check.__name__}: {what or 'holds'} ({time.monotonic() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
