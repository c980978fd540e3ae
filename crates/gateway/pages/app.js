// The list of runs, the way between the pages, totals, and cancelling.

import { budgets, spending } from "/budgets.js";
import { charts } from "/charts.js";
import { Feed, Refused, ask, hasToken, setToken } from "/feed.js";
import { clean, confirmed, count, el, money, time } from "/text.js";
import { takeToken } from "/token.js";
import { fine, onToken, trouble } from "/trouble.js";
import { RunView } from "/view.js";

const $ = (id) => document.getElementById(id);
const TYPING = 300;          // ms without a key before the ledger is searched
const QUESTIONS = 3000;      // ms after which it is asked how new runs were asked
const body = $("runs").tBodies[0];
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const rows = new Map();      // run -> what is known of it
const lines = new Map();     // run -> its row in the table
const changed = new Set();
let ledger = { on: false, content: "digests" };
let more = false, searched = "", searchedMore = false, searching = 0;
let frame = 0, order = true, loaded = false;
let view = null, feed = null, watched = "";
let list = null;

function say(text) { $("said").textContent = text; }

function connection(word, error) {
  const link = $("link");
  link.className = "link " + (word === "on" ? "on" : "off");
  link.textContent = word === "on" ? "live" : word === "refused" ? "refused" : "connecting again";
  if (error) trouble(error);
}

/* the list */

function stateOf(row) { return row.outcome || (row.ended ? "ended" : "open"); }

function calls(row) {
  if (row.tool_calls === null || row.tool_calls === undefined) return "unknown";
  if (row.tool_calls_limit !== null && row.tool_calls_limit !== undefined) {
    return row.tool_calls + " of " + row.tool_calls_limit + " tool calls";
  }
  return count(row.tool_calls, "tool call");
}

// Whose sub-agent it is: what is known, else the newest run of its session without an agent.
function parentOf(row) {
  if (row.parent) return row.parent;
  if (!row.agent || !row.session) return "";
  let found = null;
  for (const other of rows.values()) {
    if (other.session === row.session && !other.agent && other.started <= row.started && (!found || other.started > found.started)) found = other;
  }
  return found ? found.run : "";
}

// What tells it from others: its name, its agent, how it was asked, or else when which model began.
function titleOf(row) {
  return clean(row.name || row.agent || (row.question ? "“" + row.question + "”" : (row.model || "unknown model") + ", " + time(row.started)));
}

function fits(row) {
  const wanted = $("state").value;
  if (wanted && stateOf(row) !== wanted) return false;
  const text = $("search").value.trim().toLowerCase();
  if (!text) return true;
  const all = [row.run, row.name, row.agent, row.model, row.client, row.policy, row.session, row.reason, row.outcome, row.question];
  return all.some((field) => field && String(field).toLowerCase().includes(text));
}

function merge(row) {
  const had = rows.get(row.run);
  if (had && had.outcome && !row.outcome) return;
  if (had && had.question && !row.question) row.question = had.question;
  rows.set(row.run, row);
  if (!had && loaded && ledger.content === "full" && !row.name && !row.agent && !row.question) soon();
  if (!had) order = true;
  if (had && had.outcome !== row.outcome) say("Run " + titleOf(row) + " has ended: " + row.outcome);
  changed.add(row.run);
  if (!frame) frame = requestAnimationFrame(paint);
}

// How it was asked is known a little after it has begun.
let waits = 0;
function soon() {
  if (waits) return;
  waits = setTimeout(() => { waits = 0; load(); }, QUESTIONS);
}

function line(run) {
  const link = el("a", { href: "#run=" + encodeURIComponent(run), className: "isolated", dir: "auto" });
  const sub = el("span", { className: "sub isolated mono", dir: "auto" });
  const state = el("span", {});
  const why = el("span", { className: "sub" });
  const cells = [el("td", {}, link, sub), el("td", {}, state, why), el("td", { className: "isolated", dir: "auto" }),
    el("td", { className: "num", "data-label": "" }), el("td", { className: "num", "data-label": "turns" }),
    el("td", { className: "num", "data-label": "spent" }), el("td", {})];
  return { node: el("tr", {}, ...cells), link, sub, state, why, cells };
}

function set(node, text) { if (node.textContent !== text) node.textContent = text; }

function fill(row) {
  let had = lines.get(row.run);
  if (!had) { had = line(row.run); lines.set(row.run, had); }
  const state = stateOf(row);
  set(had.link, titleOf(row));
  set(had.sub, clean([row.run, row.agent ? "agent " + row.agent : "", row.mode ? "observed" : ""].filter(Boolean).join(" · ")));
  had.state.className = "state " + state;
  set(had.state, state);
  const phase = row.phase && row.phase !== "silent" ? row.phase : "";
  set(had.why, row.outcome ? String(row.reason || "").replaceAll("_", " ") : ledger.read_only ? "" : [row.busy ? "model at work" : "waiting for its client", phase].filter(Boolean).join(" · "));
  set(had.cells[2], clean(row.model || "unknown"));
  set(had.cells[3], calls(row));
  set(had.cells[4], String(row.turns ?? 0));
  set(had.cells[5], money(row.cost_usd));
  set(had.cells[6], time(row.started));
  had.node.hidden = !fits(row);
}

function paint() {
  frame = 0;
  const until = performance.now() + 12;
  for (const run of [...changed]) {
    fill(rows.get(run));
    changed.delete(run);
    if (performance.now() > until) break;
  }
  if (changed.size) { frame = requestAnimationFrame(paint); return; }
  if (order) { arrange(); order = false; }
  summary();
  if (view) facts();
}

// Newest first; sub-agents below the run that called them.
function arrange() {
  const children = new Map(), top = [];
  const all = [...rows.values()].sort((a, b) => (a.started < b.started ? 1 : -1));
  for (const row of all) {
    const parent = parentOf(row);
    if (parent && parent !== row.run && rows.has(parent)) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(row);
    } else top.push(row);
  }
  const placed = new Set(), nodes = [];
  const place = (row, child) => {
    if (placed.has(row.run)) return;
    placed.add(row.run);
    const had = lines.get(row.run);
    if (!had) return;
    had.node.classList.toggle("child", child);
    nodes.push(had.node);
    for (const next of children.get(row.run) || []) place(next, true);
  };
  for (const row of top) place(row, false);
  for (const row of all) place(row, false);
  // Only where the order has changed: focus stays where it is.
  nodes.forEach((node, at) => { if (body.children[at] !== node) body.insertBefore(node, body.children[at] || null); });
}

function older() {
  if ($("search").value.trim() || $("state").value) return searchedMore && !searching ? "; more fit than are listed" : "";
  return more ? "; the ledger has older ones, which a search finds" : "";
}

function summary() {
  const all = [...rows.values()];
  const open = all.filter((row) => stateOf(row) === "open").length;
  const shown = all.filter(fits).length;
  $("runs").hidden = shown === 0;
  if (!loaded && !all.length) return;
  const text = all.length === 0 ? (ledger.trouble ? "Runs that have ended cannot be shown: " + clean(ledger.trouble) + "." : ledger.read_only ? "The ledger has no run yet." : "No run yet. Point a client at this gateway, and its runs appear here.")
    : shown === 0 ? (searching ? "Looking through the ledger…" : ledger.trouble ? "No run matches, as far as is known: " + clean(ledger.trouble) + "." : "No run matches your search.")
      : count(shown, "run") + (shown < all.length ? " of " + all.length : "") + ", " + open + " open" + older();
  set($("count"), text);
  $("kept").hidden = !loaded;
  set($("kept"), ledger.trouble ? "Runs that have ended are missing here: " + clean(ledger.trouble) + "." : !ledger.on
    ? "No ledger is kept. As long as this gateway runs, it remembers the 500 newest runs that have ended, without their texts."
    : ledger.content === "digests"
      ? "The ledger has no texts and no results of tools. [ledger] content = \"full\" keeps those of later runs, too."
      : "The ledger keeps texts, calls and results, too.");
}

function filter() {
  for (const row of rows.values()) { const had = lines.get(row.run); if (had) had.node.hidden = !fits(row); }
  look();
  summary();
}

// Older runs than are listed are looked for in the ledger.
function look() {
  const text = $("search").value.trim(), state = $("state").value;
  clearTimeout(searching);
  searching = 0;
  if (!more || !(text || state) || searched === text + "\n" + state) return;
  searchedMore = false;
  searching = setTimeout(async () => {
    const mine = searching;
    try {
      const got = await (await ask("/api/runs?" + new URLSearchParams({ search: text, state }))).json();
      for (const row of got.runs) merge(row);
      ledger = got.ledger;
      if (ledger.trouble) trouble(new Error(ledger.trouble));
      else { fine(); searched = text + "\n" + state; searchedMore = got.more; }
    } catch (error) { trouble(error); }
    if (searching === mine) searching = 0;
    summary();
  }, TYPING);
}

async function load() {
  try {
    const got = await (await ask("/api/runs")).json();
    ledger = got.ledger;
    more = got.more;
    loaded = true;
    fine();
    if (ledger.trouble) trouble(new Error(ledger.trouble));
    for (const row of got.runs) merge(row);
    // What was typed before there was a list.
    look();
    if (!got.runs.length) summary();
    if (!list) list = new Feed("/api/events", { take: (events) => events.forEach(merge), resync: load, state: connection, last: got.at });
  } catch (error) {
    trouble(error);
    set($("count"), error.status === 401 ? "The runs are not shown without the token." : "The runs could not be loaded.");
    const final = error instanceof Refused && error.final;
    connection(final ? "refused" : "off");
    if (!final) setTimeout(load, 3000);
  }
}

/* one run */

// A name of dots alone would be a way to somewhere else; no run has it.
function place(run) { return "/api/runs/" + (/^\.\.?$/.test(run) ? "-" : encodeURIComponent(run)); }

function show(run) {
  if (watched === run) return;
  leave();
  watched = run;
  // An older one than is listed.
  if (!rows.has(run)) ask(place(run)).then((got) => got.json()).then(merge).catch(() => {});
  const root = $("run");
  root.setAttribute("aria-labelledby", "run-title");
  view = new RunView(root, run, { onCancel: () => cancel(run), say });
  view.onFacts = facts;
  facts();
  feed = new Feed(place(run) + "/events", {
    take: (events) => view && view.take(events),
    resync: () => view && view.reset(),
    state: (word, error) => {
      if (error && error.status === 404 && view) { view.missing(); document.title = "softland: no such run"; say("There is no such run here."); return; }
      if (error && view) { view.wait.hidden = false; view.wait.textContent = error.status === 401 ? "The run is not shown without the token." : clean(error.message); if (error.status === 401) trouble(error); }
      if (word === "off" && view && !view.over) say("The connection was lost; connecting again.");
    },
  });
}

function leave() {
  if (feed) feed.close();
  if (view) view.close();
  feed = null; view = null; watched = "";
}

function fact(name, value, small, extra) {
  const dd = el("dd", {}, value);
  if (small) dd.append(el("small", { textContent: small }));
  if (extra) dd.append(extra);
  return el("div", {}, el("dt", { textContent: name }), dd);
}

let factsText = "";
function facts() {
  // Nothing is said of a run of which nothing is known yet.
  if (!view || view.gone || (!rows.has(view.run) && !view.turns.size)) return;
  const row = rows.get(view.run) || {};
  const seen = view.seen;
  const state = view.over || row.outcome ? row.outcome || "ended" : "open";
  const usage = row.usage || {};
  const input = Math.max(usage.input || 0, seen.input), read = Math.max(usage.cache_read || 0, seen.read);
  const write = Math.max(usage.cache_write || 0, seen.write), output = Math.max(usage.output || 0, seen.output);
  const all = input + read + write;
  const spent = row.cost_usd !== undefined && row.cost_usd !== null ? Math.max(Number(row.cost_usd), seen.known ? seen.spent : 0) : seen.known ? seen.spent : null;
  const family = [...rows.values()].filter((other) => other.run !== view.run && parentOf(other) === view.run);
  const parent = parentOf(row);
  const before = row.continues, after = [...rows.values()].find((other) => other.continues === view.run);
  const key = JSON.stringify([state, row, spent, all, read, output, seen.lost, family.map((f) => [f.run, stateOf(f), f.cost_usd]), after?.run, ledger]);
  view.cancel.hidden = state !== "open" || !row.run || Boolean(ledger.read_only);
  if (key === factsText && view.facts.childElementCount) return;
  factsText = key;
  set(view.named, clean(view.run));
  set(view.called, row.name || row.agent ? clean(row.name || row.agent) + " · " : "");
  const mark = el("span", { className: "state " + state, textContent: state });
  const why = row.outcome ? String(row.reason || "").replaceAll("_", " ") + (row.limit ? " (" + row.limit + " " + (row.value ?? "") + ")" : "")
    : state !== "open" ? "" : ledger.read_only ? (row.last ? "last record " + time(row.last) : "") : [row.busy ? "model at work" : "waiting for its client", "phase " + (row.phase || "silent")].join(", ");
  let bar = null;
  if (row.tool_calls_limit) {
    bar = el("progress", { max: row.tool_calls_limit, value: Math.min(row.tool_calls || 0, row.tool_calls_limit) });
    bar.setAttribute("aria-label", "Share of the tool calls that are used");
  }
  view.facts.replaceChildren(
    fact("State", mark, why),
    fact("Tool calls", calls(row), "", bar),
    fact("Turns", String(row.turns ?? [...view.turns.keys()].filter(Boolean).length)),
    fact("Spent", money(spent), spent === null ? "no price is known" : ""),
    fact("From cache", all ? percent.format(read / all) : "–", count(all, "token") + " in, " + count(output, "token") + " out"),
    ...(seen.lost ? [fact("Lost to the cache", money(seen.lostUsd), count(seen.lost, "token") + " again; where, the turns say")] : []),
    fact("Model", clean(row.model || "unknown"), clean([row.policy ? "policy " + row.policy : "", row.agent ? "agent " + row.agent : "", row.mode ? "only observed" : ""].filter(Boolean).join(", "))),
  );
  view.steps.classList.toggle("busy", Boolean(row.busy) && state === "open");
  note(row, state);
  view.family.hidden = !family.length && !parent && !before && !after;
  const items = family.map((other) => el("li", {}, el("a", { href: "#run=" + encodeURIComponent(other.run), className: "isolated", dir: "auto", textContent: titleOf(other) }), " ", el("span", { className: "state " + stateOf(other), textContent: stateOf(other) }), " · " + calls(other) + " · " + money(other.cost_usd)));
  const way = (words, run) => (run ? [el("p", {}, words, el("a", { href: "#run=" + encodeURIComponent(run), className: "mono isolated", textContent: clean(run) }))] : []);
  view.family.replaceChildren(
    ...way("Continues ", before), ...way("Continued by ", after?.run),
    ...way("Sub-agent of ", parent),
    ...(family.length ? [el("h3", { textContent: "Sub-agents" }), el("ul", { className: "family" }, ...items)] : []));
}

function note(row, state) {
  const said = view.steps.querySelector("[data-kind=text], [data-kind=tool], [data-kind=thinking]");
  let text = "";
  if ((state !== "open" || ledger.read_only) && !said && row.run) {
    text = !ledger.on ? "No ledger is kept, so the texts of this run are gone."
      : ledger.content === "digests" ? "The ledger has the decisions, counts and costs of this run, but not its texts, calls and results. [ledger] content = \"full\" keeps those of later runs, too."
        : "";
  } else if (state === "open" && !said && row.run && (row.turns || 0) > 0 && !row.busy) {
    text = "This page was opened in the middle of the run. It shows what was said before as soon as the run sends its next request.";
  }
  view.notice.hidden = !text;
  set(view.notice, text);
}

async function cancel(run) {
  if (!hasToken()) {
    trouble(new Refused(401, ""));
    $("token").focus();
    return;
  }
  if (!(await confirmed($("ask")))) return;
  try {
    const done = await (await ask(place(run) + "/cancel", { method: "POST" })).json();
    say("Cancelled: " + count(done.cancelled.length, "run"));
    fine();
  } catch (error) { trouble(error); }
}

/* totals */

// A sum of requests of which some have no known price is at least so much.
function atLeast(usd, sum) {
  if (!sum.unpriced_requests) return money(usd);
  return usd === null ? "unknown" : "at least " + money(usd);
}

function table(title, sums, name, newest) {
  const keys = Object.keys(sums || {});
  if (newest) keys.sort().reverse(); else keys.sort((a, b) => Number(sums[b].spend_usd) - Number(sums[a].spend_usd));
  const head = el("tr", {}, ...[name, "Runs", "Spent", "Wasted", "Answered", "Landed", "Stopped"].map((text, at) => el("th", { scope: "col", className: at ? "num" : "", textContent: text })));
  const rest = keys.map((key) => {
    const sum = sums[key];
    const cells = [sum.runs, atLeast(sum.spend_usd, sum), atLeast(sum.wasted_usd, sum), sum.answered, sum.landed, sum.stopped];
    return el("tr", {}, el("th", { scope: "row", className: "isolated", dir: "auto", textContent: clean(key) }), ...cells.map((cell) => el("td", { className: "num", textContent: String(cell) })));
  });
  const scroll = el("div", { className: "scroll", tabIndex: 0, role: "region" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rest)));
  scroll.setAttribute("aria-label", title);
  return [el("h3", { textContent: title }), scroll];
}

async function totals() {
  const sums = $("sums");
  try {
    const offset = -new Date().getTimezoneOffset();
    const got = await (await ask("/api/totals?days=" + $("days").value + "&offset=" + offset)).json();
    const since = got.since_start;
    const parts = await budgets();
    if (got.all) {
      if (got.more) parts.push(el("p", { className: "notice", textContent: "Only the newest 50,000 runs are added up." }));
      parts.push(el("dl", { className: "facts" }, fact("Spent", atLeast(got.all.spend_usd, got.all), count(got.all.runs, "run") + (got.all.unpriced_requests ? ", " + count(got.all.unpriced_requests, "request") + " without a known price" : "")),
        fact("Landed", String(got.all.landed)), fact("Stopped", String(got.all.stopped)),
        fact("Wasted", atLeast(got.all.wasted_usd, got.all), "by turns that signals name"),
        fact("Outside of runs", money(got.beside.spend_usd), count(got.beside.requests, "request") + " without tools")));
      const days = Number($("days").value);
      parts.push(...await charts(days));
      if (got.all.runs) parts.push(...table("By day", got.by_day, "Day", true), ...table("By model", got.by_model, "Model"), ...table("By agent", got.by_agent, "Agent or client"), ...await spending(days));
      else parts.push(el("p", { className: "faint", textContent: "No run in this time." }));
    } else {
      parts.push(el("p", { className: "notice", textContent: (got.trouble ? clean(got.trouble) : "No ledger is kept") + ": these are the sums since the gateway began." }),
        el("dl", { className: "facts" }, fact("Spent", money(since.spend_usd), count(since.requests, "request")), fact("Answered", String(since.answered)), fact("Landed", String(since.landed)), fact("Stopped", String(since.stopped))));
    }
    sums.replaceChildren(...parts);
    fine();
  } catch (error) {
    sums.replaceChildren(el("p", { className: "notice bad", textContent: error.status === 401 ? "The totals are not shown without the token." : "The totals could not be loaded." }));
    trouble(error);
  }
}

/* the way */

// An address that somebody has cut short is the name of a run that is not there.
function decoded(text) { try { return decodeURIComponent(text); } catch { return text; } }

function go(first) {
  const run = /^#run=(.+)$/.exec(location.hash);
  const page = run ? "run" : location.hash === "#totals" ? "totals" : "list";
  for (const id of ["list", "run", "totals"]) $(id).hidden = id !== page;
  for (const [id, name] of [["to-runs", "list"], ["to-totals", "totals"]]) {
    if (name === page) $(id).setAttribute("aria-current", "page"); else $(id).removeAttribute("aria-current");
  }
  if (run) show(decoded(run[1])); else leave();
  if (page === "totals") totals();
  document.title = "softland: " + (run ? "run " + watched : page === "totals" ? "totals" : "runs");
  if (!first) { const title = page === "run" ? view.title : $(page + "-title"); title.focus(); window.scrollTo(0, 0); }
}

$("search").addEventListener("input", filter);
$("state").addEventListener("change", filter);
$("days").addEventListener("change", totals);
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
onToken(() => {
  if (list) list.close();
  list = null;
  const run = watched;
  if (run) { leave(); show(run); }
  if (!$("totals").hidden) totals();
  load();
});
window.addEventListener("hashchange", () => { setToken(takeToken("/#runs")); go(false); });
// What a test, or a person in the console, may ask of the page.
window.softland = { rows, lose: () => { feed?.lose(); list?.lose(); }, get view() { return view; } };
setToken(takeToken("/#runs"));
load();
go(true);
