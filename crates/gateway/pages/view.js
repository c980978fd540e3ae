// One run, as it happens: what was said in block order, what was done and seen, and what it cost.
// Whatever comes from a model or a tool is text and nothing else.

const SHOWN = 6000;          // characters of a block before "show more"
const STEP = 60000;          // characters that one "show more" adds
const FRAME_MS = 8;          // work of one frame
const FRAME_EVENTS = 250;

const number = new Intl.NumberFormat();
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const took = (ms) => (ms < 1000 ? ms + " ms" : number.format(ms / 1000) + " s");

export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (key in node && key !== "list") node[key] = value; else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  const value = Number(usd);
  if (value === 0) return "$0";
  return "$" + (value >= 1 ? value.toFixed(2) : value.toFixed(value >= 0.01 ? 3 : 5).replace(/0+$/, ""));
}

export function count(n, one, many = one + "s") { return number.format(n) + " " + (n === 1 ? one : many); }

export function time(ts, only = false) {
  const at = new Date(ts);
  return only ? at.toLocaleTimeString() : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

// Colours and cursor moves of terminals go; other controls and directions are made visible.
export function clean(text) {
  return String(text)
    .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "")
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, (c) => "⟦U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟧");
}

// Text that grows, cut where it is long.
class Words {
  constructor(node) {
    this.node = node; this.all = ""; this.shown = 0; this.limit = SHOWN; this.node.dir = "auto";
  }
  add(text) { this.all += text; }
  paint() {
    const to = Math.min(this.all.length, this.limit);
    if (to > this.shown) {
      this.node.append(document.createTextNode(clean(this.all.slice(this.shown, to))));
      this.shown = to;
    }
    const left = this.all.length - this.shown;
    if (left > 0) this.offer(left);
    else if (this.more) { this.more.remove(); this.more = null; }
  }
  offer(left) {
    if (!this.more) {
      this.more = el("button", { type: "button", className: "more" });
      this.more.addEventListener("click", () => { this.limit += STEP; this.paint(); });
      this.node.after(this.more);
    }
    this.more.textContent = "Show more (" + count(left, "character") + " left)";
  }
}

const WHY = {
  countdown: "told the model how many calls are left", warn: "warned the model that a limit is near",
  note: "noted in the tool result that the run goes in circles", ask: "asked the model to answer now",
  refuse: "refused a tool call", none: "asked for an answer without tools",
  respond: "asked for the answer tool", nudge: "asked again after an empty turn",
  local_answer: "answered itself", trim_tail: "took out what the model had made up behind a call",
  stop: "stopped the run", deny_spend: "sent no further request: the money is not there",
};
const SAW = {
  empty: "an empty turn", trivial: "a trivial turn", stale: "the same context answered in vain",
  repeat: "the same call with the same result", cycle: "a cycle of rounds", errors: "the same error again and again",
  echo: "a call beside an invented result", sweep: "one tool over ever new arguments", truncated: "output cut again and again",
};
const STRONG = new Set(["ask", "refuse", "none", "respond", "stop", "local_answer", "deny_spend"]);

function because(why) {
  if (!why) return "";
  const value = (limit) => {
    if (limit === null || limit === undefined) return "";
    if (typeof limit !== "object") return String(limit);
    return Object.values(limit).join(" ");
  };
  const reason = why.reason ? String(typeof why.reason === "object" ? JSON.stringify(why.reason) : why.reason).replaceAll("_", " ") : "";
  const used = value(why.used), limit = value(why.limit);
  return reason + (used !== "" && limit !== "" ? ": " + used + " of " + limit : "");
}

export class RunView {
  constructor(root, run, { onCancel, say }) {
    Object.assign(this, { root, run, say, queue: [], turns: new Map(), calls: new Map(), dirty: new Set() });
    this.seen = { calls: 0, spent: 0, known: true, input: 0, output: 0, read: 0, write: 0 };
    this.frame = 0;
    this.build(onCancel);
  }

  build(onCancel) {
    this.named = el("span", { className: "mono isolated", dir: "auto", textContent: this.run });
    this.title = el("h2", { id: "run-title", tabIndex: -1 }, "Run ", this.named);
    this.cancel = el("button", { type: "button", className: "bad", textContent: "Cancel the run", hidden: true });
    this.cancel.addEventListener("click", onCancel);
    this.facts = el("dl", { className: "facts" });
    this.notice = el("p", { className: "notice", hidden: true });
    this.family = el("nav", { "aria-label": "Sub-agents", hidden: true });
    this.steps = el("div", { className: "steps", role: "log", "aria-live": "off", "aria-label": "What happened" });
    this.wait = el("p", { className: "faint", textContent: "Loading the run…" });
    this.root.replaceChildren(
      el("p", {}, el("a", { href: "#runs", textContent: "← All runs" })),
      el("div", { className: "bar" }, this.title, this.cancel),
      this.facts, this.notice, this.family, this.wait, this.steps);
  }

  reset() {
    this.queue = []; this.turns.clear(); this.calls.clear(); this.dirty.clear(); this.block = null; this.end = null;
    this.seen = { calls: 0, spent: 0, known: true, input: 0, output: 0, read: 0, write: 0 };
    this.steps.replaceChildren();
  }

  take(events) {
    for (const event of events) this.queue.push(event);
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  close() { if (this.frame) cancelAnimationFrame(this.frame); this.closed = true; }

  paint() {
    this.frame = 0;
    if (this.closed) return;
    this.wait.hidden = true;
    const until = performance.now() + FRAME_MS;
    let done = 0;
    while (done < this.queue.length && done < FRAME_EVENTS && performance.now() < until) {
      this.one(this.queue[done]);
      done += 1;
    }
    this.queue.splice(0, done);
    for (const words of this.dirty) words.paint();
    this.dirty.clear();
    if (this.onFacts) this.onFacts();
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.paint());
  }

  turn(n) {
    let turn = this.turns.get(n);
    if (turn) return turn;
    const title = el("h3", { textContent: n ? "Turn " + n : "Beginning" });
    const node = el("section", { className: "turn" }, title);
    node.dataset.turn = n;
    turn = { node, title, n };
    this.turns.set(n, turn);
    const later = [...this.turns.values()].filter((other) => other.n > n && other.node.isConnected).sort((a, b) => a.n - b.n)[0];
    if (later) this.steps.insertBefore(node, later.node);
    else if (this.end) this.steps.insertBefore(node, this.end);
    else this.steps.append(node);
    return turn;
  }

  put(turn, node, kind) {
    node.dataset.kind = kind;
    const said = kind === "text" || kind === "thinking" || kind === "tool";
    // What is told anew stands where it was said: before what it cost.
    if (said && turn.before) turn.before.before(node); else turn.node.append(node);
    return node;
  }

  // Told in the middle of a block: its beginning was before.
  open(turn, kind, key) {
    const block = this.block;
    if (block && block.kind === kind && block.turn === turn && (!key || block.key === key)) return block;
    if (kind === "tool") {
      const had = this.calls.get(turn.n + "/" + key);
      if (had) return had;
      return this.call(turn, key, "(a tool)");
    }
    return this.words(turn, kind, true);
  }

  words(turn, kind, middle = false) {
    let node, body;
    if (kind === "thinking") {
      const summary = el("summary", { textContent: "Thinking" });
      body = el("div", { className: "words" });
      node = el("details", { className: "block thinking" }, summary, body);
    } else {
      body = el("div", { className: "words" });
      node = el("div", { className: "block text" }, body);
    }
    if (middle) node.prepend(el("span", { className: "faint", textContent: "… " }));
    this.put(turn, node, kind);
    this.block = { kind, turn, node, words: new Words(body) };
    return this.block;
  }

  call(turn, id, name) {
    const pre = el("pre", { className: "words", tabIndex: 0 });
    pre.setAttribute("aria-label", "Input of " + name);
    const how = el("span", { className: "how", textContent: "calling" });
    const node = el("article", { className: "block call" },
      el("p", {}, el("span", { className: "tool isolated", textContent: clean(name) }), el("span", { className: "id mono isolated", textContent: clean(id) }), how), pre);
    node.setAttribute("aria-label", "Tool call " + name);
    this.put(turn, node, "tool");
    this.block = { kind: "tool", turn, key: id, node, how, name, words: new Words(pre) };
    this.calls.set(turn.n + "/" + id, this.block);
    return this.block;
  }

  more(block, text) { block.words.add(text); this.dirty.add(block.words); }

  one(event) {
    const turn = this.turn(event.turn || 0);
    switch (event.event) {
      case "run_start": this.started(event, turn); break;
      case "question": {
        const body = el("div", { className: "words" });
        const words = new Words(body);
        words.add(event.text); this.dirty.add(words);
        this.put(turn, el("div", { className: "block question" }, body), "question");
        break;
      }
      case "turn_start":
        turn.title.textContent = "Turn " + event.turn + (event.turns_limit ? " of " + event.turns_limit : "");
        turn.title.title = time(event.ts);
        turn.title.append(el("span", { textContent: " · " + time(event.ts, true) }));
        break;
      case "turn_again":
        for (const node of [...turn.node.children]) {
          if (["text", "thinking", "tool"].includes(node.dataset.kind)) node.remove();
        }
        for (const key of [...this.calls.keys()]) if (key.startsWith(turn.n + "/")) this.calls.delete(key);
        this.block = null;
        turn.before = [...turn.node.children].findLast((node) => node.dataset.kind === "usage");
        break;
      case "text_start": this.words(turn, "text"); break;
      case "text_delta": this.more(this.open(turn, "text"), event.text); break;
      case "thinking_start": this.words(turn, "thinking"); break;
      case "thinking_delta": this.more(this.open(turn, "thinking"), event.text); break;
      case "tool_start": this.call(turn, event.id, event.name); this.seen.calls += 1; break;
      case "tool_input_delta": this.more(this.open(turn, "tool", event.id), event.partial_json); break;
      case "block_stop": this.stopped(); break;
      case "tool_result": this.result(turn, event); break;
      case "signal": this.signal(turn, event); break;
      case "intervention": this.intervention(turn, event); break;
      case "usage": this.usage(turn, event); break;
      case "child": break;
      case "done": case "error": this.ended(event); break;
      default: break;
    }
  }

  stopped() {
    const block = this.block;
    this.block = null;
    if (!block) return;
    if (block.kind === "thinking") {
      const n = block.words.all.length;
      block.node.querySelector("summary").textContent = n ? "Thinking (" + count(n, "character") + ")" : "Thinking (not shown by the provider)";
    }
    if (block.kind === "tool" && !block.done) block.how.textContent = "called";
  }

  started(event, turn) {
    const what = [event.model, "policy " + event.policy];
    if (event.client) what.push(event.client);
    if (event.mode) what.push("only observed");
    const node = el("p", { className: "block faint isolated", dir: "auto", textContent: time(event.ts) + " · " + clean(what.join(" · ")) });
    this.put(turn, node, "start");
  }

  result(turn, event) {
    const block = this.calls.get(turn.n + "/" + event.id) || this.call(turn, event.id, "(a tool)");
    if (this.block === block) this.block = null;
    block.done = true;
    const bytes = new Blob([event.content || ""]).size + (event.cut_bytes || 0);
    block.how.textContent = (event.ok ? "succeeded" : "failed") + " · " + count(bytes, "byte");
    block.how.classList.toggle("failed", !event.ok);
    const pre = el("pre", { className: "words", tabIndex: 0 });
    pre.setAttribute("aria-label", "Result of " + block.name);
    const holder = el("div", { className: "result" }, pre);
    block.node.append(holder);
    const words = new Words(pre);
    words.add(event.content || "(no text)");
    if (event.cut_bytes) words.add("\n[" + count(event.cut_bytes, "byte") + " more are not shown here]");
    if (event.parts_without_text) words.add("\n[" + count(event.parts_without_text, "part") + " without text]");
    this.dirty.add(words);
  }

  signal(turn, event) {
    const evidence = event.evidence || {};
    const turns = (evidence.turns || []).join(", ");
    const node = el("div", { className: "block did" },
      el("p", { textContent: "Signal " + event.signal + ": " + (SAW[event.signal] || "") + (turns ? " (turns " + turns + ")" : "") }));
    const quote = evidence.call || evidence.text;
    if (quote) node.append(el("p", { className: "quote words", dir: "auto", textContent: clean(quote).slice(0, 400) }));
    this.put(turn, node, "signal");
  }

  intervention(turn, event) {
    const word = event.intervention;
    const would = event.observed ? "would have " : "";
    const node = el("div", { className: "block did" + (STRONG.has(word) ? " strong" : "") });
    const why = because(event.because);
    node.append(el("p", {}, el("strong", { textContent: word }), " · softland " + would + (WHY[word] || "did something") + (why ? " (" + why + ")" : "")));
    if (event.text) node.append(el("p", { className: "quote words", dir: "auto", textContent: clean(event.text).slice(0, 2000) }));
    this.put(turn, node, "intervention");
  }

  usage(turn, event) {
    const seen = this.seen;
    seen.input += event.input || 0; seen.output += event.output || 0;
    seen.read += event.cache_read || 0; seen.write += event.cache_write || 0;
    if (event.cost_usd === null || event.cost_usd === undefined) seen.known = false; else seen.spent += Number(event.cost_usd);
    const all = event.input + event.cache_read + event.cache_write;
    const said = [count(all, "token") + " in" + (all ? " (" + percent.format(event.cache_read / all) + " from cache)" : ""),
      count(event.output, "token") + " out", money(event.cost_usd), took(event.ms || 0)];
    if (event.status && event.status !== 200) said.push("status " + event.status);
    if (event.rung) said.push("rung " + event.rung);
    if (event.remark) said.push(event.remark);
    this.put(turn, el("p", { className: "cost", dir: "auto", textContent: clean(said.join(" · ")) }), "usage");
  }

  ended(event) {
    const limit = event.limit ? " · " + event.limit + " " + (event.value ?? "") : "";
    const node = el("section", { className: "end " + event.outcome },
      el("h3", {}, el("span", { className: "state " + event.outcome, textContent: event.outcome }), " · " + String(event.reason).replaceAll("_", " ") + limit));
    const said = [count(event.turns || 0, "turn"), event.tool_calls === null || event.tool_calls === undefined ? "tool calls unknown" : count(event.tool_calls, "tool call"), money(event.cost_usd), time(event.ts)];
    if (event.answered_by === "local") said.unshift("the answer is softland's, not the model's");
    if (event.message) said.unshift(event.message);
    node.append(el("p", { className: "faint", dir: "auto", textContent: clean(said.join(" · ")) }));
    if (event.answer) {
      const body = el("div", { className: "words" });
      const words = new Words(body);
      words.add(event.answer); this.dirty.add(words);
      node.append(body);
    }
    this.end?.remove();
    this.end = node;
    this.steps.append(node);
    for (const block of this.calls.values()) {
      if (!block.done && block.how.textContent === "calling") block.how.textContent = "not finished";
    }
    this.over = true;
    this.say("The run has ended: " + event.outcome + ", " + event.reason);
  }
}
