// What other programs leave in a notebook's file, and more pages than there may be.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");

const TIME = 60000;
const cell = (page, id) => page.locator(`.cell[data-id="${id}"]`);
const sources = (notebook, id) => notebook.read().cells.find((cell) => cell.id === id).source;
const settled = (page, id, source) => page.waitForFunction(([id, source]) => {
  const view = window.softland.cells.all.get(id);
  return view && view.base.source === source && view.mine() === null;
}, [id, source], { timeout: TIME });

// Line ends of other systems, and outputs of no known form.
async function odd(one, two, notebook, ok) {
  const file = notebook.read();
  const first = file.cells.find((cell) => cell.id === "first");
  first.metadata.scrolled = "auto";
  first.outputs = [{ output_type: "stream", name: "stdout", text: 5 }, { output_type: "stream", name: "stdout", text: {} }, {},
    { output_type: "display_data", data: { "image/png": 7, "text/html": [1, {}] }, metadata: null }];
  file.cells.push({ cell_type: "code", id: "ends", metadata: {}, execution_count: null, outputs: [], source: ["a = 1\r\n", "b = 2"] });
  fs.writeFileSync(notebook.file, JSON.stringify(file, null, 1));
  for (const page of [one, two]) await settled(page, "ends", "a = 1\r\nb = 2");
  assert.equal(await cell(one, "first").locator(".out").count(), 4);
  ok("outputs of no known form are shown as well as they can be");
  await cell(one, "ends").locator("textarea").click();
  await cell(one, "first").locator("textarea").click();
  await one.evaluate(() => window.softland.link.lose());
  await one.waitForSelector("#link.off", { timeout: TIME });
  await one.waitForSelector("#link.on", { timeout: TIME });
  await one.evaluate(() => Promise.all([...window.softland.cells.all.values()].map((view) => view.queue)));
  assert.deepEqual(sources(notebook, "ends"), ["a = 1\r\n", "b = 2"]);
  const rev = await two.evaluate(() => window.softland.cells.all.get("ends").base.rev);
  await two.evaluate(([rev]) => window.softland.link.wish({ do: "update_cell", id: "ends", rev, source: "a = 1\r\nb = 3" }), [rev]);
  await settled(one, "ends", "a = 1\r\nb = 3");
  assert.equal(await cell(one, "ends").locator(".clash").isVisible(), false, "nobody was writing");
  await cell(one, "ends").locator("textarea").click();
  await one.keyboard.press("Control+End");
  await one.keyboard.type("3");
  await cell(one, "first").locator("textarea").click();
  for (const page of [two, one]) await settled(page, "ends", "a = 1\r\nb = 33");
  assert.deepEqual(sources(notebook, "ends"), ["a = 1\r\n", "b = 33"]);
  ok("a cell with line ends of Windows keeps them, and is changed by nobody who only looks");
}

// A save whose reply was lost is nobody else's change.
async function unanswered(one, ok) {
  for (const [after, saved] of [[1000, "saved = 1"], [0, "saved = 2"]]) await lost(one, after, saved);
  ok("typing goes on where the reply to a save was lost, without a conflict");
}

async function lost(one, after, saved) {
  // A change may be told before the reply to the save that made it, and that reply is not the one to lose.
  await one.evaluate(() => window.softland.cells.all.get("ends").queue);
  await one.evaluate(([after, saved]) => {
    const view = window.softland.cells.all.get("ends"), link = window.softland.link, take = link.take;
    // The reply and the change do not come; then the connection is gone.
    link.take = () => {};
    view.edit.value = saved;
    view.save();
    setTimeout(() => { link.take = take; view.edit.value = saved + "\nmore = 2"; link.lose(); }, after);
  }, [after, saved]);
  await settled(one, "ends", saved + "\nmore = 2");
  assert.equal(await cell(one, "ends").locator(".clash").isVisible(), false, "it was this page that wrote");
}

async function full(browser, one, url, ok) {
  await one.evaluate(() => {
    window.many = Array.from({ length: 32 }, () => {
      const socket = new WebSocket("ws://" + location.host + "/api/ws");
      socket.addEventListener("open", () => socket.send(JSON.stringify({ token: window.softland.link.token })));
      return socket;
    });
    return Promise.all(window.many.map((socket) => new Promise((done) => {
      socket.addEventListener("message", done);
      socket.addEventListener("close", done);
    })));
  });
  const page = await browser.newPage();
  await page.goto(url);
  await page.locator("#wait", { hasText: "32 pages are open already" }).waitFor({ timeout: TIME });
  await one.evaluate(() => window.many.forEach((socket) => socket.close()));
  await page.waitForSelector("#link.on", { timeout: TIME });
  await page.close();
  ok("more pages than there may be: the page says so, and comes when there is room");
}

module.exports = { odd, unanswered, full };
