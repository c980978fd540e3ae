// Works in a notebook's page in Chromium; see docs/notebook.md.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { chromium } = require("playwright-core");
const { Proxy, free } = require("../pages/proxy.cjs");
const pages = require("../pages/servers.cjs");
const { Notebook, stop } = require("./server.cjs");
const { odd, unanswered, full } = require("./odd.cjs");

const [, , binary, browserPath, work, shots, nginx] = process.argv;
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const TIME = 120000;
const errors = [], asked = [];
let checks = 0;

function ok(what) { checks += 1; console.log("  ok  " + what); }

async function shot(page, name) { if (shots) await page.screenshot({ path: path.join(shots, name + ".png") }); }

// axe's own code comes in by the debugger, which no policy of a page keeps out.
async function accessible(page, where) {
  await page.evaluate(axe + "\n;undefined");
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], iframes: false }));
  const bad = found.violations.filter((one) => ["serious", "critical"].includes(one.impact) || one.id === "heading-order");
  assert.deepEqual(bad.map((one) => [one.id, one.nodes.map((node) => node.html).slice(0, 3)]), [], where);
  ok("axe finds nothing serious: " + where);
}

async function open(browser, url, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (said) => { if (said.type() === "error" && /Content Security|Uncaught/.test(said.text())) errors.push(said.text()); });
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(url);
  await page.waitForSelector("#link.on", { timeout: TIME });
  return page;
}

const cell = (page, id) => page.locator(`.cell[data-id="${id}"]`);
const wish = (page, what) => page.evaluate((what) => window.softland.link.wish(what), what);
const calls = (page) => page.$$eval("[data-kind=tool]", (nodes) => nodes.map((node) => [node.querySelector(".tool").textContent, node.querySelectorAll(".result").length]));
const ids = (page) => page.$$eval(".cell", (nodes) => nodes.map((node) => node.dataset.id));
const ran = (page, id) => page.waitForFunction((id) => /ran in|failed after/.test(document.querySelector(`.cell[data-id="${id}"] .how`).textContent), id, { timeout: TIME });

function written() {
  return {
    nbformat: 4, nbformat_minor: 5,
    metadata: { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, mine: { unknown: [1, 2.50] } },
    cells: [
      { cell_type: "markdown", id: "intro", metadata: {}, source: ["# Rainfall of a week\n", "\n", "Seven days, measured in *millimetres* at one station. `rain` holds them."] },
      { cell_type: "code", id: "first", metadata: { tags: ["kept"] }, execution_count: null, outputs: [], source: ["rain = [0, 3, 12, 7, 0, 1, 4]\n", "max(rain)"] },
    ],
  };
}

// A person and a second tab.
async function by_hand(one, two) {
  assert.equal(new URL(one.url()).hash, "", "the token leaves the address");
  assert.deepEqual(await ids(one), ["intro", "first"]);
  assert.equal(await cell(one, "intro").locator("h2").textContent(), "Rainfall of a week");
  await cell(one, "first").locator("textarea").click();
  await one.keyboard.press("Control+End");
  await one.keyboard.type("\nprint('wettest:', max(rain), 'mm')");
  await one.keyboard.press("Control+Enter");
  await ran(one, "first");
  for (const page of [one, two]) {
    await page.waitForFunction(() => document.querySelector('.cell[data-id="first"] .outs').textContent.includes("wettest: 12 mm"), null, { timeout: TIME });
    assert.match(await cell(page, "first").locator("textarea").inputValue(), /wettest/);
    assert.match(await page.textContent("#kernel"), /python3: idle/);
  }
  ok("a cell that is typed and run in one tab shows in both, once");
}

async function asks(one, two, notebook) {
  await one.fill("#question", "What is the mean of those values?");
  await one.keyboard.press("Control+Enter");
  await two.waitForSelector("#stop:not([hidden])", { timeout: TIME });
  for (const page of [one, two]) await page.waitForSelector(".end.answered", { timeout: TIME });
  const wanted = ["get_notebook_state", "create_cell", "run_cell", "update_cell", "run_cell"].map((name) => [name, 1]);
  for (const page of [one, two]) {
    assert.deepEqual(await calls(page), wanted, "each call once, each with one result");
    assert.match(await page.locator("[data-kind=text]").last().textContent(), /gives mean: 3\.875/);
    assert.equal((await ids(page)).length, 3);
    assert.deepEqual(await page.$$eval("[data-kind=turn]", (nodes) => nodes.map((node) => node.textContent)), [2, 3, 4, 5, 6].map((n) => `continuing (turn ${n} of 10)`));
  }
  ok("get_notebook_state, create_cell, run_cell, update_cell, run_cell, answer: in a real kernel, once in both tabs");
  const made = (await ids(one))[2];
  assert.match(await cell(one, made).locator(".outs").textContent(), /mean: 3\.875/);
  const file = notebook.read();
  assert.deepEqual(file.metadata.mine, { unknown: [1, 2.5] });
  assert.match(fs.readFileSync(notebook.file, "utf8"), /2\.50?/);
  assert.deepEqual(file.cells[1].metadata, { tags: ["kept"] });
  assert.match([].concat(file.cells[2].source).join(""), /sum\(values\)/);
  ok("the file has the assistant's cell, and keeps what nobody touched");
  await one.evaluate(() => window.softland.link.lose());
  await one.waitForSelector("#link.off", { timeout: TIME });
  await one.waitForSelector("#link.on", { timeout: TIME });
  assert.deepEqual(await calls(one), wanted);
  await one.reload();
  await one.waitForSelector(".end.answered", { timeout: TIME });
  assert.deepEqual(await calls(one), wanted);
  ok("a lost connection and a reload show the same conversation");
}

async function conflict(one, two) {
  const mine = (page, text) => page.evaluate((text) => { window.softland.cells.all.get("first").edit.value = text; }, text);
  for (const [button, text, left] of [["Keep mine", "mine = 1", "mine = 1"], ["Take theirs", "mine = 2", "theirs = 2"]]) {
    const rev = await two.evaluate(() => window.softland.cells.all.get("first").base.rev);
    await mine(one, text);
    await wish(two, { do: "update_cell", id: "first", rev, source: "theirs = 2" });
    await cell(one, "first").getByText("theirs = 2").waitFor({ timeout: TIME });
    await cell(one, "first").getByRole("button", { name: button }).click();
    for (const page of [one, two]) await page.waitForFunction((left) => { const view = window.softland.cells.all.get("first"); return view.edit.value === left && view.base.source === left; }, left, { timeout: TIME });
    assert.equal(await cell(one, "first").locator(".clash").isVisible(), false);
  }
  await assert.rejects(wish(two, { do: "update_cell", id: "first", rev: 0, source: "lost" }), /changed since/);
  ok("a conflict shows both versions, and either may be kept");
}

const TEXT = `## Stations

| Station | Rain \\| mm | Note |
|:--|--:|:-:|
| Kew | 12 | \`a|b\` |
| <img src=x onerror="window.hacked = 4"> | 7 |

![A map of the stations](http://127.0.0.1:9/map.png) ![](attachment:a.png)

#### Too deep

| no table`;

// What a text cell shows: tables, headings in order, and of images their words.
async function texts(one) {
  const made = (await wish(one, { do: "create_cell", index: 1, type: "markdown", source: TEXT })).cell.id;
  const here = cell(one, made);
  await here.locator("table").waitFor({ timeout: TIME });
  assert.deepEqual(await here.locator("th").allTextContents(), ["Station", "Rain | mm", "Note"]);
  assert.deepEqual(await here.locator("td").allTextContents(), ["Kew", "12", "a|b", '<img src=x onerror="window.hacked = 4">', "7", ""]);
  assert.equal(await here.locator("td code").textContent(), "a|b");
  assert.equal(await here.locator("td.right").count(), 2);
  assert.deepEqual(await here.locator(".image").allTextContents(), ["Image: A map of the stations (not loaded)", "Image without a description (not loaded)"]);
  assert.equal(await here.locator("img").count(), 0);
  assert.deepEqual(await here.locator("h1, h2, h3, h4, h5, h6").evaluateAll((nodes) => nodes.map((node) => node.localName)), ["h2", "h3"]);
  assert.match(await here.locator("p").last().textContent(), /\| no table/);
  assert.ok(!asked.some((url) => url.includes("map.png")), "no image is asked for");
  await accessible(one, "a text cell with a table");
  const slowest = await one.evaluate(async () => {
    const { markdown } = await import("/markdown.js");
    const many = (text) => text.repeat(Math.floor(190000 / text.length));
    return [many("["), many("!["), many("![]("), many("-") + "x", "a|b\n" + many("-") + "x", many("*"), many("`a"), many("# a\n"), many("|-\n")].map((text) => {
      const began = performance.now();
      markdown(text);
      return [Math.round(performance.now() - began), text.slice(0, 8)];
    }).sort((a, b) => b[0] - a[0])[0];
  });
  assert.ok(slowest[0] < 5000, "a text took " + slowest.join(" ms: "));
  ok("a table is drawn, headings keep their order, an image is named and not loaded");
  await wish(one, { do: "delete_cell", id: made, rev: await one.evaluate((id) => window.softland.cells.all.get(id).base.rev, made) });
}

// Through nginx by a name of its own: the page and its socket, and again when nginx is back.
async function proxied(browser, notebook) {
  const port = await free(), proxy = new Proxy(nginx, work), name = "notes.example:" + port;
  await proxy.begin(port, notebook.origin);
  const through = { at: { hostname: "127.0.0.1", port } };
  assert.equal(await notebook.upgrade({ host: name, origin: "http://" + name }, through.at), 101);
  assert.equal(await notebook.upgrade({ host: name, origin: "https://" + name }, through.at), 101, "nginx may speak TLS");
  for (const headers of [{ host: name, origin: "https://evil.example" }, { host: "evil.example", origin: "http://evil.example" }, { host: name, origin: "null" }, { host: name, "sec-fetch-site": "cross-site" }]) {
    assert.equal(await notebook.upgrade(headers, through.at), 403, JSON.stringify(headers));
  }
  ok("through nginx: only by the allowed name, of its own origin");
  const page = await open(browser, "http://" + name + "/#token=" + notebook.url.split("#token=")[1]);
  assert.equal(await page.evaluate(() => window.softland.link.socket.url), "ws://" + name + "/api/ws");
  const made = (await wish(page, { do: "create_cell", index: null, type: "code", source: "print('through', 'nginx')" })).cell.id;
  await wish(page, { do: "run_cell", id: made });
  await page.waitForFunction((id) => document.querySelector(`.cell[data-id="${id}"] .outs`).textContent.includes("through nginx"), made, { timeout: TIME });
  await proxy.end();
  await page.waitForSelector("#link.off", { timeout: TIME });
  await page.evaluate((id) => window.softland.cells.all.get(id).run(), made);
  assert.match(await page.textContent("#trouble"), /^Cell \d+ was not run: there is no connection/);
  // Typed while nobody answers, and a change by somebody else.
  await page.evaluate((id) => { const view = window.softland.cells.all.get(id); view.edit.value += "\n# kept"; view.typed(); }, made);
  await proxy.begin(port, notebook.origin);
  await page.waitForSelector("#link.on", { timeout: TIME });
  await page.waitForFunction((id) => { const view = window.softland.cells.all.get(id); return view.mine() === null && view.base.source.endsWith("# kept"); }, made, { timeout: TIME });
  assert.match([].concat(notebook.read().cells.at(-1).source).join(""), /# kept$/);
  ok("the socket works through nginx, comes back when nginx does, and nothing typed is lost");
  await wish(page, { do: "delete_cell", id: made, rev: await page.evaluate((id) => window.softland.cells.all.get(id).base.rev, made) });
  await page.close();
  await proxy.end();
  return "http://" + name;
}

const HOSTILE = `
from IPython.display import HTML, SVG, Javascript, display
print("<script>window.hacked = 1</script>\\x1b[31mred\\x1b[0m\\x07 \\u202eevil\\u202c \\ufffd שלום")
display(HTML("<b onclick='x()'>clicked</b><script>parent.hacked = 2</script>"))
display(HTML("<h4>Table</h4><img src='http://127.0.0.1:9/x.png'><table><tr><td>1</td><td>2</td></tr></table>"))
display(HTML("<a href='http://127.0.0.1:PORT/'>A link</a>"))
display(HTML("<a target='_self' href='http://127.0.0.1:PORT/'>Another link</a>"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' width='60' height='40'><circle r='18' cx='30' cy='20' fill='teal'/></svg>"))
display(Javascript("window.hacked = 3"))
print("x" * (5 << 20))
`;

async function hostile(one, two) {
  let asked = 0;
  const server = net.createServer((socket) => { asked += 1; socket.destroy(); });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const source = HOSTILE.replace("PORT", server.address().port);
  const made = (await wish(one, { do: "create_cell", index: null, type: "code", source })).cell.id;
  await cell(one, made).getByRole("button", { name: "Run this cell" }).click();
  await ran(one, made);
  await cell(one, made).locator("iframe").nth(1).waitFor({ timeout: TIME });
  const text = await cell(one, made).locator(".outs pre").first().textContent();
  assert.ok(text.startsWith("<script>window.hacked = 1</script>red␇ ⟦U+202E⟧evil⟦U+202C⟧ \uFFFD שלום"), text.slice(0, 120));
  assert.deepEqual(await cell(one, made).locator("iframe").evaluateAll((frames) => frames.map((frame) => frame.getAttribute("sandbox"))), ["", "", "", ""]);
  for (const [at, words] of [[1, "A link"], [2, "Another link"]]) {
    const link = cell(one, made).locator("iframe").nth(at).contentFrame().getByText(words);
    for (const open of [() => link.click(), () => link.press("Enter")]) {
      await open();
      assert.ok(await link.isVisible(), "a link leads nowhere");
    }
  }
  assert.equal(asked, 0, "nothing is asked for");
  server.close();
  assert.equal(await cell(one, made).locator(".remark", { hasText: "needs scripts, which are not run here" }).count(), 2);
  assert.ok((await cell(one, made).locator(".outs").textContent()).length < 100000, "long output is cut");
  for (const page of [one, two]) {
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.$$eval("main script, main object, main embed", (nodes) => nodes.length), 0);
  }
  ok("hostile output is text or a frame that runs nothing; scripted output falls back and says so");
  await one.evaluate(() => window.softland.cells.all.get(window.softland.cells.order.at(-1)).node.scrollIntoView());
  await shot(one, "outputs");
  await wish(one, { do: "delete_cell", id: made, rev: await one.evaluate((id) => window.softland.cells.all.get(id).base.rev, made) });
}

// Written without a connection in cells that somebody else deletes meanwhile.
async function deleted(one, two) {
  const made = [];
  for (const source of ["1", "2"]) made.push((await wish(two, { do: "create_cell", index: null, type: "code", source })).cell);
  await one.waitForSelector(`.cell[data-id="${made[1].id}"]`, { timeout: TIME });
  await one.evaluate((ids) => {
    window.softland.link.lose();
    for (const id of ids) { const view = window.softland.cells.all.get(id); view.edit.value += " written in " + id; view.typed(); }
  }, made.map(({ id }) => id));
  for (const { id, rev } of made) await wish(two, { do: "delete_cell", id, rev });
  await one.waitForFunction(() => document.querySelectorAll("#kept .notice").length === 2, null, { timeout: TIME });
  await one.evaluate(() => window.softland.link.lose());
  await one.waitForSelector("#link.off", { timeout: TIME });
  await one.waitForSelector("#link.on", { timeout: TIME });
  const texts = await one.$$eval("#kept pre", (all) => all.map((pre) => pre.textContent));
  assert.deepEqual(texts, ["1 written in " + made[0].id, "2 written in " + made[1].id]);
  const notice = one.locator("#kept .notice").first();
  await notice.getByRole("button", { name: "Put it into a new cell" }).click();
  await one.waitForFunction(() => document.querySelectorAll("#kept .notice").length === 1, null, { timeout: TIME });
  await one.locator("#kept").getByRole("button", { name: "Close" }).click();
  const [id, rev] = await one.evaluate(() => { const id = window.softland.cells.order.at(-1); return [id, window.softland.cells.all.get(id).base.rev]; });
  assert.match(await one.evaluate((id) => window.softland.cells.all.get(id).base.source, id), /^1 written in /);
  await wish(one, { do: "delete_cell", id, rev });
  ok("texts of cells that others deleted meanwhile are each kept until a person is done with them");
}

// Without the token the page shows nothing, says why, and takes the whole address too.
async function locked(browser, notebook) {
  const page = await browser.newPage();
  await page.goto(notebook.origin + "/");
  await page.waitForSelector("#token-form:not([hidden])", { timeout: TIME });
  assert.equal(await page.locator("#trouble").getByRole("button").count(), 0, "nothing to close: the page cannot do without");
  assert.equal(await page.locator(".cell").count(), 0);
  await page.fill("#token", notebook.url);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#link.on", { timeout: TIME });
  assert.equal(await page.isVisible("#trouble"), false);
  await page.close();
  ok("without its token the page shows nothing and asks for it");
}

async function killed_kernel(one, two) {
  const made = (await wish(one, { do: "create_cell", index: null, type: "code", source: "import os\nprint('pid', os.getpid())" })).cell.id;
  await wish(one, { do: "run_cell", id: made });
  await one.waitForFunction((id) => /pid \d+/.test(document.querySelector(`.cell[data-id="${id}"] .outs`).textContent), made, { timeout: TIME });
  const pid = /pid (\d+)/.exec(await cell(one, made).locator(".outs").textContent())[1];
  process.kill(Number(pid), "SIGKILL");
  for (const page of [one, two]) {
    await page.waitForSelector("#kernel.dead", { timeout: TIME });
    assert.match(await page.textContent("#trouble"), /kernel is dead/);
  }
  await one.getByRole("button", { name: "Restart kernel" }).click();
  for (const page of [one, two]) await page.waitForSelector("#kernel.idle", { timeout: TIME });
  await wish(one, { do: "run_cell", id: made });
  await one.waitForFunction(([id, pid]) => { const found = /pid (\d+)/.exec(document.querySelector(`.cell[data-id="${id}"] .outs`).textContent); return found && found[1] !== pid; }, [made, pid], { timeout: TIME });
  ok("a kernel that is killed is said to be dead, and another one is started on request");
  const now = Number(/pid (\d+)/.exec(await cell(one, made).locator(".outs").textContent())[1]);
  process.kill(now, "SIGSTOP");
  for (const page of [one, two]) {
    await page.waitForSelector("#kernel.silent", { timeout: TIME });
    assert.match(await page.textContent("#kernel"), /does not answer/);
    assert.ok(await page.locator("#interrupt").isEnabled());
  }
  await one.getByRole("button", { name: "Restart kernel" }).click();
  await one.getByRole("button", { name: "Restart it" }).click();
  for (const page of [one, two]) await page.waitForSelector("#kernel.idle", { timeout: TIME });
  ok("a kernel that hangs is said not to answer, and is restarted on request");
  const slow = (await wish(one, { do: "create_cell", index: null, type: "code", source: "import time\ntime.sleep(3600)" })).cell.id;
  wish(one, { do: "run_cell", id: slow }).catch(() => {});
  await one.waitForSelector("#kernel.busy", { timeout: TIME });
  await one.getByRole("button", { name: "Interrupt" }).click();
  await ran(one, slow);
  assert.match(await cell(one, slow).locator(".outs").textContent(), /KeyboardInterrupt/);
  ok("a cell is interrupted");
  for (const id of [made, slow]) await wish(one, { do: "delete_cell", id, rev: await one.evaluate((id) => window.softland.cells.all.get(id).base.rev, id) });
}

// Another softland on the same file: the conversation is there, and this one lands.
async function lands(browser, notebook) {
  const page = await open(browser, notebook.url);
  assert.equal((await calls(page)).length, 5, "the conversation is there after a restart");
  assert.match(await page.textContent("[data-kind=question]"), /mean of those values/);
  assert.equal(await page.$$eval(".how.busy", (nodes) => nodes.length), 0);
  ok("the conversation survives a restart, with its tool calls");
  await page.fill("#question", "And once more, please.");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.waitForSelector(".end.landed", { timeout: TIME });
  assert.match(await page.textContent(".end.landed .limit"), /tool_calls_limit = 3 tool calls/);
  const last = page.locator(".run").last();
  assert.match(await last.locator("[data-kind=text]").last().textContent(), /I have written cell/);
  assert.equal(await last.locator("[data-kind=tool]").count(), 3);
  ok("at its limit the run lands: the limit, its value and what was found are shown");
  return page;
}

async function stopped(browser, notebook) {
  const page = await open(browser, notebook.url);
  const before = await page.locator(".end").count();
  for (const n of [1, 2]) {
    await page.fill("#question", "Go on for ever.");
    await page.getByRole("button", { name: "Ask" }).click();
    await page.waitForFunction((n) => document.querySelectorAll(".run").length === n && document.querySelector(".run:last-child .result"), before + n, { timeout: TIME });
    if (n === 1) {
      await page.fill("#question", "Mind the units.");
      await page.getByRole("button", { name: "Add to this run" }).click();
      await page.getByText("said meanwhile").waitFor({ timeout: TIME });
    }
    await page.getByRole("button", { name: "Stop" }).click();
    await page.waitForFunction((n) => document.querySelectorAll(".end.cancelled").length === n, n, { timeout: TIME });
    assert.match(await page.locator(".end.cancelled h3").last().textContent(), /by a person/);
    const open = await page.$$eval(".run:last-child .how", (nodes) => nodes.map((node) => node.textContent).filter((text) => /^(calling|called|running)/.test(text)));
    assert.deepEqual(open, [], "no call is left open");
  }
  ok("a run is stopped, what is said meanwhile joins it, and a later question works");
  await page.close();
}

// What was said is forgotten on request; a file that is taken away is written anew on request.
async function anew(browser, notebook) {
  const one = await open(browser, notebook.url), two = await open(browser, notebook.url);
  for (const page of [one, two]) assert.ok((await page.locator(".run").count()) > 0);
  await one.getByRole("button", { name: "New conversation" }).click();
  await one.getByRole("button", { name: "Begin anew" }).click();
  for (const page of [one, two]) await page.waitForFunction(() => !document.querySelector(".run") && !document.getElementById("chat-empty").hidden, null, { timeout: TIME });
  ok("a new conversation begins in every tab");
  const text = fs.readFileSync(notebook.file, "utf8");
  fs.unlinkSync(notebook.file);
  for (const page of [one, two]) await page.waitForSelector("#file-trouble:not([hidden])", { timeout: TIME });
  assert.equal(fs.existsSync(notebook.file), false);
  await one.getByRole("button", { name: "Write the file again" }).click();
  await one.getByRole("button", { name: "Write it", exact: true }).click();
  for (const page of [one, two]) await page.waitForSelector("#file-trouble", { state: "hidden", timeout: TIME });
  assert.equal(fs.readFileSync(notebook.file, "utf8"), text);
  ok("a file that was removed is told in every tab, and written anew on request");
  await one.close();
  await two.close();
}

// Many edits, and softland is killed among them: what was acknowledged is there.
async function killed(browser, notebook) {
  const page = await open(browser, notebook.url);
  const acknowledged = new Set();
  await page.exposeFunction("acknowledged", (n) => { acknowledged.add(n); if (acknowledged.size === 40) notebook.child.kill("SIGKILL"); });
  await page.evaluate(async () => {
    for (let n = 0; n < 400; n += 1) {
      try { await window.softland.link.wish({ do: "create_cell", index: n % 3, type: "code", source: "kept = " + n }); } catch { return; }
      await window.acknowledged(n);
    }
  });
  await notebook.ended;
  const sources = new Set(notebook.read().cells.map((cell) => [].concat(cell.source).join("")));
  for (const n of acknowledged) assert.ok(sources.has("kept = " + n), "change " + n);
  assert.ok(acknowledged.size >= 40);
  await page.close();
  ok("kill -9 among edits leaves a valid file with all of " + acknowledged.size + " acknowledged changes");
}

async function looks(browser, url) {
  for (const [name, options] of [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark" }],
    ["narrow", { colorScheme: "light", viewport: { width: 390, height: 844 } }],
  ]) {
    const page = await open(browser, url, { viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", ...options });
    await page.waitForSelector(".end", { state: "attached", timeout: TIME });
    await shot(page, "notebook-" + name);
    await accessible(page, "the notebook, " + name);
    if (name === "narrow") {
      await page.getByRole("button", { name: /^Assistant/ }).click();
      await page.waitForSelector("#log", { timeout: TIME });
      await page.evaluate(() => { const log = document.getElementById("log"); log.scrollTop = log.scrollHeight; });
      await shot(page, "assistant-narrow");
      await accessible(page, "the assistant, narrow");
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, name + ": nothing is wider than the page");
    await page.close();
  }
  ok("light, dark and 390 px wide");
}

async function main() {
  const notebook = new Notebook(binary, work, "rainfall");
  fs.writeFileSync(notebook.file, JSON.stringify(written(), null, 1).replace("2.5", "2.50") + "\n");
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP notes.example 127.0.0.1"] });
  try {
    const config = path.join(work, "softland.toml");
    fs.writeFileSync(config, 'allowed_hosts = ["notes.example"]\n');
    await notebook.start(["--model", "sim/notebook", "--turns-limit", "10", "--config", config]);
    const ours = [notebook.origin];
    const one = await open(browser, notebook.url), two = await open(browser, notebook.url);
    assert.equal(await notebook.upgrade({ origin: "https://evil.example" }), 403);
    assert.equal(await notebook.upgrade({ host: "evil.example" }), 403);
    assert.equal(await notebook.upgrade({ origin: notebook.origin }), 101);
    ok("a foreign Origin and a foreign Host are refused");
    await locked(browser, notebook);
    await by_hand(one, two);
    await asks(one, two, notebook);
    await accessible(one, "a conversation, light");
    await looks(browser, notebook.url);
    await conflict(one, two);
    await texts(one);
    await odd(one, two, notebook, ok);
    await unanswered(one, ok);
    await full(browser, one, notebook.url, ok);
    if (nginx) ours.push(await proxied(browser, notebook));
    else console.log("  --  no nginx here: the socket was not asked through it");
    await hostile(one, two);
    await deleted(one, two);
    await killed_kernel(one, two);
    await one.close();
    await two.close();
    assert.equal(await notebook.stop(), 0, "SIGTERM is a clean end");
    ok("SIGTERM ends it cleanly");
    await notebook.start(["--model", "sim/notebook", "--tool-calls-limit", "3"]);
    ours.push(notebook.origin);
    const page = await lands(browser, notebook);
    await shot(page, "landed");
    await accessible(page, "a landing");
    await page.close();
    await notebook.stop("SIGINT");
    await notebook.start(["--model", "sim/notebook:always"]);
    ours.push(notebook.origin);
    await stopped(browser, notebook);
    await anew(browser, notebook);
    await killed(browser, notebook);
    const blocked = errors.filter((error) => /127\.0\.0\.1:9\/x\.png.*blocked/.test(error));
    assert.ok(blocked.length > 0, "the image of another host is not fetched");
    // Newer Chromium says that it blocks a handler as soon as the text is parsed, in a document that runs nothing too.
    const parsed = errors.filter((error) => /^Executing inline event handler violates .*blocked/.test(error));
    assert.deepEqual(errors.filter((error) => !blocked.includes(error) && !parsed.includes(error)), []);
    const foreign = asked.filter((url) => /^(https?|wss?):/.test(url) && !/:9\/x\.png$/.test(url) && !ours.some((origin) => url.replace(/^ws/, "http").startsWith(origin + "/")));
    assert.deepEqual(foreign, [], "nothing else is asked");
    ok("no script failed, and nobody else was asked");
  } finally {
    await browser.close();
  }
  console.log("notebook: " + checks + " checks ok");
}

main().catch((error) => { console.error(error, errors); process.exitCode = 1; }).finally(() => { stop(); pages.stop(); });
