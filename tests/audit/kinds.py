#!/usr/bin/env python3
"""An independent count of turns, tool calls, tokens and recorded money, compared with `softland audit`.

usage: kinds.py SOFTLAND PATH…
  SOFTLAND  the binary
  PATH      files and folders of recordings: ATIF, Pi, OpenClaw, OpenTelemetry (`gen_ai.*`), Inspect, Cline
            (Roo, Kilo), Goose (a database, or its `.sql`), Qwen Code, OpenHands, LiteLLM's spend logs

Counts with Python's json, sqlite3 and zipfile alone, from the formats. A file of another kind is passed over; a
file of these kinds has to be of the kind that its own rules here say. Money is compared only where all of it is
recorded. Exits 1 where a number differs."""
import collections, glob, json, os, sqlite3, subprocess, sys, tempfile, zipfile

Count = collections.namedtuple("Count", "kind turns calls input output read write cost")


class Sum:
    def __init__(self, kind):
        self.kind, self.n = kind, [0] * 6
        self.cost, self.known = 0.0, True

    def turn(self, calls=0, input=0, output=0, read=0, write=0, cost=None):
        for at, value in enumerate((1, calls, input, output, read, write)):
            self.n[at] += value or 0
        if cost is None:
            self.known = False
        else:
            self.cost += cost

    def done(self):
        return Count(self.kind, *self.n, round(self.cost, 6) if self.known and self.n[0] else None)


def lines(text):
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def split(all_, read, write, within):
    """Input that no cache has: the whole holds what was cached, or not."""
    return max(0, all_ - read - write) if within else all_


def atif(doc, total):
    for step in doc["steps"]:
        if step["source"] == "agent" and not step.get("is_copied_context") and step.get("llm_call_count") != 0:
            m = step.get("metrics") or {}
            read = m.get("cached_tokens") or 0
            total.turn(len(step.get("tool_calls") or []), split(m.get("prompt_tokens") or 0, read, 0, True),
                       m.get("completion_tokens"), read, 0, m.get("cost_usd"))
    for inner in doc.get("subagent_trajectories") or []:
        atif(inner, total)


def pi(rows, kind):
    total = Sum(kind)
    for row in rows:
        m = row.get("message") or {}
        if row.get("type") != "message" or m.get("role") != "assistant":
            continue
        u = m.get("usage") or {}
        if m.get("stopReason") in ("aborted", "error") and not m["content"] and not u.get("input") and not u.get("output"):
            continue
        calls = [p for p in m["content"] if p["type"] in ("toolCall", "tool_use")] if isinstance(m["content"], list) else []
        total.turn(len(calls), u.get("input"), u.get("output"), u.get("cacheRead"), u.get("cacheWrite"), (u.get("cost") or {}).get("total"))
    return total


def qwen(rows):
    total = Sum("qwen-code")
    for row in rows:
        if row["type"] == "assistant":
            u = row.get("usageMetadata") or {}
            prompt, read = u.get("promptTokenCount", 0), u.get("cachedContentTokenCount", 0)
            said = u.get("candidatesTokenCount", 0)
            thought = u.get("thoughtsTokenCount", 0)
            if thought and u.get("totalTokenCount") == prompt + said + thought:
                said += thought
            total.turn(sum("functionCall" in p for p in row["message"]["parts"]), prompt - read, said, read)
    return total


def cline(shown):
    total, calls, open_ = Sum("cline"), 0, None
    out = []
    for m in shown:
        if m.get("partial"):
            continue
        kind = m.get("say") or m.get("ask")
        if kind == "api_req_started":
            out.append((json.loads(m["text"]), []))
        elif kind in ("tool", "command", "use_mcp_server", "browser_action") and out:
            out[-1][1].append(m)
    without = False
    for usage, calls in out:
        if "tokensIn" not in usage:
            continue
        read, write = usage.get("cacheReads", 0), usage.get("cacheWrites", 0)
        without = without or read + write > usage["tokensIn"]
        total.turn(len(calls), split(usage["tokensIn"], read, write, not without), usage["tokensOut"], read, write, usage.get("cost"))
    return total


def litellm(rows):
    total = Sum("litellm")
    for row in rows:
        if row.get("status") == "failure":
            continue
        if str(row.get("cache_hit")).lower() == "true":
            total.turn(cost=row["spend"])
            continue
        u = (row.get("metadata") or {}).get("usage_object") or row
        all_, output = u.get("prompt_tokens", u.get("input_tokens", 0)), u.get("completion_tokens", u.get("output_tokens", 0))
        details = u.get("prompt_tokens_details") or u.get("input_tokens_details") or {}
        read = details.get("cached_tokens") or u.get("cache_read_input_tokens") or 0
        total.turn(0, all_ - read, output, read, 0, row["spend"])
    return total


def otlp(exports):
    total, spans = Sum("otlp-json"), []
    for export in exports:
        for span in (s for r in export["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]):
            a = {x["key"]: next(iter(x["value"].values())) for x in span.get("attributes", [])}
            spans.append((a.get("gen_ai.conversation.id") or span["traceId"], a))
    for name in {name for name, _ in spans}:
        own = [a for n, a in spans if n == name]
        asks = [a for a in own if a.get("gen_ai.operation.name") in ("chat", "text_completion", "generate_content")]
        tools = [a for a in own if a.get("gen_ai.operation.name") == "execute_tool"]
        turns = asks or [a for a in own if a.get("gen_ai.operation.name") == "invoke_agent"]
        for at, a in enumerate(turns):
            count = lambda key: int(a.get("gen_ai.usage." + key, 0))
            read = count("cache_read.input_tokens")
            total.turn(len(tools) if at == 0 else 0, count("input_tokens") - read, count("output_tokens"), read)
    return total


def inspect_sample(sample, total):
    messages = sample.get("messages") or []
    said = [m for m in messages if m["role"] == "assistant"]
    events = sample.get("events") or (sample.get("transcript") or {}).get("events") or []
    usages = [(e["output"]["choices"][0]["message"].get("id") if e["output"]["choices"] else None, e["output"].get("usage"))
              for e in events if e["event"] == "model"]
    if not usages and (sample.get("output") or {}).get("usage"):
        usages = [(None, sample["output"]["usage"])]
    matched = {m.get("id") for m in said if m.get("id")} & {i for i, _ in usages}
    beside = sum(1 for i, _ in usages if i and i not in matched)
    plain = sum(1 for i, _ in usages if not i)
    loose = sum(1 for m in said if m.get("id") not in matched)
    for m in said:
        total.turn(len(m.get("tool_calls") or []))
    for _ in range(beside + max(0, plain - loose)):
        total.turn()
    for _, u in usages:
        if u:
            read, write = u.get("input_tokens_cache_read") or 0, u.get("input_tokens_cache_write") or 0
            within = u["total_tokens"] == u["input_tokens"] + u["output_tokens"] and read + write <= u["input_tokens"]
            for at, value in enumerate((split(u["input_tokens"], read, write, within), u["output_tokens"], read, write)):
                total.n[2 + at] += value


def goose(path):
    base = sqlite3.connect(path)
    base.row_factory = sqlite3.Row
    total = Sum("goose")
    for session in base.execute("SELECT * FROM sessions"):
        messages = base.execute("SELECT role, content_json FROM messages WHERE session_id = ?", [session["id"]]).fetchall()
        said = [json.loads(m["content_json"]) for m in messages if m["role"] == "assistant"]
        rows = base.execute("SELECT * FROM usage_ledger WHERE session_id = ?", [session["id"]]).fetchall()
        calls = sum(p["type"] == "toolRequest" for content in said for p in content)
        requests = sum(not r["is_compaction"] for r in rows)
        for _ in range(len(said) + sum(bool(r["is_compaction"]) for r in rows) + max(0, requests - len(said))):
            total.n[0] += 1
        total.n[1] += calls
        take = [(r["input_tokens"], r["output_tokens"], r["cache_read_tokens"], r["cost"]) for r in rows]
        if not rows and said and session["accumulated_input_tokens"] is not None:
            take = [(session["accumulated_input_tokens"], session["accumulated_output_tokens"], session["accumulated_cache_read_tokens"], session["accumulated_cost"])]
        for all_, output, read, cost in take:
            total.n[2] += all_ - (read or 0)
            total.n[3] += output
            total.n[4] += read or 0
            total.known = total.known and cost is not None
            total.cost += cost or 0
        total.known = total.known and len(take) >= len(said)
    return total


def openhands(events):
    total, seen, spent = Sum("openhands"), {}, 0.0
    sums = (0, 0)
    for e in events:
        meta = e.get("tool_call_metadata") or {}
        response = meta.get("model_response") or {}
        if e.get("source") != "agent" or "action" not in e:
            continue
        metrics = e.get("llm_metrics") or {}
        cost = metrics.get("accumulated_cost", spent) - spent
        spent += cost
        used = metrics.get("accumulated_token_usage") or {}
        more = (used.get("prompt_tokens", sums[0]) - sums[0], used.get("completion_tokens", sums[1]) - sums[1])
        sums = (sums[0] + more[0], sums[1] + more[1])
        key = response.get("id") or len(seen)
        if key in seen:
            total.n[1] += 1
            total.cost += cost
            continue
        seen[key] = True
        u = response.get("usage") or {"prompt_tokens": more[0], "completion_tokens": more[1]}
        total.turn(int(bool(meta)), u["prompt_tokens"], u["completion_tokens"], 0, 0, cost)
    return total


def openhands_folder(state, events):
    total = Sum("openhands")
    said = {e.get("llm_response_id") for e in events if e.get("source") == "agent"}
    for _ in said:
        total.n[0] += 1
    total.n[1] = sum("tool_call" in e for e in events)
    for name, used in state["stats"]["usage_to_metrics"].items():
        u = used["accumulated_token_usage"]
        read = u.get("cache_read_tokens") or 0
        for at, value in enumerate((u["prompt_tokens"] - read, u["completion_tokens"], read)):
            total.n[2 + at] += value
        total.cost += used["accumulated_cost"]
        total.n[0] += name == "condenser"
    return total


def count(path):
    """The count of a file; None for one of another kind, 'beside' for one that counts with another."""
    if path.endswith(".eval"):
        total = Sum("inspect")
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith("samples/"):
                    inspect_sample(json.loads(archive.read(name)), total)
        total.known = False
        return total.done()
    if open(path, "rb").read(15) == b"SQLite format 3":
        return goose(path).done()
    text = open(path, errors="replace").read()
    try:
        doc = json.loads(text)
    except ValueError:
        doc = None
    rows = list(lines(text))
    if isinstance(doc, dict) and str(doc.get("schema_version", "")).startswith("ATIF-"):
        total = Sum("atif")
        atif(doc, total)
        return total.done()
    if isinstance(doc, dict) and "eval" in doc and "version" in doc:
        total = Sum("inspect")
        for sample in doc.get("samples") or []:
            inspect_sample(sample, total)
        total.known = False
        return total.done()
    if isinstance(doc, dict) and ("tokensIn" in doc or doc.get("kind", "").endswith("Event") or "execution_status" in doc):
        return "beside"
    if isinstance(doc, list) and doc and isinstance(doc[0], dict):
        if "say" in doc[0] or "ask" in doc[0]:
            return cline(doc).done()
        if "ts" in doc[0] and "role" in doc[0]:
            return "beside"
        if "source" in doc[0] and "timestamp" in doc[0]:
            return openhands(doc).done()
        if "spend" in doc[0]:
            return litellm(doc).done()
    if rows and rows[0].get("type") == "session" and "cwd" in rows[0]:
        tree = any("parentId" in row for row in rows) or "modelId" in rows[0] or "version" not in rows[0]
        return pi(rows, "pi" if tree else "openclaw").done()
    if rows and "resourceSpans" in rows[0]:
        return otlp(rows).done()
    if rows and "spend" in rows[0]:
        return litellm(rows).done()
    if rows and "parts" in (rows[0].get("message") or {}):
        return qwen(rows).done()
    return None


def main():
    softland, *paths = sys.argv[1:]
    files = [f for p in paths for f in ([p] if os.path.isfile(p) else sorted(glob.glob(p + "/**", recursive=True))) if os.path.isfile(f)]
    wrong = same = 0
    with tempfile.TemporaryDirectory() as made:
        for at, path in enumerate(files):
            if path.endswith(".sql"):
                base = os.path.join(made, f"{at}.db")
                sqlite3.connect(base).executescript(open(path).read())
                path = base
            wanted, read = count(path), [path]
            if wanted == "beside":
                folder = os.path.dirname(path)
                if os.path.basename(path) != "base_state.json":
                    continue
                events = [json.load(open(e)) for e in sorted(glob.glob(folder + "/events/*.json"))]
                wanted, read = openhands_folder(json.load(open(path)), events).done(), [path, folder + "/events"]
            if wanted is None:
                continue
            said = subprocess.run([softland, "audit", *read, "--format", "json"], capture_output=True, text=True).stdout
            report = json.loads(said)
            kinds = {s["kind"] for s in report["sources"]}
            total = report["totals"]
            usage = total["usage"]
            cost = total["cost_usd"] if wanted.cost is not None else None
            had = Count(" ".join(map(str, kinds)), total["turns"], total["tool_calls"], usage["input"], usage["output"],
                        usage["cache_read"], usage["cache_write"], None if cost is None else round(float(cost), 6))
            if had == wanted:
                same += 1
            else:
                wrong += 1
                print(f"{path}\n  here     {wanted}\n  softland {had}")
    print(f"{same} agree, {wrong} differ")
    sys.exit(wrong > 0 or same == 0)


main()
