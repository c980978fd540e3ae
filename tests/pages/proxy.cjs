// nginx before a softland, set up by tests/nginx.conf.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { once } = require("node:events");
const { spawn } = require("node:child_process");
const { started } = require("./servers.cjs");

const TIME = 60000;

function free() {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => resolve(port)); });
  });
}

function within(what, promise) {
  let late;
  const over = new Promise((_, reject) => { late = setTimeout(() => reject(new Error("not in time: " + what)), TIME); });
  return Promise.race([promise, over]).finally(() => clearTimeout(late));
}

// Whether somebody takes connections there.
function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => { socket.destroy(); resolve(true); });
    socket.on("error", () => resolve(false));
  });
}

class Proxy {
  constructor(nginx, work) { Object.assign(this, { nginx, work }); }

  // Listens on `port` and hands on to `upstream`; `change` may alter the configuration.
  async begin(port, upstream, change = (conf) => conf) {
    const words = { "@WORK@": this.work, "@LISTEN@": "127.0.0.1:" + port, "@UPSTREAM@": upstream.replace("http://", "") };
    const conf = fs.readFileSync(path.join(__dirname, "..", "nginx.conf"), "utf8").replace(/@[A-Z]+@/g, (word) => words[word]);
    const file = path.join(this.work, "nginx.conf");
    fs.writeFileSync(file, change(conf));
    this.child = spawn(this.nginx, ["-p", this.work, "-e", path.join(this.work, "error.log"), "-c", file], { stdio: "ignore" });
    started.push(this.child);
    await within("nginx", (async () => {
      while (!(await answers(port))) await new Promise((done) => setTimeout(done, 50));
    })());
  }

  // Ends at once, and with it every connection through it.
  async end() {
    const ended = once(this.child, "exit");
    this.child.kill("SIGTERM");
    await ended;
  }
}

module.exports = { Proxy, free, within };
