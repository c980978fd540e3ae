#!/usr/bin/env python3
"""An independent count of turns and tool calls, compared with `softland audit`, file by file.

usage: counts.py SOFTLAND PATH… [--ccusage BIN]
  SOFTLAND  the binary
  PATH      files and folders of recordings
  --ccusage BIN  compares the tokens and the cost of all sessions of Claude Code among them with
            ccusage's (npm `ccusage` 20.0.24 with `@ccusage/ccusage-linux-x64`), and the CPU time of both

Counts with Python's json, csv and sqlite3 alone and by rules of its own, written from the formats; files
that are no recording have to be none for softland, too. softland's own ledgers, event logs and journals are
left out. Exits 1 where a number differs, or where softland takes more than twice ccusage's CPU time."""
import argparse, collections, contextlib, csv, glob, gzip, io, json, os, re, resource, shutil, sqlite3, subprocess, sys, tempfile

FENCED = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", re.S)


def text_of(path):
    data = open(path, "rb").read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-8-sig", "replace")


def json_lines(text):
    # Not by `splitlines`: strings may hold its other line ends.
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def of_content(content):
    if isinstance(content, list):
        return "\n".join(b.get("text") or "" for b in content if isinstance(b, dict))
    return content or ""


def claude(lines, seen):
    """message id -> (usage, calls); `seen` are ids of files before."""
    found = {}
    for line in lines:
        if line.get("type") == "progress":
            line = (line.get("data") or {}).get("message") or {}
        message = line.get("message")
        if line.get("type") != "assistant" or not isinstance(message, dict):
            continue
        if message.get("model") == "<synthetic>" or message.get("id") in seen:
            continue
        calls = found.setdefault(message.get("id"), set())
        calls |= {b.get("id") for b in message.get("content") or [] if isinstance(b, dict) and b.get("type") == "tool_use"}
    seen |= set(found)
    return len(found), sum(map(len, found.values()))


def codex(lines):
    turns, calls, total = 0, 0, None
    kinds = ("function_call", "custom_tool_call", "local_shell_call")
    for line in lines:
        payload = line.get("payload") or {}
        if line.get("type") == "response_item" and payload.get("type") in kinds:
            calls += 1
        if line.get("type") == "event_msg" and payload.get("type") == "token_count":
            new = (payload.get("info") or {}).get("total_token_usage")
            if new and new != total:
                turns, total = turns + 1, new
    return turns, calls


def calls_of(message):
    blocks = message.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    used = sum(isinstance(b, dict) and b.get("type") == "tool_use" for b in blocks)
    return used + len(message.get("tool_calls") or []) + bool(message.get("function_call"))


def messages(list_):
    list_ = [m for m in list_ if isinstance(m, dict)]
    said = [m for m in list_ if m.get("role") == "assistant"]
    return len(said), sum(map(calls_of, said))


def mini_swe(list_):
    said = [m for m in list_ if m.get("role") == "assistant"]
    calls = (calls_of(m) or len(FENCED.findall(of_content(m.get("content")))) == 1 for m in said)
    return len(said), sum(map(int, calls))


def opencode_database(path):
    db = sqlite3.connect(f"file:{os.path.abspath(path)}?mode=ro", uri=True)
    with contextlib.closing(db):
        if not {"message", "part"} <= {name for name, in db.execute("SELECT name FROM sqlite_master")}:
            return None
        said = sum(json.loads(data).get("role") == "assistant" for data, in db.execute("SELECT data FROM message"))
        return "opencode", (said, sum(json.loads(data).get("type") == "tool" for data, in db.execute("SELECT data FROM part")))


def opencode_storage(path, session):
    """Of a session's file: STORAGE/session/PROJECT/SESSION.json."""
    storage = os.path.join(os.path.dirname(path), "..", "..")
    turns = calls = 0
    for message in glob.glob(os.path.join(glob.escape(storage), "message", session, "*.json")):
        message = json.loads(text_of(message))
        if message.get("role") == "assistant":
            turns += 1
            parts = glob.glob(os.path.join(glob.escape(storage), "part", message["id"], "*.json"))
            calls += sum(json.loads(text_of(part)).get("type") == "tool" for part in parts)
    return "opencode", (turns, calls)


def document(doc, path):
    if isinstance(doc, list):
        first = doc[0] if doc and isinstance(doc[0], dict) else {}
        if "role" in first:
            return "messages", messages(doc)
        if {"message_id", "data"} <= set(first):
            parts = [json.loads(p["data"]) for p in doc]
            said = {p["message_id"] for p, d in zip(doc, parts) if d.get("type") == "step-start"}
            return "opencode", (len(said), sum(d.get("type") == "tool" for d in parts))
        return None
    if not isinstance(doc, dict):
        return None
    if {"sessionID", "messageID"} <= set(doc) or {"sessionID", "role"} <= set(doc):
        return None  # Counted with its session.
    if str(doc.get("id")).startswith("ses_") and "time" in doc:
        return opencode_storage(path, doc["id"])
    if "trajectory" in doc:
        return "swe-agent", (len(doc["trajectory"]), sum(bool(s["action"].strip()) for s in doc["trajectory"]))
    if "history" in doc and any("agent" in m for m in doc["history"]):
        return "swe-agent", messages(doc["history"])
    if "sessionId" in doc and "messages" in doc:
        said = [m for m in doc["messages"] if m.get("type") == "gemini"]
        return "gemini-cli", (len(said), sum(len(m.get("toolCalls") or []) for m in said))
    if "info" in doc and "messages" in doc:
        return "mini-swe", mini_swe(doc["messages"])
    if isinstance(doc.get("messages"), list):
        return "messages", messages(doc["messages"])
    return None


def count(path, seen):
    """(kind, (turns, calls)), or None for what is no recording."""
    with open(path, "rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            return opencode_database(path)
    text = text_of(path)
    if "tokens_prompt" in text.lstrip().split("\n", 1)[0].split(","):
        rows = csv.DictReader(io.StringIO(text, newline=""))
        return "openrouter-csv", (len(list(rows)), 0)
    try:
        doc = json.loads(text)
        if not isinstance(doc, dict) or not isinstance(doc.get("type"), str):
            return document(doc, path)
    except ValueError:
        pass
    lines = list(json_lines(text))
    if not lines:
        return None
    if any("payload" in line for line in lines):
        return "codex", codex(lines)
    if any(line.get("type") == "session.start" for line in lines):
        said = [line["data"] for line in lines if line["type"] == "assistant.message"]
        return "copilot-cli", (len(said), sum(len(d.get("toolRequests") or []) for d in said))
    if any("messages" in line for line in lines):
        counts = [messages(line["messages"]) for line in lines if "messages" in line]
        return "messages", tuple(map(sum, zip(*counts)))
    if any("role" in line for line in lines):
        return "messages", messages(lines)
    if any("sessionId" in line for line in lines):
        return "claude-code", claude(lines, seen)
    return None


def cpu(command, env=None):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(softland, paths):
    report, _ = cpu([softland, "audit", "--format", "json", *paths])
    ours = collections.Counter()
    calls = collections.Counter()
    for run in report["runs"]:
        ours[run["source"]] += run["turns"]
        calls[run["source"]] += run["tool_calls"]
    wrong, files, seen = [], 0, set()
    # What several sessions hold counts in a sub-agent's own file, else where there is most.
    def first(source):
        if source["kind"] != "claude-code":
            return False, 0
        return "agent-" not in os.path.basename(source["path"]), -count(source["path"], set())[1][0]

    order = sorted(report["sources"], key=first)
    totals = collections.Counter()
    for source in order:
        path = source["path"]
        if source["kind"] == "softland":
            continue
        try:
            counted = count(path, seen)
        except (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, sqlite3.Error) as error:
            print(f"not counted: {path}: {error!r}")
            counted = None
        found = source["kind"], (ours[path], calls[path])
        if counted is None:
            if any(found[1]):
                wrong.append((path, None, found))
            continue
        files += 1
        totals[counted[0]] += counted[1][0]
        if counted != found:
            wrong.append((path, counted, found))
    for path, counted, found in wrong[:30]:
        print(f"DIFFERS {path}: counted {counted}, softland {found}")
    print(f"{files} files, {len(wrong)} differ; turns by kind: {dict(totals)}")
    return report, not wrong


def against_ccusage(softland, ccusage, report):
    """Both read the same files, unpacked, in a folder of their own."""
    with tempfile.TemporaryDirectory() as home:
        folder = os.path.join(home, "projects", "all")
        os.makedirs(folder)
        for n, source in enumerate(s for s in report["sources"] if s["kind"] == "claude-code"):
            name = os.path.basename(source["path"]).removesuffix(".gz")
            with open(os.path.join(folder, f"{n}-{name}"), "w", encoding="utf-8") as to:
                to.write(text_of(source["path"]))
        env = dict(os.environ, CLAUDE_CONFIG_DIR=home)
        theirs, their_cpu = cpu([ccusage, "daily", "--offline", "--json"], env)
        mine, my_cpu = cpu([softland, "audit", "--format", "json", folder])
    totals, usage = theirs["totals"], mine["totals"]["usage"]
    pairs = [
        ("input", usage["input"], totals["inputTokens"]),
        ("output", usage["output"], totals["outputTokens"]),
        ("cache read", usage["cache_read"], totals["cacheReadTokens"]),
        ("cache write", usage["cache_write"], totals["cacheCreationTokens"]),
        ("cost", round(mine["totals"]["cost_usd"], 2), round(totals["totalCost"], 2)),
    ]
    for name, ours, other in pairs:
        print(f"{name:12} softland {ours:>16} ccusage {other:>16} {'' if ours == other else 'DIFFERS'}")
    print(f"CPU seconds  softland {my_cpu:16.2f} ccusage {their_cpu:16.2f} ({my_cpu / max(their_cpu, 1e-9):.2f} times)")
    return my_cpu <= 2 * their_cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("softland")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--ccusage")
    args = parser.parse_args()
    report, right = compare(args.softland, args.paths)
    if args.ccusage:
        right &= against_ccusage(args.softland, shutil.which(args.ccusage) or args.ccusage, report)
    sys.exit(not right)


if __name__ == "__main__":
    main()
