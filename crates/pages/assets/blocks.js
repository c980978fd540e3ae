// What a run is shown with, on every page: texts, calls, signals and what softland did.

import { Words, clean, count, el, money } from "/text.js";

const WHY = {
  countdown: "told the model how many calls are left", warn: "warned the model that a limit is near",
  note: "noted in the tool result that the run goes in circles", ask: "asked the model to answer now",
  refuse: "refused a tool call", none: "asked for an answer without tools",
  respond: "asked for the answer by its tool", nudge: "asked again after an empty turn",
  local_answer: "answered in the model's place", trim_tail: "removed a result that the model had invented",
  stop: "stopped the run", deny_spend: "sent no further request: its cost did not fit into the limit",
};
const SAW = {
  empty: "an empty turn", trivial: "a turn with next to no text", stale: "next to no answer to the same context again",
  repeat: "the same call with the same result", cycle: "a cycle of rounds", errors: "the same error again and again",
  echo: "a call beside an invented result", sweep: "the same tool with new arguments each time", truncated: "output cut again and again",
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

// A text or a thought, which grows.
export function saidBlock(kind) {
  const body = el("div", { className: "words" });
  const node = kind === "thinking"
    ? el("details", { className: "block thinking" }, el("summary", { textContent: "Thinking" }), body)
    : el("div", { className: "block " + kind }, body);
  return { kind, node, words: new Words(body) };
}

// A block is whole.
export function finish(block) {
  if (block.kind === "tool" && !block.done) block.how.textContent = "called";
  if (block.kind !== "thinking") return;
  const letters = block.words.all.length;
  block.node.querySelector("summary").textContent = "Thinking (" + (letters ? count(letters, "character") : "not shown by the provider") + ")";
}

// A call, whose input grows.
export function callBlock(id, name) {
  const pre = el("pre", { className: "words", tabIndex: 0 });
  pre.setAttribute("aria-label", "Input of " + clean(name));
  const how = el("span", { className: "how", textContent: "calling" });
  const node = el("article", { className: "block call" },
    el("p", {}, el("span", { className: "tool isolated", textContent: clean(name) }), el("span", { className: "id mono isolated", textContent: clean(id) }), how), pre);
  node.setAttribute("aria-label", "Tool call " + clean(name) + " " + clean(id));
  return { kind: "tool", id, name, node, how, pre, words: new Words(pre), done: false };
}

// A call's result: a `pre` with its text in it, which `paint` shows.
export function resultText(block, text) {
  const pre = el("pre", { className: "words", tabIndex: 0 });
  pre.setAttribute("aria-label", "Result of " + clean(block.name));
  const words = new Words(pre);
  words.add(text || "(no text)");
  return { pre, words };
}

function quoted(node, text, most) {
  if (text) node.append(el("p", { className: "quote words", dir: "auto", textContent: clean(text).slice(0, most) }));
  return node;
}

export function signalBlock(event) {
  const evidence = event.evidence || {};
  const turns = (evidence.turns || []).join(", ");
  const saw = "Signal " + event.signal + ": " + (SAW[event.signal] || "") + (turns ? " (turns " + turns + ")" : "");
  return quoted(el("div", { className: "block did" }, el("p", { textContent: saw })), evidence.call || evidence.text, 400);
}

const LOST = {
  model: "the model was switched", compaction: "the context was compacted, and rebuilt",
  idle: "the pause was longer than the cache's time to live", edited: "something earlier in the request had changed",
  unknown: "why, the answers do not tell",
};

// Tokens that had been in the provider's cache and were written or sent again.
export function lossBlock(event) {
  const cost = event.lost_usd === null || event.lost_usd === undefined ? "" : ", which cost " + money(event.lost_usd) + " more than to read them";
  const pause = event.pause_ms >= 60000 ? " (" + Math.round(event.pause_ms / 60000) + " minutes)" : "";
  const said = "Lost to the cache: " + count(event.tokens, "token") + " again" + cost + ": " + (LOST[event.cause] || event.cause) + (event.cause === "idle" ? pause : "");
  return el("div", { className: "block did" }, el("p", { textContent: clean(said) }));
}

export function interventionBlock(event) {
  const word = event.intervention, why = because(event.because);
  const did = " · softland " + (event.observed ? "would have " : "") + (WHY[word] || "did something") + (why ? " (" + why + ")" : "");
  const node = el("div", { className: "block did" + (STRONG.has(word) ? " strong" : "") }, el("p", {}, el("strong", { textContent: word }), did));
  return quoted(node, event.text, 2000);
}
