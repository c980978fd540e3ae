// Outputs of cells. HTML and SVG stand in a frame that runs nothing and loads nothing; what needs
// scripts is shown as an image or as text, and that is said.

import { markdown } from "/markdown.js";
import { clean, el, terminal, words } from "/text.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const SCRIPTED = ["application/javascript", "application/vnd.jupyter.widget-view+json", "application/vnd.bokehjs_exec.v0+json",
  "application/vnd.bokehjs_load.v0+json", "application/vnd.plotly.v1+json", "application/vnd.vegalite.v5+json", "application/vnd.vega.v5+json"];
const LARGEST = 4 << 20;
const INSIDE = "<!doctype html><meta charset=utf-8><meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:\">"
  + "<base target=_blank><meta name=color-scheme content=\"light dark\"><style>:root{color-scheme:light dark}body{margin:2px;font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}table{border-collapse:collapse;font-size:13px}th,td{padding:3px 8px;border:1px solid #8886;text-align:right}svg,img{max-width:100%;height:auto}</style>";

function joined(data) { return Array.isArray(data) ? data.join("") : data; }

// What should be text and is not is shown as what it is.
function said(data) {
  const text = joined(data ?? "");
  return typeof text === "string" ? text : JSON.stringify(text);
}

// Nothing of it would run in the frame; but what lives by scripts shows nothing without them.
function isScripted(html) {
  if (html.length > LARGEST) return false;
  const page = new DOMParser().parseFromString(html, "text/html");
  if (page.querySelector("script,iframe,object,embed")) return true;
  for (const node of page.querySelectorAll("*")) {
    for (const { name } of node.attributes) if (/^on/i.test(name)) return true;
  }
  return false;
}

// A frame without scripts cannot say how tall it is; this is a good guess, and it can be drawn larger.
function height(html, svg) {
  const page = new DOMParser().parseFromString(html, svg ? "image/svg+xml" : "text/html");
  const drawn = page.querySelector("svg");
  if (drawn) {
    const tall = parseFloat(drawn.getAttribute("height"));
    const box = (drawn.getAttribute("viewBox") || "").split(/[\s,]+/).map(Number);
    const unit = /pt$/.test(drawn.getAttribute("height") || "") ? 4 / 3 : 1;
    return (tall ? tall * unit : box[3] || 300) + 24;
  }
  const rows = page.querySelectorAll("tr").length;
  const blocks = page.querySelectorAll("p,div,li,h1,h2,h3,h4,br").length;
  const letters = (page.body?.textContent || "").length;
  const images = page.querySelectorAll("img").length;
  return (rows ? rows * 28 + blocks * 44 : Math.max(blocks * 26, letters / 70 * 22)) + images * 60 + 40;
}

// Where a link says where it leads, it leads nowhere all the same: a click would replace the output.
function still(html) {
  if (!/target/i.test(html)) return html;
  const page = new DOMParser().parseFromString(html, "text/html");
  const nodes = page.querySelectorAll("[target]");
  for (const node of nodes) node.setAttribute("target", "_blank");
  return nodes.length ? page.documentElement.outerHTML : html;
}

function frame(html, svg) {
  const node = el("iframe", { className: "output frame", title: svg ? "Drawing" : "HTML output", loading: "lazy" });
  node.setAttribute("sandbox", "");
  node.setAttribute("referrerpolicy", "no-referrer");
  node.srcdoc = INSIDE + still(html);
  node.style.height = Math.min(Math.max(Math.ceil(height(html, svg)), 40), 520) + "px";
  return node;
}

function image(kind, data, meta) {
  if (!/^[A-Za-z0-9+/=\s]*$/.test(data)) return words("(an image that cannot be read)");
  const node = el("img", { className: "output", alt: "Image drawn by the cell", src: "data:" + kind + ";base64," + data.replace(/\s/g, "") });
  const width = Number(meta?.width);
  if (width > 0) node.style.width = width + "px";
  return node;
}

function note(text) { return el("p", { className: "faint remark", textContent: text }); }

function bundle(data, metadata) {
  const all = new Map(Object.entries(data || {}).map(([kind, value]) => [kind, joined(value)]));
  const html = all.get("text/html"), svg = all.get("image/svg+xml");
  const scripted = SCRIPTED.some((kind) => all.has(kind)) || (typeof html === "string" && isScripted(html));
  const picture = IMAGES.find((kind) => typeof all.get(kind) === "string");
  const plain = all.get("text/plain");
  const isText = (value) => typeof value === "string" && value.length <= LARGEST;
  if (isText(html) && !scripted) return [frame(html, false)];
  if (isText(svg) && !isScripted(svg) && !picture) return [frame(svg, true)];
  const why = scripted ? "This output needs scripts, which are not run here" : svg && isScripted(String(svg)) ? "This drawing has scripts, which are not run here" : "";
  if (picture) return [...(why ? [note(why + "; here is its image.")] : []), image(picture, all.get(picture), metadata?.[picture])];
  if (why && isText(svg) && !isScripted(svg)) return [note(why + "; here is its drawing."), frame(svg, true)];
  if (why) return [note(why + (typeof plain === "string" ? "; here is its text." : "; it brings no text either.")), ...(typeof plain === "string" ? [text(plain)] : [])];
  if (isText(all.get("text/markdown"))) return [markdown(all.get("text/markdown"), 3)];
  if (typeof plain === "string") return [text(plain)];
  if (all.has("application/json")) return [text(JSON.stringify(data["application/json"], null, 2))];
  const kinds = [...all.keys()].map(clean).join(", ");
  return [note(kinds ? "This kind of output is not shown here: " + kinds : "An output without content.")];
}

function text(value, className = "") {
  const holder = words(terminal(value), "pre");
  holder.className = "output " + className;
  holder.firstElementChild.tabIndex = 0;
  return holder;
}

// Whatever a file has for an output: none of them stops the page.
export function output(one) {
  try {
    return shown(one);
  } catch {
    return el("div", { className: "out" }, note("An output that cannot be shown."));
  }
}

function shown(one) {
  const node = el("div", { className: "out" });
  switch (one?.output_type) {
    case "stream": {
      node.append(text(said(one.text), one.name === "stderr" ? "stderr" : ""));
      if (one.name === "stderr") node.setAttribute("aria-label", "Standard error");
      break;
    }
    case "error": {
      const trace = joined((one.traceback || []).join ? (one.traceback || []).join("\n") : "") || (one.ename + ": " + one.evalue);
      node.append(el("p", { className: "wrong", dir: "auto", textContent: clean((one.ename || "Error") + ": " + (one.evalue || "")).slice(0, 500) }), text(trace, "trace"));
      break;
    }
    case "display_data": case "execute_result": node.append(...bundle(one.data, one.metadata)); break;
    default: node.append(note("An output of an unknown kind."));
  }
  return node;
}
