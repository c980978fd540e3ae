// The page of an audit of 10,000 runs: no task of its script keeps the browser busy for long, when
// the page is opened and when runs are chosen.
"use strict";
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const RUNS = 10000, TASK = 200, TRIES = 5;

// Runs of a gateway, 13 minutes apart, as event lines.
function events(folder) {
  const lines = [];
  for (let n = 0; n < RUNS; n += 1) {
    const at = Date.UTC(2026, 0, 1) + n * 780000, model = ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"][n % 3];
    const put = (turn, event, fields) => lines.push(JSON.stringify({ v: 1, seq: lines.length, ts: new Date(at + turn * 1000).toISOString(), run: "run-" + n, turn, event, ...fields }));
    put(0, "run_start", { model, session: "session-" + n });
    put(1, "turn_start", {});
    put(1, "usage", { input: 900 + n, output: 90, cache_read: n % 700, cache_write: n % 300, cost_usd: (n % 97) / 100 });
    put(1, "done", { outcome: "answered", reason: "end", tool_calls: n % 40 });
  }
  const file = path.join(folder, "events.jsonl");
  fs.writeFileSync(file, lines.join("\n") + "\n");
  return file;
}

// The longest task of each thing that a reader does, in milliseconds. Other programs of the machine
// lengthen tasks, so each is tried several times and the shortest of its longest tasks counts.
async function heavy(browser, binary, work, { ok }) {
  const report = path.join(work, "heavy.html");
  execFileSync(binary, ["audit", events(work), "--out", report], { stdio: "ignore" });
  const least = {};
  for (let n = 0; n < TRIES; n += 1) {
    const page = await browser.newPage();
    await page.addInitScript(() => {
      window.tasks = [0];
      new PerformanceObserver((list) => { for (const task of list.getEntries()) window.tasks.push(task.duration); }).observe({ type: "longtask" });
    });
    const took = async (what, runs) => {
      const drawn = (runs) => document.body.getAttribute("aria-busy") === "false" && document.querySelector("[data-card=runs] dd").textContent === runs;
      await page.waitForFunction(drawn, runs);
      const longest = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(Math.max(...window.tasks.splice(0), 0))))));
      least[what] = Math.min(longest, least[what] ?? Infinity);
    };
    await page.goto("file://" + report);
    await took("opening", "10,000");
    assert.ok(await page.isVisible("#calls svg") && await page.isVisible("#spend svg"), "all is drawn");
    await page.selectOption("[name=model]", { index: 2 });
    await took("choosing a model", "3,333");
    await page.selectOption("[name=model]", "");
    await took("choosing all models", "10,000");
    await page.fill("[name=from]", "2026-02-01");
    await took("choosing days", "6,566");
    await page.click("#choice button");
    await took("choosing all", "10,000");
    await page.close();
  }
  const said = Object.entries(least).map(([what, millis]) => what + " " + Math.round(millis) + " ms");
  assert.ok(Object.values(least).every((millis) => millis < TASK), said.join(", "));
  ok("the longest tasks of " + RUNS + " runs: " + said.join(", "));
}

module.exports = { heavy };
