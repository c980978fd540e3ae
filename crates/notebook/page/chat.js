// The assistant's runs as they happen: what was said in block order, each call with its input and
// its result, what softland did, and how the run ended.

import { callBlock, finish, interventionBlock, resultText, saidBlock, signalBlock } from "/blocks.js";
import { LIMITS } from "/limits.js";
import { markdown } from "/markdown.js";
import { Words, clean, clock as time, count, el, priced as money } from "/text.js";

const FRAME_MS = 8;
// Who or what ended a run that was broken off; without a word, a person did.
const STOPPED = { user: "by a person", left: "no page was open any more", closed: "softland was stopped", killed: "softland was killed" };

function cost(event) { return (event.estimated ? "about " : "") + money(event.cost_usd) + (event.estimated ? " (estimated)" : ""); }

export class ChatView {
  constructor(log, { say, doing, busy }) {
    Object.assign(this, { log, say, doing, busy });
    this.intro = log.firstElementChild;
    this.reset();
  }

  reset() {
    this.queue = []; this.runs = new Map(); this.dirty = new Set(); this.frame = 0;
    this.log.replaceChildren(this.intro);
    this.intro.hidden = false;
  }

  // What was said belongs to another conversation; what waits to be shown stays.
  forget() {
    this.runs.clear(); this.dirty.clear();
    this.log.replaceChildren(this.intro);
    this.intro.hidden = false;
    if (!this.quiet) this.say("A new conversation has begun");
  }

  begin(events, asked) {
    this.reset();
    this.quiet = true;
    for (const event of events) this.one(event);
    for (const words of this.dirty) words.paint();
    this.dirty.clear();
    this.quiet = false;
    if (!asked) this.settle();
    this.busy(asked);
    this.down(true);
  }

  take(event) {
    this.queue.push(event);
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    const low = this.isLow();
    const until = performance.now() + FRAME_MS;
    let done = 0;
    while (done < this.queue.length && performance.now() < until) { this.one(this.queue[done]); done += 1; }
    this.queue.splice(0, done);
    for (const words of this.dirty) words.paint();
    this.dirty.clear();
    if (low) this.down();
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.paint());
  }

  isLow() { return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60; }
  down() { this.log.scrollTop = this.log.scrollHeight; }

  run(id) {
    let run = this.runs.get(id);
    if (run) return run;
    const node = el("section", { className: "run" });
    node.setAttribute("aria-label", "A run of the assistant");
    run = { id, node, calls: new Map(), block: null, turn: 0 };
    this.runs.set(id, run);
    this.log.append(node);
    this.intro.hidden = true;
    return run;
  }

  put(run, node, kind) {
    node.dataset.kind = kind;
    node.dataset.turn = run.turn;
    run.node.append(node);
    return node;
  }

  words(run, kind) {
    run.block = saidBlock(kind);
    this.put(run, run.block.node, kind);
    return run.block;
  }

  call(run, id, name) {
    run.block = callBlock(id, name);
    this.put(run, run.block.node, "tool");
    run.calls.set(run.turn + "/" + id, run.block);
    return run.block;
  }

  find(run, event) { return run.calls.get((event.turn || 0) + "/" + event.id) || this.call(run, event.id, event.name || "(a tool)"); }
  more(block, text) { block.words.add(text); this.dirty.add(block.words); }

  one(event) {
    if (event.event === "new_conversation") { this.forget(); return; }
    const run = this.run(event.run || "");
    if (event.turn) run.turn = event.turn;
    switch (event.event) {
      case "question": this.question(run, event); break;
      case "note": this.put(run, el("p", { className: "block notice", dir: "auto", textContent: clean(event.text) }), "note"); break;
      case "run_start": this.started(run, event); break;
      case "turn_start": this.turn(run, event); break;
      case "text_start": this.words(run, "text"); break;
      case "text_delta": this.more(run.block?.kind === "text" ? run.block : this.words(run, "text"), event.text); break;
      case "thinking_start": this.words(run, "thinking"); break;
      case "thinking_delta": this.more(run.block?.kind === "thinking" ? run.block : this.words(run, "thinking"), event.text); break;
      case "tool_start": this.call(run, event.id, event.name); break;
      case "tool_input_delta": this.more(this.find(run, event), event.partial_json); break;
      case "block_stop": this.stopped(run); break;
      case "tool_execute": this.executes(this.find(run, event), event); break;
      case "tool_result": this.result(this.find(run, event), event); break;
      case "signal": this.put(run, signalBlock(event), "signal"); break;
      case "intervention": this.put(run, interventionBlock(event), "intervention"); break;
      case "usage": this.usage(run, event); break;
      case "done": case "error": this.ended(run, event); break;
      default: break;
    }
  }

  question(run, event) {
    const body = el("div", { className: "words" });
    const words = new Words(body);
    words.add(event.text);
    this.dirty.add(words);
    const node = el("div", { className: "block question" }, event.steers ? el("p", { className: "faint", textContent: "said meanwhile" }) : null, body);
    this.put(run, node, "question");
    if (!this.quiet) this.down();
  }

  started(run, event) {
    run.model = event.model;
    run.limits = event.policy || {};
    this.put(run, el("p", { className: "block faint isolated", dir: "auto", textContent: time(event.ts) + " · " + clean(event.model) }), "start");
    this.busy(true);
    this.doing("the assistant begins");
  }

  turn(run, event) {
    run.block = null;
    const of = event.turns_limit ? " of " + event.turns_limit : "";
    const calls = event.tool_calls_limit ? ", " + (event.tool_calls || 0) + " of " + count(event.tool_calls_limit, "tool call") + " used" : "";
    const word = event.phase === "landing" ? "answering now" : event.turn > 1 ? "continuing" : "working";
    this.doing(word + " (turn " + event.turn + of + calls + ")");
    if (event.turn > 1) this.put(run, el("p", { className: "block cost step", textContent: "continuing (turn " + event.turn + of + ")" }), "turn");
  }

  stopped(run) {
    const block = run.block;
    run.block = null;
    if (!block) return;
    finish(block);
    if (block.kind === "text") this.formatted(block);
  }

  // Markdown once it is whole; long texts stay as they are.
  formatted(block) {
    if (block.words.all.length > 20000) return;
    this.dirty.delete(block.words);
    block.node.replaceChildren(markdown(block.words.all, 3));
  }

  executes(block, event) {
    block.how.textContent = "running";
    block.how.classList.add("busy");
    const input = event.input;
    block.words.set(input && typeof input === "object" && !Array.isArray(input)
      ? Object.entries(input).map(([key, value]) => key + ": " + (typeof value === "string" ? (value.includes("\n") ? "\n" + value : value) : JSON.stringify(value))).join("\n")
      : String(input));
    this.dirty.add(block.words);
    if (!Object.keys(input || {}).length) block.pre.hidden = true;
    this.doing("running " + clean(block.name).slice(0, 60));
  }

  result(block, event) {
    block.done = true;
    block.how.classList.remove("busy");
    block.how.textContent = (event.ok ? "succeeded" : "failed") + " · " + new Intl.NumberFormat().format(event.ms) + " ms";
    block.how.classList.toggle("failed", !event.ok);
    const { pre, words } = resultText(block, event.content);
    const open = !event.ok || event.content.length < 400;
    const holder = el("details", { className: "result", open }, el("summary", { textContent: "Result (" + count(event.content.length, "character") + ")" }), pre);
    block.node.append(holder);
    this.dirty.add(words);
  }

  usage(run, event) {
    const all = event.input + event.cache_read + event.cache_write;
    this.put(run, el("p", { className: "block cost", textContent: [count(all, "token") + " in", count(event.output, "token") + " out", cost(event)].join(" · ") }), "usage");
  }

  ended(run, event) {
    const why = STOPPED[event.stopped_by] || clean(String(event.reason).replaceAll("_", " "));
    const limit = event.limit ? LIMITS[event.limit] : null;
    const node = el("section", { className: "end " + event.outcome },
      el("h3", {}, el("span", { className: "state " + event.outcome, textContent: event.outcome }), " · " + why));
    if (event.limit) {
      const unit = limit ? (String(event.value) === "1" ? limit[0] : limit[1]) : "";
      node.append(el("p", { className: "limit", textContent: clean("Limit reached: " + event.limit + " = " + event.value + (unit ? " " + unit : "")) }));
    }
    const said = [count(event.turns || 0, "turn"), count(event.tool_calls || 0, "tool call"), cost(event), time(event.ts)];
    if (String(run.model || "").startsWith("sim/")) said.push("simulated: nothing was paid");
    node.append(el("p", { className: "faint", textContent: said.join(" · ") }));
    if (event.message) node.append(el("p", { dir: "auto", className: "words", textContent: clean(event.message).slice(0, 4000) }));
    if (event.answered_by === "local") node.append(el("p", { className: "faint", textContent: "This answer is softland's, not the model's. It lists what was found." }));
    const shown = [...run.node.querySelectorAll("[data-kind=text]")].at(-1);
    if (event.answer && (event.answered_by === "local" || !shown)) node.append(markdown(event.answer, 4));
    this.put(run, node, "end");
    run.over = true;
    for (const block of run.calls.values()) if (!block.done) { block.how.textContent = "not finished"; block.how.classList.remove("busy"); }
    if (!this.quiet) this.say("The assistant has ended: " + event.outcome + ", " + why);
    this.busy(false);
  }

  // Nothing runs: no mark of a run that goes on is left.
  settle() {
    for (const run of this.runs.values()) for (const block of run.calls.values()) {
      if (!block.done) { block.how.textContent = "not finished"; block.how.classList.remove("busy"); }
    }
  }
}
