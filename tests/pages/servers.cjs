// The programs behind the page: `softland sim`, `softland serve`, and a provider that says what the
// simulator never would.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { spawn } = require("node:child_process");

const started = [];

function start(name, command, args, cwd, wanted) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "ignore", "pipe"] });
    started.push(child);
    let said = "";
    const late = setTimeout(() => reject(new Error(name + " does not start: " + said)), 60000);
    child.stderr.on("data", (data) => {
      said += data;
      const found = wanted.exec(said);
      if (found) { clearTimeout(late); resolve(found); }
    });
    child.on("exit", (code) => reject(new Error(name + " ended with " + code + ": " + said)));
  });
}

function sse(response, event, data) { response.write("event: " + event + "\ndata: " + JSON.stringify({ type: event, ...data }) + "\n\n"); }

function head(response) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  sse(response, "message_start", { message: { id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-5-5", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } });
}

function end(response, stop) {
  sse(response, "message_delta", { delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 60 } });
  sse(response, "message_stop", {});
  response.end();
}

const next = () => new Promise((done) => setImmediate(done));

// Asked of by a client that plays its part: a call first, then 5,000 deltas of text.
async function play(request, response) {
  let body = "";
  for await (const data of request) body += data;
  const asked = JSON.parse(body);
  head(response);
  if (asked.messages.length === 1) {
    sse(response, "content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } });
    sse(response, "content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "<img src=x onerror=alert(1)> I think." } });
    sse(response, "content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2ln" } });
    sse(response, "content_block_stop", { index: 0 });
    sse(response, "content_block_start", { index: 1, content_block: { type: "text", text: "" } });
    sse(response, "content_block_delta", { index: 1, delta: { type: "text_delta", text: "I ask <b>twice</b>." } });
    sse(response, "content_block_stop", { index: 1 });
    for (const [n, id] of [[2, "toolu_one"], [3, "toolu_two"]]) {
      sse(response, "content_block_start", { index: n, content_block: { type: "tool_use", id, name: "read_file", input: {} } });
      for (const piece of ['{"path":', ' "notes/', id + '.md"}']) {
        sse(response, "content_block_delta", { index: n, delta: { type: "input_json_delta", partial_json: piece } });
      }
      sse(response, "content_block_stop", { index: n });
    }
    return end(response, "tool_use");
  }
  sse(response, "content_block_start", { index: 0, content_block: { type: "text", text: "" } });
  for (let n = 0; n < 5000; n += 1) {
    sse(response, "content_block_delta", { index: 0, delta: { type: "text_delta", text: "word" + n + " " } });
    if (n % 50 === 0) await next();
  }
  sse(response, "content_block_stop", { index: 0 });
  return end(response, "end_turn");
}

// A provider of one's own: `play(request, response)` is what it says.
function provider(play) {
  return new Promise((resolve) => {
    const server = http.createServer((request, response) => { play(request, response).catch(() => response.destroy()); });
    started.push({ kill: () => server.close() });
    server.listen(0, "127.0.0.1", () => resolve("http://127.0.0.1:" + server.address().port));
  });
}

async function all(binary, work) {
  const sim = await start("sim", binary, ["sim", "--listen", "127.0.0.1:0", "--scenario", "looper"], work, /listening on (http:\/\/\S+)/);
  const hostile = await provider(play);
  const config = path.join(work, "softland.toml");
  fs.writeFileSync(config, [
    'listen = "127.0.0.1:0"', "[upstream.anthropic]", 'base_url = "' + sim[1] + '"',
    "[upstream.hostile]", 'base_url = "' + hostile + '"',
    "[policy.default]", "tool_calls_limit = 6", 'on_loop = "observe"',
    "[ledger]", 'url = "sqlite:' + path.join(work, "ledger.db") + '"', 'content = "full"', "",
  ].join("\n"));
  const serve = await start("serve", binary, ["serve", "--config", config], work, /listening on (http:\/\/\S+)[\s\S]*pages: (http:\/\/\S+)/);
  return { gateway: serve[1], pages: serve[2] };
}

function stop() { for (const child of started) child.kill(); }

module.exports = { all, stop, start, started, provider, sse, head, end };
