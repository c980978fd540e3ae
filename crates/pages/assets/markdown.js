// Markdown: headings, lists, quotes, code, tables, emphasis, links. What it does not know stays text;
// images are named and not loaded.

import { clean, el, words } from "/text.js";

const LONG = 200000;
const CELLS = 5000;          // of a table; a larger one stays text

// `top`: the level that the text's own highest headings have on the page.
export function markdown(text, top = 2) {
  if (text.length > LONG) return words(text);
  const root = el("div", { className: "md" });
  const lines = clean(text.replace(/\r\n?/g, "\n")).split("\n");
  const level = levels(lines, top);
  let at = 0, list = null, kind = "", para = [];
  const flush = () => { if (para.length) { root.append(spans(el("p"), para.join("\n"))); para = []; } };
  const close = () => { flush(); list = null; };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)/.exec(line);
    const head = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = /^\s*(?:([-*+])|\d{1,9}[.)])\s+(.*)$/.exec(line);
    const rows = tableAt(lines, at);
    if (fence) {
      close();
      const code = [];
      at += 1;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) { code.push(lines[at]); at += 1; }
      root.append(el("pre", { textContent: code.join("\n"), tabIndex: 0 }));
    } else if (rows) {
      close();
      root.append(rows.large ? el("pre", { textContent: lines.slice(at, at + rows.lines).join("\n"), tabIndex: 0 }) : table(rows));
      at += rows.lines - 1;
    } else if (head) {
      close();
      root.append(spans(el("h" + level(head[1].length), { className: "l" + head[1].length }), head[2]));
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
  // Last: a browser looks for the direction anew with all that comes into what has it.
  root.dir = "auto";
  return root;
}

// Headings as a page may have them: the first is at the top, and none is more than one below the
// one before.
function levels(lines, top) {
  let fenced = false, highest = 6, last = top - 1;
  for (const line of lines) {
    if (/^\s*(```+|~~~+)/.test(line)) fenced = !fenced;
    const head = fenced ? null : /^(#{1,6})\s/.exec(line);
    if (head) highest = Math.min(highest, head[1].length);
  }
  return (own) => {
    last = Math.max(top, Math.min(6, top + own - highest, last + 1));
    return last;
  };
}

/* tables */

// The cells of a line; a bar in code, or behind a backslash, parts nothing.
function cells(line) {
  const found = [];
  let cell = "", code = false;
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === "\\" && text[at + 1] === "|") { cell += "|"; at += 1; continue; }
    if (c === "`") code = !code;
    if (c === "|" && !code) { found.push(cell.trim()); cell = ""; } else cell += c;
  }
  if (cell.trim()) found.push(cell.trim());
  return found;
}

function tableAt(lines, at) {
  const below = lines[at + 1] || "";
  if (!lines[at].includes("|") || !below.includes("-") || !/^[\s|:-]+$/.test(below)) return null;
  const head = cells(lines[at]), marks = cells(lines[at + 1]);
  if (!head.length || marks.length !== head.length || !marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  const rows = { head, sides: marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "")), body: [], lines: 2 };
  while (at + rows.lines < lines.length && lines[at + rows.lines].includes("|") && lines[at + rows.lines].trim()) {
    rows.large ||= head.length * rows.lines > CELLS;
    if (!rows.large) rows.body.push(cells(lines[at + rows.lines]));
    rows.lines += 1;
  }
  return rows;
}

function table(rows) {
  const one = (name, text, at) => spans(el(name, { className: rows.sides[at] || undefined, scope: name === "th" ? "col" : undefined }), text || "");
  const head = el("tr", {}, ...rows.head.map((text, at) => one("th", text, at)));
  const body = rows.body.map((row) => el("tr", {}, ...rows.head.map((_, at) => one("td", row[at], at))));
  const holder = el("div", { className: "scroll", tabIndex: 0, role: "region" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
  holder.setAttribute("aria-label", "Table");
  return holder;
}

/* what stands in a line */

// Each part ends where another may begin, so that a long line is read once.
const SPAN = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|!\[([^[\]\n]*)\](?:\([^()\n]*\)|\[[^[\]\n]*\])|\[([^[\]\n]+)\]\((https?:\/\/[^\s()]+)\)/g;

function spans(node, text) {
  let from = 0;
  for (const found of text.matchAll(SPAN)) {
    node.append(text.slice(from, found.index));
    from = found.index + found[0].length;
    const [, code, strong, em, image, link, way] = found;
    if (code !== undefined) node.append(el("code", { textContent: code }));
    else if (strong !== undefined) node.append(el("strong", { textContent: strong }));
    else if (em !== undefined) node.append(el("em", { textContent: em }));
    else if (image !== undefined) node.append(el("span", { className: "image", textContent: "Image" + (image.trim() ? ": " + image.trim() : " without a description") + " (not loaded)" }));
    else node.append(el("a", { href: way, rel: "noopener noreferrer nofollow", target: "_blank", textContent: link }));
  }
  node.append(text.slice(from));
  return node;
}
