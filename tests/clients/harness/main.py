"""The command: installs the clients, goes into a namespace, runs them there, says how it went."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import (
    agents,
    cases,
    install,
    provider,
    scenarios,
    servers,
    space,
    specialists,
    table,
    tap,
)

ROOT = Path(__file__).resolve().parents[3]
RUN = Path(__file__).resolve().parent.parent / "run"


def main():
    options = parse()
    if space.is_inside():
        return inside(options)
    chosen = [client for client in agents.CLIENTS if client.name in options.client]
    with tempfile.TemporaryDirectory(prefix="softland-clients-") as work:
        plan = Path(work) / "plan.json"
        tally = outside(options, chosen, plan)
    if not options.direct:
        table.show(tally["rows"])
    ok, failed, skipped = tally["ok"], tally["failed"], tally["skipped"]
    print(f"clients: {ok} ok, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def parse():
    names = [client.name for client in agents.CLIENTS]
    runs = [run.name for run in cases.RUNS]
    parser = argparse.ArgumentParser(
        prog="tests/clients/run",
        description="Runs real agent clients through `softland serve` against `softland sim`.",
    )
    parser.add_argument(
        "client", nargs="*", metavar="CLIENT", help=f"of {', '.join(names)}; none: all"
    )
    parser.add_argument(
        "--run", action="append", choices=runs, metavar="RUN", help=f"of {', '.join(runs)}"
    )
    parser.add_argument(
        "--long", action="store_true", help="70 turns under a limit of 60, and nothing else"
    )
    parser.add_argument(
        "--direct", action="store_true", help="without a gateway: does the client meet the sim?"
    )
    parser.add_argument(
        "--binary", type=Path, help="a softland that is there; none: builds one as `cargo run` does"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leaves logs and records there")
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.client if name not in names]
    if unknown:
        parser.error(f"no client {', '.join(unknown)}; there are {', '.join(names)}")
    if options.long and options.direct:
        parser.error("--long needs the gateway")
    options.client = options.client or names
    if options.long:
        able = [client.name for client in agents.CLIENTS if client.history]
        options.client = [name for name in options.client if name in able]
    return options


# --- outside the namespace: what needs the network


def outside(options, chosen, plan):
    tally = {"ok": 0, "failed": 0, "skipped": 0, "rows": []}
    reason = space.why_not()
    packages = {}
    for client in chosen:
        if reason:
            line(tally, "skipped", client.name, "", reason)
            continue
        try:
            there = install.installed(client.lock, client.python)
            if not client.is_in(there):
                raise install.NotHere("it is not pinned for this kind of machine")
            packages[client.name] = str(there)
        except install.NotHere as why:
            line(tally, "skipped", client.name, "", str(why))
        except install.Broken as why:
            line(tally, "failed", client.name, "cannot be installed", str(why))
    if not packages:
        return tally
    binary = (options.binary or build()).resolve()
    plan.write_text(json.dumps({"packages": packages, "binary": str(binary)}), encoding="utf-8")
    status = space.enter([str(RUN), *sys.argv[1:], "--plan", str(plan)])
    try:
        done = json.loads(plan.with_suffix(".done").read_text(encoding="utf-8"))
    except FileNotFoundError:
        line(tally, "failed", "", "the runs were broken off", f"status {status}")
        return tally
    return {kind: count + done[kind] for kind, count in tally.items()}


def build():
    command = ["cargo", "build", "--quiet", "--locked", "--workspace", "--bin", "softland"]
    subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=True)
    out = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    told = subprocess.run(out, cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(json.loads(told.stdout)["target_directory"]) / "debug" / "softland"


# --- inside: only loopback


def inside(options):
    space.prepare()
    plan = json.loads(options.plan.read_text(encoding="utf-8"))
    tally = {"ok": 0, "failed": 0, "skipped": 0, "rows": []}
    for client in agents.CLIENTS:
        if client.name in options.client and client.name in plan["packages"]:
            packages = Path(plan["packages"][client.name])
            row = table.row(client, packages)
            tally["rows"].append(row)
            for run in cases.RUNS:
                if wanted(options, client, run):
                    one_run(options, plan["binary"], client, packages, run, tally, row)
    options.plan.with_suffix(".done").write_text(json.dumps(tally), encoding="utf-8")
    return 0


def wanted(options, client, run):
    if options.direct and (run.wrapped or "tool" not in [case.column for case in run.cases]):
        return False
    if options.long != bool(run.long):
        return False
    return (not options.run or run.name in options.run) and run.suits(client)


def one_run(options, binary, client, packages, run, tally, row):
    shown = f"{client.name} {client.version(packages)}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="softland-client-") as folder:
        folder = Path(folder)
        chosen = run.cases[:1] if options.direct else run.cases
        try:
            seen = play(options, binary, client, packages, run, folder)
            general = cases.ended_well(run, seen)
            results = [(case, general or case.check(seen)) for case in chosen]
            if run.long:
                results = [(case, [*general, *case.check(seen)]) for case in chosen]
        except Exception:  # pylint: disable=broad-except
            # A client that says what nobody thought of fails its line, not the others.
            general = [traceback.format_exc(limit=-3)]
            results = [(case, general) for case in chosen]
        took = time.monotonic() - began
        table.note(row, "ends", not general)
        for case, wrong in results:
            table.note(row, case.column, not wrong)
            kind = "failed" if wrong else "ok"
            line(tally, kind, shown, case.name, "; ".join(wrong) or f"{took:.1f} s")
        if any(wrong for _, wrong in results):
            show_logs(folder)
        if options.keep:
            keep(options.keep / client.name / run.name, folder)


def play(options, binary, client, packages, run, folder):
    """One start of the client: client, tap, gateway, tap, simulator."""
    with model(binary, client, run, folder) as sim:
        back = tap.Tap(sim.port)
        front = back
        if options.direct:
            ended = agents.run(client, packages, folder, back.url)
        elif run.wrapped:
            wrap = servers.wrap(binary, run.policy)
            ended = agents.run(client, packages, folder, back.url, wrapped=wrap)
        else:
            with servers.serve(binary, folder, back.url, run.policy) as gateway:
                front = tap.Tap(gateway.port)
                limit = run.specialist_limit
                given = specialists.prepare(binary, folder, limit) if limit else None
                small = bool(run.long)
                ended = agents.run(client, packages, folder, front.url, small, servers=given)
                front.stop()
        back.stop()
    record(folder / "front.ndjson", front)
    record(folder / "back.ndjson", back)
    sides = front.exchanges, back.exchanges
    runs = servers.runs(binary, folder) if run.long else []
    return cases.Seen(client, ended, steps(folder), *sides, runs, sim)


def model(binary, client, run, folder):
    """What plays the model: a simulator that is as strict as the providers are, or a lenient one."""
    if run.long:
        return provider.Provider(client, run.long)
    scenario = folder / "scenario.toml"
    run.script(scenarios.Writer(client)).write(scenario)
    return servers.sim(binary, folder, scenario)


def steps(folder):
    marker = folder / "place" / scenarios.MARKER
    lines = marker.read_text(encoding="utf-8").splitlines() if marker.exists() else []
    # Calls of one batch may run side by side.
    return sorted(int(line.removeprefix("step-")) for line in lines)


def record(path, one):
    with open(path, "w", encoding="utf-8") as out:
        for said in one.exchanges:
            out.write(
                json.dumps(
                    {
                        "method": said.method,
                        "path": said.path,
                        "headers": said.headers,
                        "body": said.body.decode(errors="replace"),
                        "status": said.status,
                        "answer_headers": said.answer_headers,
                        "answer": said.answer.decode(errors="replace"),
                        "whole": said.whole,
                    }
                )
                + "\n"
            )


def show_logs(folder):
    for log in ("sim.log", "serve.log"):
        path = folder / log
        if path.exists():
            for text in path.read_text(errors="replace").splitlines()[-8:]:
                print(f"         {log}: {text[:300]}")


def keep(place, folder):
    place.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            (place / path.name).write_bytes(path.read_bytes())


def line(tally, kind, client, name, why):
    tally[kind] += 1
    shown = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}[kind]
    print(f"  {shown:7}  {client:32}  {name:40}  {why}".rstrip(), flush=True)
