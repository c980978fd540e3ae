#!/usr/bin/env python3
"""An independent count of where the money of Claude Code sessions went, and of what was lost to the cache.

usage: where.py [--compare SOFTLAND] PATH…
  PATH      files and folders of sessions (`.jsonl`, `.jsonl.gz`)
  --compare SOFTLAND  runs `SOFTLAND audit --format json` on the same paths, and exits 1 where the total
            differs by a cent, a class by 0.1 %, or what was lost (in all, or by cause) by 1 %

Works from the JSON alone, with Python's json, prices of its own, and the rules of `docs/audit.md`: a turn is a
message id; its usage is that of the line with the largest output; the turn before is the one before it in the
same file and agent, whether it counts there or in another file. Without --compare it prints the sums as JSON."""
import argparse, datetime, glob, json, os, subprocess, sys

sys.dont_write_bytecode = True
from counts import json_lines, text_of

# Dollars for a million tokens: input and output. Reading costs 0.1 of the input's price, writing 1.25 (five
# minutes) or 2 (an hour).
PRICES = {"claude-opus-4-5": (5, 25), "claude-opus-4-6": (5, 25), "claude-opus-4-1": (15, 75), "claude-opus-4": (15, 75),
          "claude-sonnet-4-5": (3, 15), "claude-sonnet-4-6": (3, 15), "claude-sonnet-4": (3, 15), "claude-3-7-sonnet": (3, 15),
          "claude-haiku-4-5": (1, 5), "claude-3-5-haiku": (0.8, 4)}
LEAST = 2000
CLASSES = ["output", "input", "cache_read", "cache_write", "cache_rewrite"]
CAUSES = ["model", "compaction", "idle", "edited", "unknown"]
MINUTES = {"5m": 300, "1h": 3600}


def price_of(model):
    name = (model or "").split("/")[-1]
    if len(name) > 9 and name[-8:].isdigit():
        name = name[:-9]
    return PRICES.get(name)


class Turn:
    def __init__(self, model, time):
        self.model, self.time, self.output = model, time, -1

    def use(self, usage):
        """Takes the usage of a line, if its output is the largest so far."""
        count = lambda of, key: of.get(key) or 0
        if count(usage, "output_tokens") < self.output:
            return
        self.output, self.input = count(usage, "output_tokens"), count(usage, "input_tokens")
        self.read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
        kept = usage.get("cache_creation") or {}
        self.hour = count(kept, "ephemeral_1h_input_tokens")
        self.five = max(written - self.hour, count(kept, "ephemeral_5m_input_tokens"))

    @property
    def context(self):
        return self.input + self.read + self.five + self.hour


def chains_of(path):
    """The turns of a file, by agent: {agent: [(id, Turn)]}; and whether it is an agent's own file."""
    chains, sides, own = {}, {}, True
    for line in json_lines(text_of(path)):
        inner = (line.get("data") or {}).get("message") if line.get("type") == "progress" else None
        said = (inner or line).get("message")
        if not isinstance(said, dict) or said.get("role") not in ("user", "assistant"):
            continue
        agent = None
        if line.get("type") == "progress":
            agent = (line.get("data") or {}).get("agentId")
        elif line.get("isSidechain"):
            agent = line.get("agentId") or sides.get(line.get("parentUuid")) or f"side-{line.get('uuid')}"
            sides[line.get("uuid")] = agent
        own = own and agent is not None and not inner
        if said["role"] != "assistant" or said.get("model") == "<synthetic>":
            continue
        turns = chains.setdefault(agent, {})
        time = (inner or line).get("timestamp") or line.get("timestamp")
        if said.get("id") not in turns:
            if any(said.get("id") in other for other in chains.values()):
                continue
            moment = time and datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
            turns[said.get("id")] = Turn(said.get("model"), moment)
        if said.get("usage"):
            turns[said.get("id")].use(said["usage"])
    return {agent: list(turns.items()) for agent, turns in chains.items()}, own and bool(chains)


def cause_of(turn, before, lives):
    if turn.model != before.model:
        return "model"
    if turn.context < 0.6 * before.context:
        return "compaction"
    if turn.time is None or before.time is None or lives is None:
        return "unknown"
    return "idle" if turn.time - before.time > lives else "edited"


def count(paths):
    files = [(path, *chains_of(path)) for path in paths]
    files.sort(key=lambda file: (not file[2], -sum(map(len, file[1].values())), paths.index(file[0])))
    sums = {"turns": 0, "unpriced": 0, "cost": 0.0, "lost": 0.0, "lost_tokens": 0, "losses": 0,
            "where": dict.fromkeys(CLASSES, 0.0), "by": dict.fromkeys(CAUSES, 0.0), "agents": 0.0}
    seen = set()
    for _path, chains, _own in files:
        for agent, turns in chains.items():
            before, lives = None, None
            for id_, turn in turns:
                if id_ not in seen:
                    book(sums, turn, before, lives, agent)
                if turn.five + turn.hour:
                    lives = MINUTES["1h" if turn.hour > turn.five else "5m"]
                before = turn
        seen |= {id_ for turns in chains.values() for id_, _ in turns}
    return sums


def book(sums, turn, before, lives, agent):
    sums["turns"] += 1
    if not price_of(turn.model):
        sums["unpriced"] += 1
        return
    per_input, per_output = (price / 1e6 for price in price_of(turn.model))
    per_read, written = 0.1 * per_input, turn.five + turn.hour
    writes = per_input * (1.25 * turn.five + 2 * turn.hour)
    again = min(before.context, turn.context) - turn.read if before else 0
    again = again if again > LEAST else 0
    of_writes = min(again, written)
    rewrite = (writes / written * of_writes if written else 0) + per_input * (again - of_writes)
    parts = {"output": per_output * turn.output, "cache_read": per_read * turn.read, "cache_rewrite": rewrite}
    parts["input"] = per_input * (turn.input - (again - of_writes))
    parts["cache_write"] = writes - (rewrite - per_input * (again - of_writes))
    for key, money in parts.items():
        sums["where"][key] += money
        sums["cost"] += money
        sums["agents"] += money if agent else 0
    if again:
        lost = rewrite - per_read * again
        sums["lost"] += lost
        sums["lost_tokens"] += again
        sums["losses"] += 1
        sums["by"][cause_of(turn, before, lives)] += lost


def sessions(paths):
    found = []
    for path in paths:
        below = glob.glob(os.path.join(glob.escape(path), "**", "*"), recursive=True) if os.path.isdir(path) else [path]
        found += sorted(one for one in below if one.endswith((".jsonl", ".jsonl.gz")))
    return found


def compare(sums, softland, paths):
    command = [softland, "audit", "--format", "json", *paths]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    totals = report["totals"]
    where, wrong = totals["where"], []

    def check(name, theirs, ours, most):
        if abs(theirs - ours) > most:
            wrong.append(f"{name}: softland {theirs}, counted {ours}")

    check("turns", totals["turns"], sums["turns"], 0)
    check("cost", totals["cost_usd"], sums["cost"], 0.005)
    for key in CLASSES:
        check(key, where[f"{key}_usd"], sums["where"][key], 0.001 * sums["cost"])
    check("sum of the classes", sum(where[f"{key}_usd"] for key in CLASSES), totals["cost_usd"], 0.005)
    check("lost", where["lost_usd"], sums["lost"], 0.01 * sums["lost"])
    for key in CAUSES:
        check(f"lost by {key}", where["lost"][key], sums["by"][key], 0.01 * sums["lost"])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="SOFTLAND")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    found = sessions(args.paths)
    sums = count(found)
    if not args.compare:
        return print(json.dumps(sums, indent=1))
    wrong = compare(sums, args.compare, found)
    for one in wrong:
        print(one)
    print(f"{len(found)} files, {sums['turns']} turns, ${sums['cost']:.2f}, ${sums['lost']:.2f} lost")
    sys.exit(bool(wrong))


main()
