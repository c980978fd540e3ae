// The audit page: the report on the ledger, on a recording that is chosen, and on what is none.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");

const TIME = 60000;
const NASTY = "<script>window.hacked = 3</script><img src=x onerror='window.hacked=4'>\u202Eevil\u001b[31m";

// A session that asks for the same thing again and again, with names that a page must not obey.
function recording(folder) {
  const messages = [{ role: "user", content: "Look into it." }];
  for (let n = 0; n < 8; n += 1) {
    messages.push({ role: "assistant", model: "claude-sonnet-4-5", stop_reason: "tool_use", usage: { input_tokens: 9000, output_tokens: 100 },
      content: [{ type: "tool_use", id: "toolu_" + n, name: "read_file", input: { path: NASTY } }] });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_" + n, content: "the same" }] });
  }
  messages.push({ role: "assistant", model: "claude-sonnet-4-5", stop_reason: "end_turn", usage: { input_tokens: 9000, output_tokens: 100 }, content: [{ type: "text", text: "It is as it was." }] });
  const file = path.join(folder, "session<b>.json");
  fs.writeFileSync(file, JSON.stringify({ id: NASTY, messages }));
  return file;
}

// `tools`: what the whole test shares: ok, shot, accessible.
async function audit(browser, pages, work, { ok, shot, accessible }) {
  const errors = [], asked = [];
  let bytes = 0;
  const page = await browser.newPage({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (said) => { if (said.type() === "error" && /Content Security|Uncaught/.test(said.text())) errors.push(said.text()); });
  page.on("request", (request) => asked.push(request.url()));
  page.on("response", async (response) => { bytes += (await response.body().catch(() => "")).length; });
  // In light, dark and 390 px wide, from where `at` begins.
  const looked = async (what, at) => {
    for (const [name, colorScheme, width, height] of [["dark", "dark", 1100, 900], ["narrow", "light", 390, 844], ["light", "light", 1100, 900]]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.evaluate(() => document.activeElement.blur());
      await at.evaluate((node) => (node.localName === "main" ? window.scrollTo(0, 0) : node.scrollIntoView()));
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      await shot(page, what + "-" + name);
      await accessible(page, what + ", " + name);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, what + ", " + name + ": " + wide + " px wider than the page");
    }
  };
  await page.goto(pages);
  await page.getByRole("link", { name: "Audit", exact: true }).click();
  await page.waitForSelector("#calls svg", { timeout: TIME });
  assert.match(await page.textContent("#report"), /Runs.*Turns.*A policy that fits these runs/s);
  assert.doesNotMatch(await page.textContent("#report .cards"), /[^0-9]0 tool calls/, "what the ledger has of calls");
  assert.match(await page.textContent("#kept"), /keeps no single tool calls.*Whole contents are kept/);
  assert.match(await page.textContent("#report"), /Asked of counts and costs alone, since a ledger keeps no single calls/);
  const ticks = await page.$$eval("#calls svg text", (nodes) => nodes.map((node) => node.textContent));
  const numbers = ticks.filter((text) => text && !text.startsWith("limit")).map(Number);
  assert.ok(numbers.length > 2 && numbers.length < 60 && numbers.every((at) => Number.isInteger(at) && at >= 0), ticks.join());
  ok("ticks of the histogram are whole numbers, none below nought");
  await looked("audit", page.locator("main"));
  const run = page.locator("details.run", { hasText: "pricing" }).or(page.locator("details.run")).first();
  await run.locator("summary").click();
  const link = run.getByRole("link", { name: "what was said and done" });
  await link.click();
  await page.waitForSelector("#run .end", { timeout: TIME });
  ok("the audit of the ledger, and from a run in it to the run's page");
  await page.goBack();
  await page.waitForSelector("#calls svg", { timeout: TIME });
  assert.ok(bytes < 300 * 1024, "the pages came to " + bytes + " bytes");

  await page.setInputFiles("#file", recording(work));
  await page.getByRole("heading", { name: "Audit of session<b>.json" }).waitFor({ timeout: TIME });
  await page.waitForSelector("#where svg", { timeout: TIME });
  // A section is shown only if there is something in it, and no chart has empty space below it.
  const empty = await page.$$eval("#report section, #report div.part", (nodes) => nodes.filter((node) => node.checkVisibility() && node.innerText.trim().split("\n").length < 2).map((node) => node.outerHTML.slice(0, 80)));
  assert.deepEqual(empty, []);
  const below = await page.$$eval("#report .chart svg", (nodes) => nodes.map((node) => node.parentElement.getBoundingClientRect().bottom - node.getBoundingClientRect().bottom));
  assert.ok(below.every((room) => room < 2), below.join());
  assert.ok(await page.isHidden("#kept"), "a recording is no ledger");
  const wasted = page.locator("details.run").first();
  await wasted.locator("summary").focus();
  await page.keyboard.press("Enter");
  assert.match(await wasted.locator("summary").textContent(), /repeat/);
  assert.match(await wasted.locator("ul").textContent(), /repeat 8 turns \(1–8\)/);
  assert.equal(await wasted.locator("tbody tr").count(), 9, "its steps");
  assert.ok(await wasted.locator("tr.wasted").count() >= 6);
  assert.equal(await wasted.getByRole("link").count(), 0, "no page of the gateway shows it");
  const all = await page.textContent("#report");
  assert.ok(all.includes("<script>window.hacked = 3") && !/[\u202E\u001b]/.test(all));
  assert.equal(await page.$$eval("#report script:not([type='application/json']), #report img", (nodes) => nodes.length), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  ok("a chosen recording, drilled down to its steps by keyboard; what it says is text");

  await looked("audit-run", wasted);
  const bad = path.join(work, "holiday.jpg");
  fs.writeFileSync(bad, Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 1, 2, 3]));
  await page.setInputFiles("#file", bad);
  await page.getByText("Nothing in it could be read as a session").waitFor({ timeout: TIME });
  assert.match(await page.textContent("#report details[open]"), /holiday\.jpg:/);
  await accessible(page, "an audit of nothing");
  ok("what is no recording is listed with the reason");

  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.waitForSelector("#calls svg", { timeout: TIME });
  await page.setInputFiles("#file", bad);
  await page.getByText("The token of these pages is needed").waitFor({ timeout: TIME });
  await page.fill("#token", /#token=(.+)$/.exec(pages)[1]);
  await page.getByRole("button", { name: "Use it" }).click();
  await page.getByText("Nothing in it could be read as a session").waitFor({ timeout: TIME });
  ok("without the token nothing is handed over; with it, it goes on");
  assert.deepEqual(errors, []);
  const own = new URL(pages).origin + "/";
  assert.deepEqual(asked.filter((url) => !url.startsWith(own)), [], "nothing else is asked");
  await page.close();
}

module.exports = { audit };
