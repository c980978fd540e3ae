// Asks the gateway through nginx; see docs/pages.md.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { Proxy, free, within } = require("./proxy.cjs");
const { start, stop, provider, sse, head, end } = require("./servers.cjs");

const [, , binary, nginx, work, version] = process.argv;
const NAME = "gateway.example";
let checks = 0;

function ok(what) { checks += 1; console.log("  ok  " + what); }

// A provider whose second turn says a word, and goes on when it is let.
let letGo;
const let_ = new Promise((done) => { letGo = done; });

async function play(request, response) {
  let body = "";
  for await (const data of request) body += data;
  const asked = JSON.parse(body);
  head(response);
  if (asked.messages.length === 1) {
    sse(response, "content_block_start", { index: 0, content_block: { type: "tool_use", id: "toolu_through_1", name: "read_file", input: {} } });
    sse(response, "content_block_delta", { index: 0, delta: { type: "input_json_delta", partial_json: '{"path":"a"}' } });
    sse(response, "content_block_stop", { index: 0 });
    return end(response, "tool_use");
  }
  sse(response, "content_block_start", { index: 0, content_block: { type: "text", text: "" } });
  const say = (text) => sse(response, "content_block_delta", { index: 0, delta: { type: "text_delta", text } });
  say("first");
  await let_;
  say(" second");
  sse(response, "content_block_stop", { index: 0 });
  return end(response, "end_turn");
}

class Answer {
  constructor(request, response) {
    Object.assign(this, { request, response, text: "", over: false, waits: [] });
    response.setEncoding("utf8");
    response.on("data", (data) => { this.text += data; this.look(); });
    for (const event of ["end", "close", "error"]) response.on(event, () => { this.over = true; this.look(); });
  }
  look() { this.waits = this.waits.filter((wait) => !wait()); }
  until(what, holds) {
    return within(what, new Promise((resolve) => {
      const wait = () => { if (!holds(this)) return false; resolve(); return true; };
      if (!wait()) this.waits.push(wait);
    }));
  }
  whole() { return this.until("the end of an answer", () => this.over); }
  events() {
    return this.text.split("\n\n").slice(0, -1).map((part) => {
      const field = (name) => part.split("\n").find((line) => line.startsWith(name))?.slice(name.length);
      return { id: field("id: "), ...JSON.parse(field("data: ") || "{}") };
    }).filter((event) => event.event || event.run);
  }
}

async function ask(port, method, where, headers = {}, body = null) {
  return within(where, new Promise((resolve, reject) => {
    const request = http.request({ port, host: "127.0.0.1", method, path: where, headers: { host: NAME + ":" + port, ...headers } },
      (response) => resolve(new Answer(request, response)));
    request.on("error", reject);
    request.end(body);
  }));
}

function turn(port, messages) {
  const headers = { "x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json", "x-softland-run": "through" };
  const tools = [{ name: "read_file", input_schema: { type: "object", properties: { path: { type: "string" } } } }];
  return ask(port, "POST", "/v1/messages", headers, JSON.stringify({ model: "claude-sonnet-5-5", max_tokens: 8000, stream: true, messages, tools }));
}

async function main() {
  const config = path.join(work, "softland.toml");
  fs.writeFileSync(config, ['listen = "127.0.0.1:0"', 'allowed_hosts = ["' + NAME + '"]', "[upstream.anthropic]", 'base_url = "' + (await provider(play)) + '"', ""].join("\n"));
  const [, gateway, pages] = await start("serve", binary, ["serve", "--config", config], work, /listening on (http:\/\/\S+)[\s\S]*pages: (http:\/\/\S+)/);
  const token = { authorization: "Bearer " + pages.split("#token=")[1] };
  const port = await free();
  await new Proxy(nginx, work).begin(port, gateway, (conf) => conf.replace(/proxy_http_version [0-9.]+;/, "proxy_http_version " + version + ";"));
  ok("the page comes through nginx, by the name that is allowed");

  const list = await ask(port, "GET", "/api/events", token);
  const messages = [{ role: "user", content: "What is in the notes?" }];
  const first = await turn(port, messages);
  await first.whole();
  const run = first.response.headers["x-softland-run"];
  await list.until("the run in the list", () => list.events().some((event) => event.run === run));
  ok("the list tells of a run that has begun");

  const where = "/api/runs/" + run + "/events";
  const events = await ask(port, "GET", where, token);
  await events.until("the beginning of the run", () => events.events().some((event) => event.event === "tool_result" || event.event === "usage"));
  messages.push({ role: "assistant", content: [{ type: "tool_use", id: "toolu_through_1", name: "read_file", input: { path: "a" } }] });
  messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_through_1", content: "Notes." }] });
  const second = await turn(port, messages);
  await second.until("the first word", () => second.text.includes('"first"'));
  assert.ok(!second.text.includes("message_stop"));
  ok("a governed stream comes word by word");
  await events.until("the first word, told", () => events.events().some((event) => event.text === "first"));
  ok("events of a run come while it goes on");

  const seen = events.events();
  events.request.destroy();
  const last = seen.findIndex((event) => event.text === "first");
  letGo();
  await second.whole();
  assert.ok(second.text.includes("message_stop"));
  const again = await ask(port, "GET", where, { ...token, "last-event-id": seen[last].id });
  await again.whole();
  const all = [...seen.slice(0, last + 1), ...again.events()];
  assert.deepEqual(all.map((event) => event.seq), all.map((_, n) => n), "no gap and none twice");
  assert.equal(all.at(-1).event, "done");
  assert.ok(again.events().some((event) => event.text === " second"));
  ok("a reconnect with Last-Event-ID reads on: nothing is left out, nothing comes twice");

  const status = async (...asked) => (await ask(port, ...asked)).response.statusCode;
  assert.equal(await status("GET", "/api/runs"), 401, "through a proxy everybody shows the token");
  assert.equal(await status("GET", "/api/runs", token), 200);
  assert.equal(await status("GET", "/api/runs", { ...token, host: "evil.example" }), 403);
  assert.equal(await status("GET", "/api/runs", { ...token, origin: "https://evil.example" }), 403);
  const own = { ...token, origin: "http://" + NAME + ":" + port, "sec-fetch-site": "same-origin" };
  assert.equal(await status("POST", "/api/runs/nobody/cancel", own), 404, "allowed, and not there");
  ok("only by the allowed name, of its own origin, with the token");
  list.request.destroy();
  console.log("nginx, asking by HTTP/" + version + ": " + checks + " checks ok");
}

main().catch((error) => { console.error(error); process.exitCode = 1; }).finally(() => { stop(); setTimeout(() => process.exit(), 500).unref(); });
