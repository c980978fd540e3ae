// Looks at every page of the built site on a narrow screen; see tests/site/run.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { chromium } = require("playwright-core");

const [, , browserPath, site, shots] = process.argv;
const NARROW = { width: 390, height: 844 };
const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png" };

function pages(folder) {
  const found = [];
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const whole = path.join(folder, entry.name);
    if (entry.isDirectory()) found.push(...pages(whole));
    else if (entry.name === "index.html") found.push("/" + path.relative(site, folder).split(path.sep).filter(Boolean).map((part) => part + "/").join(""));
  }
  return found.sort();
}

function served() {
  const server = http.createServer((request, response) => {
    const asked = decodeURIComponent(new URL(request.url, "http://here").pathname);
    const file = path.join(site, asked.endsWith("/") ? asked + "index.html" : asked);
    if (!file.startsWith(site) || !fs.existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[path.extname(file)] || "application/octet-stream" });
    fs.createReadStream(file).pipe(response);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

// What stands out of the page to the right, but for what scrolls by itself.
function tooWide() {
  const scrolls = (node) => { for (; node; node = node.parentElement) if (["auto", "scroll", "hidden"].includes(getComputedStyle(node).overflowX) && node !== document.documentElement && node !== document.body) return true; return false; };
  const wide = [...document.querySelectorAll(".md-content *")].filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && !scrolls(node.parentElement) && !scrolls(node));
  return { page: document.documentElement.scrollWidth - innerWidth, nodes: wide.slice(0, 3).map((node) => node.outerHTML.slice(0, 160)) };
}

(async () => {
  const server = await served();
  const base = "http://127.0.0.1:" + server.address().port;
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
  const wrong = [];
  const all = pages(site);
  try {
    const page = await browser.newPage({ viewport: NARROW });
    page.on("request", (request) => { if (!request.url().startsWith(base) && !request.url().startsWith("data:")) wrong.push(["fetches from elsewhere", page.url(), request.url()]); });
    page.on("response", (response) => { if (response.status() >= 400) wrong.push(["missing", page.url(), response.url()]); });
    for (const where of all) {
      await page.goto(base + where, { waitUntil: "load" });
      const found = await page.evaluate(tooWide);
      if (found.page > 1 || found.nodes.length) wrong.push(["too wide by " + found.page, where, ...found.nodes]);
    }
    if (shots) {
      await page.goto(base + "/", { waitUntil: "load" });
      await page.screenshot({ path: path.join(shots, "site-narrow.png") });
      await page.setViewportSize({ width: 1200, height: 900 });
      await page.goto(base + "/", { waitUntil: "load" });
      await page.screenshot({ path: path.join(shots, "site.png") });
      await page.goto(base + "/reference/headers/", { waitUntil: "load" });
      await page.screenshot({ path: path.join(shots, "site-headers.png") });
    }
  } finally {
    await browser.close();
    server.close();
  }
  assert.deepEqual(wrong, []);
  console.log(`  ok  ${all.length} pages are readable at ${NARROW.width} px, and fetch nothing from elsewhere`);
})().catch((error) => { console.error(error); process.exit(1); });
