// Server-sent events over fetch: EventSource can show no token. It comes back by itself, from the
// last event that it has read. A page that nobody sees gives its stream back after a while: a browser
// gives a host six connections, and those of hidden tabs would leave none to the one that is seen.

const FIRST = 500, LONGEST = 10000, UNSEEN = 5000;

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }

  // Whether it would be refused again: a proxy whose gateway is away, and one that is busy, are asked anew.
  get final() { return this.status < 500 && this.status !== 408 && this.status !== 429; }
}

let token = "";
export function setToken(text) { token = text; }
export function hasToken() { return token !== ""; }

export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.authorization = "Bearer " + token;
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Refused(response.status, said?.error?.message || "the gateway answered " + response.status);
  }
  return response;
}

export class Feed {
  // `take(events)`: a list of parsed events; `resync()`: begin anew; `state(word, error)`.
  constructor(path, { take, resync, state, last }) {
    Object.assign(this, { path, take, resync, state, closed: false });
    this.last = last || "";
    this.over = false;
    this.abort = new AbortController();
    this.seen = () => this.look();
    document.addEventListener("visibilitychange", this.seen);
    this.look();
    this.run().finally(() => this.part());
  }

  close() {
    this.closed = true;
    this.part();
    this.abort.abort();
    this.wake?.();
  }

  part() {
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.timer);
  }

  // For tests: loses the connection as a network would.
  lose() { this.abort.abort(); this.abort = new AbortController(); }

  // Whether the page is seen may have changed.
  look() {
    clearTimeout(this.timer);
    if (document.hidden) {
      this.timer = setTimeout(() => { this.away = true; this.lose(); }, UNSEEN);
    } else {
      this.away = false;
      this.wake?.();
    }
  }

  // A while, or until the page is seen again; as long as nobody sees it there is no end to it.
  async wait(pause) {
    await new Promise((done) => {
      this.wake = done;
      if (!this.away) setTimeout(done, pause);
    });
    this.wake = null;
  }

  async run() {
    let pause = FIRST;
    while (!this.closed && !this.over) {
      if (this.away) {
        await this.wait();
        continue;
      }
      try {
        const headers = this.last ? { "last-event-id": this.last } : {};
        const response = await ask(this.path, { headers, signal: this.abort.signal });
        this.state("on");
        await this.read(response.body.getReader());
      } catch (error) {
        if (this.closed) return;
        if (error instanceof Refused && error.final) {
          this.state("refused", error);
          return;
        }
      }
      if (this.closed || this.over) return;
      if (this.away) continue;
      this.state("off");
      // One that ends at once, again and again, is not asked in a hurry.
      if (this.some) pause = FIRST;
      this.some = false;
      await this.wait(pause);
      pause = Math.min(pause * 2, LONGEST);
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.closed) return;
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split("\n\n");
      rest = parts.pop();
      const events = [];
      for (const part of parts) {
        let data = "", kind = "message", id = null;
        for (const line of part.split("\n")) {
          if (line.startsWith("data: ")) data += line.slice(6);
          else if (line.startsWith("event: ")) kind = line.slice(7);
          else if (line.startsWith("id: ")) id = line.slice(4);
        }
        if (kind === "resync") {
          events.length = 0;
          this.last = "";
          this.resync();
        } else if (data) {
          const event = JSON.parse(data);
          events.push(event);
          if (id !== null) this.last = id;
          if (event.event === "done" || event.event === "error") this.over = true;
        }
      }
      if (events.length) { this.some = true; this.take(events); }
    }
  }
}
