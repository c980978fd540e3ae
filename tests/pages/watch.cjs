// Watches the pages in Chromium; see docs/pages.md.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const servers = require("./servers.cjs");
const { Client } = require("./client.cjs");
const { audit } = require("./audit.cjs");
const { heavy } = require("./heavy.cjs");

const [, , binary, browserPath, work, shots] = process.argv;
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked=2'>\n\u001b[31mred\u001b[0m\u0007 \u202Eevil\u202C\u200F \uFFFD\uD800 \u05E9\u05DC\u05D5\u05DD\n" + "x".repeat(5 << 20);
const TIME = 60000;
let checks = 0;

function ok(what) { checks += 1; console.log("  ok  " + what); }

async function shot(page, name) { if (shots) await page.screenshot({ path: path.join(shots, name + ".png") }); }

// axe's own code comes in by the debugger, which no policy of a page keeps out.
async function accessible(page, where) {
  await page.evaluate(axe + "\n;undefined");
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((one) => ["serious", "critical"].includes(one.impact) || one.id === "heading-order");
  assert.deepEqual(bad.map((one) => [one.id, one.nodes.map((node) => node.html).slice(0, 3)]), [], where);
  ok("axe finds nothing serious: " + where);
}

const kinds = (page, turn) => page.$$eval(`.turn[data-turn="${turn}"] [data-kind]`, (nodes) => nodes.map((node) => node.dataset.kind));

async function governed(page, gateway) {
  const client = new Client(gateway, "What did we decide about pricing?", { "x-softland-run": "pricing" });
  await client.turn();
  await page.getByRole("link", { name: "pricing" }).click();
  await page.waitForFunction(() => document.querySelectorAll("[data-kind]").length > 2, null, { timeout: TIME });
  let turns = 1;
  while (client.answers((call, at) => ({ content: "Notes of call " + turns + "." + at }))) {
    await client.turn();
    turns += 1;
    // In mid-run the connection is lost: the page comes back by itself, from where it was.
    if (turns === 3) await page.evaluate(() => window.softland.lose());
    assert.ok(turns < 20, "it lands");
  }
  await page.waitForSelector(".end.landed", { timeout: TIME });
  assert.match(await page.textContent(".end"), /landed.*tool calls/s);
  const shown = await page.$$eval("[data-kind=tool]", (nodes) => nodes.map((node) => node.querySelectorAll(".result").length));
  assert.deepEqual(shown, Array(6).fill(1), "six calls, each with one result, none twice");
  assert.equal((await kinds(page, 0)).filter((kind) => kind === "question").length, 1, "asked once");
  ok("a governed run from its start to its landing, with a reconnect: every call once");
  const did = await page.$$eval("[data-kind=intervention] strong", (nodes) => nodes.map((node) => node.textContent));
  assert.ok(did.includes("countdown") && did.at(-1) === "ask", did.join());
  assert.match(await page.textContent("[data-kind=intervention] >> nth=-1"), /tool calls.*6 of 6/);
  assert.match(await page.textContent(".facts"), /6 of 6 tool calls/);
  ok("interventions stand where they happened, with their reason; 6 of 6 tool calls");
  await shot(page, "run-light");
  await accessible(page, "a run, light");
  return client.run;
}

async function hostile(page, gateway) {
  const client = new Client(gateway + "/to/hostile", "Be careful.", { "x-softland-run": "hostile" });
  await client.turn();
  await page.goto(page.url().split("#")[0] + "#run=" + client.run);
  client.answers((call, at) => (at ? { content: "It is not there.", is_error: true } : { content: HOSTILE }));
  await page.waitForSelector(".facts dd", { timeout: TIME });
  await page.evaluate(() => {
    window.tasks = [];
    new PerformanceObserver((list) => { for (const task of list.getEntries()) window.tasks.push(task.duration); }).observe({ type: "longtask", buffered: false });
  });
  await client.turn();
  await page.waitForSelector(".end.answered", { timeout: TIME });
  assert.deepEqual((await kinds(page, 1)).filter((kind) => ["thinking", "text", "tool"].includes(kind)), ["thinking", "text", "tool", "tool"]);
  ok("blocks stand in block order");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.$$eval("main script, main img", (nodes) => nodes.length), 0);
  const result = await page.textContent(".call .result pre >> nth=0");
  assert.ok(result.startsWith("<script>window.hacked = 1</script>") && result.includes("red␇ ⟦U+202E⟧evil⟦U+202C⟧⟦U+200F⟧ \uFFFD\uFFFD \u05E9"), result.slice(0, 200));
  assert.ok(result.length < 10000, "cut");
  await page.getByRole("button", { name: /Show more/ }).first().click();
  assert.ok((await page.textContent(".call .result pre >> nth=0")).length > 50000);
  assert.match(await page.textContent(".call .how.failed"), /failed/);
  assert.match(await page.textContent(".call .how >> nth=0"), /5,?\.?[0-9]{3}.*bytes/);
  ok("a hostile result of 5 MB is text, cut, and has more to show");
  const torn = await page.evaluate(async () => {
    const { Words, clean } = await import(document.querySelector('link[href$="base.css"]').href.replace("base.css", "text.js"));
    const text = "a\x1b[1;31mred\x1b[0m\r\nb\x1b]0;title\x07c\r\n\x1b]8;;x\x1b\\d\u{1F600}\x1b[2";
    const differ = [];
    for (const size of [1, 2, 3, 5, 7, 100]) {
      const words = new Words(document.createElement("div"));
      for (let at = 0; at < text.length; at += size) { words.add(text.slice(at, at + size)); words.paint(); }
      if (words.node.textContent !== clean(text)) differ.push([size, words.node.textContent]);
    }
    return differ;
  });
  assert.deepEqual(torn, [], "what is shown does not depend on the pieces it came in");
  const words = await page.evaluate(() => window.softland.view.block?.words.all.length ?? 0);
  assert.equal(words, 0);
  const said = await page.evaluate(() => {
    const text = document.querySelector('.turn[data-turn="2"] [data-kind=text]');
    const more = text.querySelector("button.more");
    while (text.querySelector("button.more")) text.querySelector("button.more").click();
    return [Boolean(more), text.querySelector(".words").textContent];
  });
  assert.ok(said[0] && said[1] === Array.from({ length: 5000 }, (_, n) => "word" + n + " ").join(""));
  const longest = Math.max(0, ...(await page.evaluate(() => window.tasks)));
  assert.ok(longest <= 200, "the longest task took " + longest + " ms");
  ok("5,000 events, each once; the longest task took " + Math.round(longest) + " ms");
}

// Without a name the list says how a run was asked, since contents are kept here.
async function unnamed(page, gateway) {
  const client = new Client(gateway + "/to/hostile", "Where are the\n notes about names? <b>Say</b>.");
  await client.turn();
  await page.goto(page.url().split("#")[0] + "#runs");
  const link = page.getByRole("link", { name: "“Where are the notes about names? <b>Say</b>.”" });
  await link.waitFor({ timeout: TIME });
  const row = page.locator("#runs tbody tr", { has: link });
  assert.match(await row.locator(".sub.mono").textContent(), new RegExp(client.run));
  client.answers(() => ({ content: "Here." }));
  await client.turn();
  await row.locator(".state.answered").waitFor({ timeout: TIME });
  assert.equal(await link.count(), 1, "an end takes no question away");
  ok("a run without a name is listed by its question, beside its id");
}

async function absent(page) {
  for (const name of ["nope", "%E0%A4%A"]) {
    await page.goto(page.url().split("#")[0] + "#run=" + name);
    await page.getByRole("heading", { name: "No such run" }).waitFor({ timeout: TIME });
    assert.equal(await page.locator("#run .facts, #run .steps, #run .state, #run button").count(), 0, "nothing is said of a run that is not there");
    assert.match(await page.textContent("#run .notice"), name === "nope" ? /no run nope here\./ : /no run %E0%A4%A here\./);
    assert.match(await page.title(), /no such run/);
  }
  await accessible(page, "no such run");
  await page.getByRole("link", { name: "← All runs" }).click();
  await page.waitForSelector("#runs tbody tr", { timeout: TIME });
  ok("a run that does not exist: the error alone, and a way back");
}

// As behind a proxy whose gateway is being restarted: the page comes back with it.
async function away(browser, pages) {
  const page = await browser.newPage();
  let refused = 0;
  await page.goto(pages);
  await page.waitForSelector("#link.on", { timeout: TIME });
  await page.route("**/api/**", (route) => { refused += 1; return route.fulfill({ status: 502, body: "bad gateway" }); });
  await page.evaluate(() => window.softland.lose());
  await page.locator("#link", { hasText: "connecting again" }).waitFor({ timeout: TIME });
  while (refused < 2) await page.waitForTimeout(50);
  await page.unroute("**/api/**");
  await page.waitForSelector("#link.on", { timeout: TIME });
  await page.close();
  ok("a gateway that is away behind a proxy (502): the page comes back with it");
}

// A browser gives a host six connections, and an open run holds two: hidden tabs give theirs back.
async function tabs(browser, pages, gateway) {
  const context = await browser.newContext();
  await context.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => window.covered === true }));
  const cover = (page, covered) => page.evaluate((covered) => {
    window.covered = covered;
    document.dispatchEvent(new Event("visibilitychange"));
  }, covered);
  const clients = [], opened = [];
  for (let n = 0; n < 4; n += 1) {
    const client = new Client(gateway, "tab " + n, { "x-softland-session": "tabs-" + n });
    await client.turn();
    const page = await context.newPage();
    await page.goto(pages);
    await page.waitForSelector("#link.on", { timeout: TIME });
    await page.evaluate((run) => { location.hash = "#run=" + encodeURIComponent(run); }, client.run);
    await page.waitForSelector("#run .turn", { timeout: TIME });
    if (n < 3) await cover(page, true);
    clients.push(client);
    opened.push(page);
  }
  clients[0].answers(() => ({ content: "found" }));
  await clients[0].turn();
  await cover(opened[0], false);
  await opened[0].locator("#run .turn", { hasText: "Turn 2" }).waitFor({ timeout: TIME });
  await context.close();
  ok("four tabs of one browser, each with an open run: hidden ones give their streams back and go on when seen");
}

// A ledger with more runs than are listed, and one that cannot be read.
async function many(browser, pages) {
  const page = await browser.newPage();
  const row = (run) => ({ v: 1, run, session: "s", agent: null, model: "m", policy: "p", client: null, started: "2026-01-01T00:00:00Z",
    last: "2026-01-01T00:00:01Z", ended: "2026-01-01T00:00:01Z", outcome: "answered", reason: "final", turns: 3, tool_calls: 2,
    usage: { input: 1, output: 1, cache_read: 0, cache_write: 0 }, cost_usd: "0.5" });
  const asked = [];
  let slow = 0;
  let told = { v: 1, at: "0.0", ledger: { on: true, content: "digests" }, runs: [row("new")], more: true };
  await page.route((url) => url.pathname === "/api/runs", async (route) => {
    const search = new URL(route.request().url()).searchParams.get("search");
    if (search !== null) asked.push(search); else await new Promise((done) => setTimeout(done, slow));
    return route.fulfill({ json: search === null ? told : { ...told, runs: search === "old" ? [row("old-7")] : [], more: false } });
  });
  await page.goto(pages);
  await page.locator("#count", { hasText: "the ledger has older ones" }).waitFor({ timeout: TIME });
  await page.fill("#search", "old");
  await page.locator("#runs tbody tr:visible", { hasText: "old-7" }).waitFor({ timeout: TIME });
  await page.fill("#search", "nowhere");
  await page.locator("#count", { hasText: "No run matches" }).waitFor({ timeout: TIME });
  assert.deepEqual(asked, ["old", "nowhere"], "once each");
  slow = 2000;
  await page.reload();
  await page.fill("#search", "old");
  await page.locator("#runs tbody tr:visible", { hasText: "old-7" }).waitFor({ timeout: TIME });
  assert.doesNotMatch(await page.textContent("#count"), /which a search finds/);
  slow = 0;
  told = { ...told, runs: [], more: false, ledger: { on: true, content: "digests", trouble: "the ledger cannot be read: /l.db: no such file" } };
  await page.reload();
  await page.locator("#trouble", { hasText: "the ledger cannot be read: /l.db: no such file" }).waitFor({ timeout: TIME });
  await page.locator("#kept", { hasText: "are missing here" }).waitFor({ timeout: TIME });
  for (const name of ["..", "."]) {
    await page.evaluate((name) => { location.hash = "#run=" + name; }, name);
    await page.getByText("There is no such run").first().waitFor({ timeout: TIME });
    await page.evaluate(() => { location.hash = "#runs"; });
  }
  await page.close();
  ok("older runs than are listed are found, and a ledger that cannot be read is said");
}

// As through a proxy: nothing is shown without the token, and everything with it.
async function without_token(browser, pages, run) {
  const page = await browser.newPage({ viewport: { width: 390, height: 844 }, extraHTTPHeaders: { "x-forwarded-for": "192.0.2.7" } });
  const [origin, token] = pages.split("/#token=");
  for (const [hash, there, then] of [["#runs", "#list #count", "#runs tbody tr"], ["#run=" + run, "#run", "#run .end"], ["#totals", "#sums", "#sums table"]]) {
    await page.goto(origin + "/" + hash);
    await page.evaluate(() => sessionStorage.clear());
    await page.reload();
    await page.waitForSelector("#token-form", { timeout: TIME });
    await page.locator(there, { hasText: "not shown without the token" }).waitFor({ timeout: TIME });
    await page.locator("#link", { hasText: "refused" }).waitFor({ timeout: TIME });
    assert.equal(await page.locator("#run .state, #run .facts div, #runs tbody tr, #sums table").count(), 0, hash);
    await page.fill("#token", hash === "#runs" ? pages : token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(then, { timeout: TIME });
    assert.ok(await page.isHidden("#token-form"), hash);
  }
  await page.close();
  ok("without the token nothing is shown; with it, or with the address that has it, each page goes on");
}

// A result whose bytes are no UTF-8 is no message of the protocol, and no part of a run.
async function broken(page, gateway) {
  const client = new Client(gateway + "/to/hostile", "Read what is broken.", { "x-softland-run": "broken" });
  await client.turn();
  await page.goto(page.url().split("#")[0] + "#run=" + client.run);
  await page.waitForSelector(".facts dd", { timeout: TIME });
  client.answers(() => ({ content: "BROKEN" }));
  client.raw = (body) => Buffer.concat(body.split("BROKEN").flatMap((part, at) => (at ? [Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80]), Buffer.from(part)] : [Buffer.from(part)])));
  // It passes on as it is, for the provider to refuse.
  await client.turn().catch(() => {});
  assert.ok(await page.isVisible(".facts dd"), "the page stands");
  ok("a result of broken bytes does nothing to the page");
}

async function cancelled(page, gateway) {
  const client = new Client(gateway + "/to/hostile", "Begin, and wait.", { "x-softland-run": "given up" .replace(" ", "-") });
  await client.turn();
  await page.goto(page.url().split("#")[0] + "#run=" + client.run);
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the run" }).click();
  await page.waitForSelector(".end.cancelled", { timeout: TIME });
  client.answers(() => ({ content: "late" }));
  await assert.rejects(client.turn(), /400.*cancelled/);
  ok("a run is cancelled from the page, and its client is told");
  const foreign = await fetch(gateway + "/api/runs", { headers: { origin: "https://evil.example" } });
  assert.equal(foreign.status, 403);
  ok("a foreign Origin is refused");
}

// Names as long as they may be, and no place to break them at.
async function long(browser, pages, gateway) {
  const client = new Client(gateway + "/to/hostile", "x".repeat(400), { "x-softland-run": "n".repeat(250) });
  await client.turn();
  const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
  for (const width of [390, 1100]) {
    await page.setViewportSize({ width, height: 844 });
    for (const hash of ["#runs", "#run=" + client.run, "#run=" + "z".repeat(300)]) {
      await page.goto(pages.split("#")[0] + hash);
      await page.waitForSelector(hash === "#runs" ? "#runs tbody tr" : "#run h2", { timeout: TIME });
      await page.waitForFunction((hash) => hash === "#runs" || document.querySelector("#run .question, #run .notice:not([hidden])"), hash, { timeout: TIME });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, hash.slice(0, 20) + " at " + width + ": " + wide + " px wider than the page");
    }
  }
  await page.close();
  ok("long names and questions fit, narrow and wide");
}

// Accounts as a tree, with what their windows have left.
async function budgeted(browser, pages) {
  const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
  const row = (account, more) => ({ account, rule: account, window: "day", on_exhausted: "land", begins: "2026-11-27T00:00:00+01:00", ends: "2026-11-28T00:00:00+01:00", limit_usd: 50, spent_usd: 20.5, reserved_usd: 0, left_usd: 29.5, limit_tokens: null, spent_tokens: 9, reserved_tokens: 0, left_tokens: null, notify_at: [], reached: null, ...more });
  const rows = [row("acme/search/<b>ana</b>", { window: "5h", ends: null, begins: null, limit_usd: null, left_usd: null, limit_tokens: 4000, left_tokens: 3991 }), row("acme", {})];
  await page.route("**/api/budgets", (route) => route.fulfill({ json: { v: 1, budgets: rows } }));
  await page.route("**/api/usage?*", (route) => route.fulfill({ json: { v: 1, by: ["account"], more: false, rows: [{ account: null, requests: 1, cost_usd: 1, unpriced_requests: 0 }, { account: "acme", requests: 3, cost_usd: 20.5, unpriced_requests: 1 }] } }));
  await page.goto(pages + (pages.includes("#") ? "" : "#"));
  await page.getByRole("link", { name: "Totals" }).click();
  const budgets = page.getByRole("region", { name: "Budgets" });
  await budgets.waitFor({ timeout: TIME });
  const shown = await budgets.locator("tbody tr").evaluateAll((nodes) => nodes.map((node) => [...node.children].map((cell) => cell.textContent)));
  assert.deepEqual(shown.map((cells) => cells.slice(0, 4)), [["acme", "day", "$20.50 of $50.00", "$29.5041% spent"], ["acme/search/<b>ana</b>", "5h", "9 tokens of 4,000 tokens", "3,991 tokens0.2% spent"]]);
  assert.equal(shown[1][4], "not begun");
  const inset = (at) => budgets.locator("tbody th").nth(at).evaluate((node) => parseFloat(getComputedStyle(node).paddingLeft));
  assert.ok((await inset(1)) > (await inset(0)), "an account stands below the one above it");
  const spent = page.getByRole("region", { name: "By account" });
  assert.deepEqual(await spent.locator("tbody tr").evaluateAll((nodes) => nodes.map((node) => node.textContent)), ["acme3 requestsat least $20.50"]);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, "nothing is wider than the page");
  await shot(page, "budgets-narrow");
  await accessible(page, "budgets, narrow");
  await page.close();
  ok("budgets stand as a tree, with what is left, and accounts with what they have spent");
}

// What requests have cost, as charts whose numbers are texts, too.
async function charted(browser, pages) {
  const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
  const today = Math.floor(Date.now() / 86400000) * 86400000;
  const name = (before) => new Date(today - before * 86400000).toISOString().slice(0, 10);
  const sum = (cost_usd, unpriced_requests = 0) => ({ requests: 1, cost_usd, unpriced_requests });
  const rows = {
    day: [{ day: name(9), ...sum(1) }, { day: name(2), ...sum(4) }, { day: name(0), ...sum(2, 1) }],
    key: [{ key: "<b>ana</b>", ...sum(1) }, { key: null, ...sum(6, 1) }],
    model: Array.from({ length: 12 }, (_, at) => ({ model: "m".repeat(60) + at, ...sum(at / 10) })),
    agent: [{ agent: null, ...sum(7, 1) }], account: [],
  };
  await page.route("**/api/usage?*", (route) => {
    const by = new URL(route.request().url()).searchParams.get("by");
    return route.fulfill({ json: { v: 1, by: [by], more: false, rows: rows[by] } });
  });
  await page.goto(pages + (pages.includes("#") ? "" : "#"));
  await page.getByRole("link", { name: "Totals" }).click();
  const days = page.getByRole("figure", { name: "Spent by day (UTC)" });
  await days.waitFor({ timeout: TIME });
  const heights = await days.locator("rect").evaluateAll((nodes) => nodes.map((node) => Number(node.getAttribute("height"))));
  assert.deepEqual(heights.slice(-10), [25, 0, 0, 0, 0, 0, 0, 100, 0, 50]);
  assert.equal(heights.length, 31, "30 days, and the rest of the first one");
  const on = await page.evaluate((at) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" }).format(at), today - 2 * 86400000);
  assert.equal(await days.getByRole("img").getAttribute("aria-label"), "at least $7.00 in 31 days, at most $4.00 on " + on);
  const bars = (group) => page.getByRole("figure", { name: "Spent by " + group }).locator("li").evaluateAll((nodes) =>
    nodes.map((node) => [...node.querySelectorAll("span")].map((part) => part.textContent).concat(node.querySelector("rect").getAttribute("width"))));
  assert.deepEqual(await bars("key"), [["no key", "at least $6.00", "100%"], ["<b>ana</b>", "$1.00", 100 / 6 + "%"]]);
  const models = await bars("model");
  assert.deepEqual(models.map((row) => row[1]), ["$1.10", "$1.00", "$0.9", "$0.8", "$0.7", "$0.6", "$0.5", "$0.4", "$0.6"]);
  assert.equal(models.at(-1)[0], "4 others");
  assert.equal(await page.getByRole("figure", { name: "Spent by agent" }).count(), 0, "no request has an agent");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, "nothing is wider than the page");
  const sizes = await page.locator(".charts figure").evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().width));
  assert.ok(Math.min(...sizes) > 300, "each chart has the width of the page: " + sizes);
  await shot(page, "charts-narrow");
  await accessible(page, "charts, narrow");
  await page.close();
  ok("what was spent stands as charts by day, key, model and agent, and as text");
}

async function looks(browser, pages) {
  for (const [name, options] of [
    ["dark", { colorScheme: "dark" }],
    ["light", { colorScheme: "light" }],
    ["narrow", { colorScheme: "light", viewport: { width: 390, height: 844 } }],
  ]) {
    const page = await browser.newPage({ viewport: { width: 1100, height: 800 }, reducedMotion: "reduce", ...options });
    await page.goto(pages);
    await page.waitForSelector("#runs tbody tr", { timeout: TIME });
    await shot(page, "list-" + name);
    await accessible(page, "the list, " + name);
    await page.getByRole("link", { name: "pricing" }).click();
    await page.waitForSelector(".end", { timeout: TIME });
    const question = await page.textContent("[data-kind=question]");
    assert.match(question, /pricing/, "whole contents are kept: a past run shows what was said");
    if (name !== "light") await shot(page, "run-" + name);
    await accessible(page, "a past run, " + name);
    await page.getByRole("link", { name: "Totals" }).click();
    await page.waitForSelector("#sums table", { timeout: TIME });
    await shot(page, "totals-" + name);
    await accessible(page, "totals, " + name);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, name + ": nothing is wider than the page");
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    await page.fill("#search", "pricing");
    assert.equal(await page.$$eval("#runs tbody tr:not([hidden])", (nodes) => nodes.length), 1);
    await page.close();
  }
  ok("light, dark and 390 px wide; search finds one");
}

async function main() {
  const { gateway, pages } = await servers.all(binary, work);
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
    const errors = [], asked = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (said) => { if (said.type() === "error" && /Content Security|Uncaught/.test(said.text())) errors.push(said.text()); });
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(pages);
    assert.match(page.url(), /#runs$/, "the token leaves the address");
    await page.getByText("No run yet").waitFor({ timeout: TIME });
    ok("the empty state");
    const pricing = await governed(page, gateway);
    await hostile(page, gateway);
    await broken(page, gateway);
    await cancelled(page, gateway);
    await unnamed(page, gateway);
    await absent(page);
    await without_token(browser, pages, pricing);
    await away(browser, pages);
    await tabs(browser, pages, gateway);
    await many(browser, pages);
    assert.deepEqual(errors, []);
    assert.deepEqual(asked.filter((url) => !url.startsWith(gateway + "/")), [], "nothing else is asked");
    await page.close();
    await looks(browser, pages);
    await budgeted(browser, pages);
    await charted(browser, pages);
    await long(browser, pages, gateway);
    await audit(browser, pages, work, { ok, shot, accessible });
    await heavy(browser, binary, work, { ok });
  } finally {
    await browser.close();
  }
  console.log("pages: " + checks + " checks ok");
}

main().catch((error) => { console.error(error); process.exitCode = 1; }).finally(servers.stop);
