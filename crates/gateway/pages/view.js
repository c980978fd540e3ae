// One run, as it happens: what was said in block order, what was done and seen, and what it cost.
// Whatever comes from a model or a tool is text and nothing else.

import { callBlock, finish, interventionBlock, lossBlock, resultText, saidBlock, signalBlock } from "/blocks.js";
import { Words, clean, clock, count, el, money, time } from "/text.js";

const FRAME_MS = 8;          // work of one frame
const FRAME_EVENTS = 250;

const number = new Intl.NumberFormat();
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const took = (ms) => (ms < 1000 ? ms + " ms" : number.format(ms / 1000) + " s");

export class RunView {
  constructor(root, run, { onCancel, say }) {
    Object.assign(this, { root, run, say, queue: [], turns: new Map(), calls: new Map(), dirty: new Set() });
    this.seen = { calls: 0, spent: 0, known: true, input: 0, output: 0, read: 0, write: 0, lost: 0, lostUsd: 0 };
    this.frame = 0;
    this.build(onCancel);
  }

  build(onCancel) {
    this.named = el("span", { className: "mono isolated", dir: "auto", textContent: clean(this.run) });
    this.called = el("span", { className: "isolated", dir: "auto" });
    this.title = el("h2", { id: "run-title", tabIndex: -1 }, "Run ", this.called, this.named);
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

  // There is no such run: nothing of one is shown.
  missing() {
    this.gone = true;
    this.title.textContent = "No such run";
    this.root.replaceChildren(el("p", {}, el("a", { href: "#runs", textContent: "← All runs" })), this.title,
      el("p", { className: "notice" }, "There is no run ", el("span", { className: "mono isolated", dir: "auto", textContent: clean(this.run).slice(0, 200) }),
        " here. Perhaps the address is mistyped, the run is older than [ledger] retention, or another gateway recorded it."));
  }

  reset() {
    this.queue = []; this.turns.clear(); this.calls.clear(); this.dirty.clear(); this.block = null; this.end = null;
    this.seen = { calls: 0, spent: 0, known: true, input: 0, output: 0, read: 0, write: 0, lost: 0, lostUsd: 0 };
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
    this.block = { turn, ...saidBlock(kind) };
    if (middle) this.block.node.prepend(el("span", { className: "faint", textContent: "… " }));
    this.put(turn, this.block.node, kind);
    return this.block;
  }

  call(turn, id, name) {
    this.block = { turn, key: id, ...callBlock(id, name) };
    this.put(turn, this.block.node, "tool");
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
        turn.title.append(el("span", { textContent: " · " + clock(event.ts) }));
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
      case "signal": this.put(turn, signalBlock(event), "signal"); break;
      case "cache_loss": this.lost(turn, event); break;
      case "intervention": this.put(turn, interventionBlock(event), "intervention"); break;
      case "usage": this.usage(turn, event); break;
      case "child": break;
      case "done": case "error": this.ended(event); break;
      default: break;
    }
  }

  stopped() {
    const block = this.block;
    this.block = null;
    if (block) finish(block);
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
    const { pre, words } = resultText(block, event.content);
    block.node.append(el("div", { className: "result" }, pre));
    if (event.cut_bytes) words.add("\n[" + count(event.cut_bytes, "byte") + " more are not shown here]");
    if (event.parts_without_text) words.add("\n[" + count(event.parts_without_text, "part") + " without text]");
    this.dirty.add(words);
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

  lost(turn, event) {
    this.seen.lost += event.tokens || 0; this.seen.lostUsd += Number(event.lost_usd || 0);
    this.put(turn, lossBlock(event), "cache_loss");
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
