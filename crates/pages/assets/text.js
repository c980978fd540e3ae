// What comes from a model, a tool or a cell, shown as text and nothing else; numbers with their units.

const SHOWN = 6000;          // characters of a block before "show more"
const STEP = 60000;          // characters that one "show more" adds

const number = new Intl.NumberFormat();

export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (key in node && key !== "list") node[key] = value; else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  const value = Number(usd);
  if (value === 0) return "$0";
  return "$" + (value >= 1 ? value.toFixed(2) : value.toFixed(value >= 0.01 ? 3 : 5).replace(/0+$/, ""));
}

export function priced(usd) { return usd === null || usd === undefined ? "cost unknown" : money(usd); }

export function count(n, one, many = one + "s") { return number.format(n) + " " + (n === 1 ? one : many); }

export function time(ts) {
  return new Date(ts).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function clock(ts) { return new Date(ts).toLocaleTimeString(); }

export function seconds(s) {
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: s < 10 ? 2 : 0 }).format(s) + " s";
}

// Asks back; whether the answer is yes.
export async function confirmed(dialog) {
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  return dialog.returnValue === "yes";
}

// Colours and cursor moves of terminals go; other controls and directions are made visible.
export function clean(text) {
  return String(text)
    .replace(/\r\n/g, "\n")
    .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "")
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, "")
    .replace(/[\x00-\x08\x0b-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g, (c) => "⟦U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟧");
}

// What a terminal would show: a line that was begun anew stands over the one before.
export function terminal(text) {
  if (!text.includes("\r")) return text;
  return text.replace(/\r\n/g, "\n").split("\n").map((line) => {
    const parts = line.split("\r").filter((part) => part !== "");
    return parts.length ? parts.at(-1) : "";
  }).join("\n");
}

// The end of a piece of text whose meaning the next piece decides: half of a line's end, of a
// terminal's command or of a character.
const UNDECIDED = /(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,2048}\x1b?)?|[\ud800-\udbff])$/;

// Text that grows, cut where it is long. What it shows does not depend on the pieces it came in: an
// undecided end is shown as it stands and made anew with what follows.
export class Words {
  constructor(node) {
    this.node = node;
    this.end = document.createTextNode("");
    this.limit = SHOWN;
    this.set("");
    node.dir = "auto";
  }
  add(text) { this.all += text; }
  set(text) {
    this.all = text;
    this.shown = 0;
    this.decided = 0;
    this.node.replaceChildren(this.end);
  }
  paint() {
    const to = Math.min(this.all.length, this.limit);
    if (to > this.shown) {
      const fresh = this.all.slice(this.decided, to);
      const open = UNDECIDED.exec(fresh)?.index ?? fresh.length;
      this.end.before(document.createTextNode(clean(fresh.slice(0, open))));
      this.end.data = clean(fresh.slice(open));
      this.decided += open;
      this.shown = to;
    }
    const left = this.all.length - this.shown;
    if (left > 0) this.offer(left);
    else if (this.more) { this.more.remove(); this.more = null; }
  }
  offer(left) {
    if (!this.more) {
      this.more = el("button", { type: "button", className: "more" });
      this.more.addEventListener("click", () => { this.limit += STEP; this.paint(); });
      this.node.after(this.more);
    }
    this.more.textContent = "Show more (" + count(left, "character") + " left)";
  }
}

export function words(text, name = "div") {
  const body = el(name, { className: "words" });
  const holder = el("div", {}, body);
  const all = new Words(body);
  all.add(text);
  all.paint();
  return holder;
}
