// The README's picture of a page; see tests/pages/picture.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { chromium } = require("playwright-core");

const [, , binary, browserPath, work, root] = process.argv;
const started = [];

// Starts a server and returns what it prints once it listens.
function start(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { cwd: work, stdio: ["ignore", "ignore", "pipe"] });
    started.push(child);
    let said = "";
    child.stderr.on("data", (data) => {
      said += data;
      const found = /listening on (http:\/\/\S+)[^]*?(?:pages: (\S+)|$)/.exec(said);
      if (found && (args[0] === "sim" || found[2])) resolve(found);
    });
    child.on("exit", (code) => reject(new Error(args[0] + " ended with " + code + ": " + said)));
  });
}

function run(args, variables) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { cwd: root, stdio: "ignore", env: { ...process.env, XDG_STATE_HOME: work, ...variables } });
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error("the run ended with " + code))));
  });
}

(async () => {
  fs.writeFileSync(path.join(work, "softland.toml"), '[policy.default]\ntool_calls_limit = 8\n[ledger]\ncontent = "full"\n');
  const [, sim] = await start(["sim", "--listen", "127.0.0.1:0"]);
  const [, gateway, pages] = await start(["serve", "--config", "softland.toml", "--listen", "127.0.0.1:0", "--anthropic-base-url", sim]);
  // The limit is the gateway's: the agent of the example has its own, which is put out of the way.
  const question = "What did we decide about pricing?";
  await run(["run", "examples/analyst.md", question, "--root", "examples/notes", "--model", "anthropic/claude-sonnet-5-5",
    "--base-url", gateway, "--tool-calls-limit", "100"], { ANTHROPIC_API_KEY: "any" });
  const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1060, height: 640 }, colorScheme: "light" });
    await page.goto(pages);
    await page.getByRole("link", { name: question }).click();
    await page.waitForSelector(".end.landed", { timeout: 60000 });
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: path.join(root, "docs/images/page.png") });
    console.log("docs/images/page.png");
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error); process.exitCode = 1; }).finally(() => started.forEach((child) => child.kill()));
