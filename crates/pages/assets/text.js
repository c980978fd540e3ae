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

export function count(n, one, many = one + "s") { return number.format(n) + " " + (n === 1 ? one : many); }

export function time(ts) {
  return new Date(ts).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function clock(ts) { return new Date(ts).toLocaleTimeString(); }

export function seconds(s) {
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: s < 10 ? 2 : 0 }).format(s) + " s";
}

// Colours and cursor moves of terminals go; other controls and directions are made visible.
export function clean(text) {
  return String(text)
    .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "")
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, "")
    .replace(/\r\n/g, "\n")
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

// Text that grows, cut where it is long.
export class Words {
  constructor(node) { this.node = node; this.all = ""; this.shown = 0; this.limit = SHOWN; node.dir = "auto"; }
  add(text) { this.all += text; }
  set(text) { this.all = text; this.shown = 0; this.node.replaceChildren(); }
  paint() {
    const to = Math.min(this.all.length, this.limit);
    if (to > this.shown) {
      this.node.append(document.createTextNode(clean(this.all.slice(this.shown, to))));
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

/* Markdown: headings, lists, quotes, code, emphasis, links. What it does not know stays text. */

const LONG = 200000;

export function markdown(text) {
  if (text.length > LONG) return words(text);
  const root = el("div", { className: "md" });
  root.dir = "auto";
  const lines = clean(text.replace(/\r\n?/g, "\n")).split("\n");
  let at = 0, list = null, kind = "", para = [];
  const flush = () => { if (para.length) { root.append(spans(el("p"), para.join("\n"))); para = []; } };
  const close = () => { flush(); list = null; };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)/.exec(line);
    const head = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = /^\s*(?:([-*+])|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (fence) {
      close();
      const code = [];
      at += 1;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) { code.push(lines[at]); at += 1; }
      root.append(el("pre", { textContent: code.join("\n"), tabIndex: 0 }));
    } else if (head) {
      close();
      root.append(spans(el("h" + Math.min(6, head[1].length + 2)), head[2]));
    } else if (item) {
      flush();
      const now = item[1] ? "ul" : "ol";
      if (!list || kind !== now) { list = el(now); kind = now; root.append(list); }
      list.append(spans(el("li"), item[2]));
    } else if (/^\s*>/.test(line)) {
      close();
      root.append(spans(el("blockquote"), line.replace(/^\s*>\s?/, "")));
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      close();
      root.append(el("hr"));
    } else if (!line.trim()) {
      close();
    } else if (list && /^\s{2,}/.test(line)) {
      spans(list.lastElementChild, "\n" + line.trim());
    } else {
      list = null;
      para.push(line);
    }
    at += 1;
  }
  close();
  return root;
}

const SPAN = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s()]+)\)/g;

function spans(node, text) {
  let from = 0;
  for (const found of text.matchAll(SPAN)) {
    node.append(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[1] !== undefined) node.append(el("code", { textContent: found[1] }));
    else if (found[2] !== undefined) node.append(el("strong", { textContent: found[2] }));
    else if (found[3] !== undefined) node.append(el("em", { textContent: found[3] }));
    else node.append(el("a", { href: found[5], rel: "noopener noreferrer nofollow", target: "_blank", textContent: found[4] }));
  }
  node.append(text.slice(from));
  return node;
}
