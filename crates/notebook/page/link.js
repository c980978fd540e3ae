// The socket: wishes with their replies, what the server tells, and coming back by itself.

const FIRST = 500, LONGEST = 10000;
const MOST = 4 << 20;        // bytes of a message that the server takes

// Half a character cannot be sent; the server reads none.
const whole = (_, value) => (typeof value === "string" ? value.toWellFormed() : value);

export class Refused extends Error {
  constructor(refused) { super(refused.message); this.code = refused.code; this.cell = refused.cell; }
}

export class Link {
  // `begin(state, chat, asked)`, `change(change)`, `event(event)`, `state(word, why)`.
  constructor(token, hears) {
    this.token = token;
    this.hears = hears;
    this.n = 0;
    this.waiting = new Map();
    this.pause = FIRST;
    this.closed = false;
    this.open();
  }

  open() {
    const socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/api/ws");
    this.socket = socket;
    socket.addEventListener("open", () => socket.send(JSON.stringify({ token: this.token })));
    socket.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => this.lost(event));
  }

  take(said) {
    if (said.reply !== undefined) {
      const wait = this.waiting.get(said.reply);
      this.waiting.delete(said.reply);
      if (!wait) return;
      if (said.refused) wait.no(new Refused(said.refused)); else wait.ok(said.ok);
    } else if (said.state) {
      this.pause = FIRST;
      this.on = true;
      this.hears.state("on");
      this.hears.begin(said.state, said.chat, said.asked);
    } else if (said.change) this.hears.change(said.change);
    else if (said.event) this.hears.event(said.event);
  }

  lost(event) {
    this.on = false;
    for (const wait of this.waiting.values()) wait.no(new Refused({ code: "lost", message: "the connection was lost" }));
    this.waiting.clear();
    if (this.closed) return;
    if (event.code === 1008) { this.hears.state("refused", event.reason); return; }
    this.hears.state("off", event.reason);
    setTimeout(() => { if (!this.closed) this.open(); }, this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST);
  }

  // For tests: loses the connection as a network would.
  lose() { this.socket.close(); }

  close() { this.closed = true; this.socket.close(); }

  wish(what) {
    if (!this.on) return Promise.reject(new Refused({ code: "away", message: "there is no connection; try again when it is back" }));
    this.n += 1;
    const n = this.n, text = JSON.stringify({ n, ...what }, whole);
    if (new TextEncoder().encode(text).length > MOST) {
      return Promise.reject(new Refused({ code: "invalid", message: "a cell of more than 4 MiB is not saved; make it shorter" }));
    }
    return new Promise((ok, no) => {
      this.waiting.set(n, { ok, no });
      this.socket.send(text);
    });
  }
}
