// `softland notebook` as a child: started, told to stop, killed, started again on the same file.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { once } = require("node:events");
const { spawn } = require("node:child_process");

const started = new Set();
const TIME = 60000;

class Notebook {
  constructor(binary, work, name) {
    Object.assign(this, { binary, work, file: path.join(work, name + ".ipynb") });
  }

  async start(args) {
    const env = { ...process.env, XDG_STATE_HOME: path.join(this.work, "state"), HOME: this.work };
    for (const name of Object.keys(env)) if (/_API_KEY$|_BASE_URL$/.test(name)) delete env[name];
    const child = spawn(this.binary, ["notebook", this.file, "--listen", "127.0.0.1:0", ...args], { cwd: this.work, env, stdio: ["ignore", "ignore", "pipe"] });
    started.add(child);
    this.child = child;
    this.ended = once(child, "exit").then(([code, signal]) => { started.delete(child); return code ?? signal; });
    let said = "";
    this.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("softland does not start: " + said)), TIME);
      child.stderr.on("data", (data) => {
        said += data;
        const found = /notebook: (http:\S+)/.exec(said);
        if (found) { clearTimeout(late); resolve(found[1]); }
      });
      this.ended.then((code) => reject(new Error("softland ended with " + code + ": " + said)));
    });
    this.ended.catch(() => {});
    this.origin = new URL(this.url).origin;
    return this;
  }

  async stop(signal = "SIGTERM") {
    this.child.kill(signal);
    return this.ended;
  }

  read() { return JSON.parse(fs.readFileSync(this.file, "utf8")); }

  // The status that an upgrade to the socket is answered with.
  upgrade(headers, at = new URL(this.origin)) {
    return new Promise((resolve, reject) => {
      const request = http.get({
        host: at.hostname, port: at.port, path: "/api/ws",
        headers: { connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==", ...headers },
      });
      request.on("upgrade", (response, socket) => { socket.destroy(); resolve(response.statusCode); });
      request.on("response", (response) => { response.resume(); resolve(response.statusCode); });
      request.on("error", reject);
    });
  }
}

function stop() { for (const child of started) child.kill("SIGKILL"); }

module.exports = { Notebook, stop };
