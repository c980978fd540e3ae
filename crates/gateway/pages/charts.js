// Charts: what requests have cost, by day, key, model and agent. Each number is there as text, too.

import { ask } from "/feed.js";
import { clean, count, el, money } from "/text.js";

const DAY = 86400000;
const MOST = 8;              // bars of one chart; what comes behind them is one bar
const GROUPS = [["key", "no key"], ["model", "unknown model"], ["agent", "no agent"]];
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function spent(row) {
  if (!row.unpriced_requests) return money(row.cost_usd);
  return row.cost_usd === null ? "unknown" : "at least " + money(row.cost_usd);
}

function sum(rows) {
  return rows.reduce((all, row) => ({
    cost_usd: row.cost_usd === null ? all.cost_usd : Number(all.cost_usd) + Number(row.cost_usd),
    unpriced_requests: all.unpriced_requests + row.unpriced_requests,
  }), { cost_usd: null, unpriced_requests: 0 });
}

function figure(title, ...inside) {
  const caption = el("figcaption", { textContent: title });
  const node = el("figure", {}, caption, ...inside);
  node.setAttribute("aria-label", title);
  return node;
}

// One column for each day, those without a request included.
function columns(rows, from, to) {
  const known = new Map(rows.map((row) => [row.day, row]));
  const days = [];
  for (let at = Math.floor(from / DAY); at <= Math.floor(to / DAY); at += 1) {
    const name = new Date(at * DAY).toISOString().slice(0, 10);
    days.push({ name, row: known.get(name) || { cost_usd: 0, unpriced_requests: 0 } });
  }
  const most = days.reduce((one, other) => (Number(other.row.cost_usd) > Number(one.row.cost_usd) ? other : one));
  const tall = Number(most.row.cost_usd) || 1;
  const bars = days.map(({ name, row }, at) => {
    const height = 100 * Number(row.cost_usd) / tall;
    const title = svg("title", {});
    title.textContent = day.format(new Date(name)) + ": " + spent(row);
    return svg("rect", { x: at + 0.1, y: 100 - height, width: 0.8, height }, title);
  });
  const named = ({ name, row }) => spent(row) + " on " + day.format(new Date(name));
  const chart = svg("svg", { viewBox: "0 0 " + days.length + " 100", preserveAspectRatio: "none", role: "img", class: "columns" }, ...bars);
  const all = spent(sum(rows)) + " in " + count(days.length, "day") + ", at most " + named(most);
  chart.setAttribute("aria-label", all);
  const ends = el("div", { className: "ends" }, el("span", { textContent: day.format(new Date(days[0].name)) }),
    el("span", { textContent: day.format(new Date(days.at(-1).name)) }));
  return figure("Spent by day (UTC)", el("p", { className: "sub", textContent: all }), chart, ends);
}

// One bar for each name, the dearest first; nothing where no request has one.
function bars(group, nameless, rows) {
  if (rows.every((row) => row[group] === null)) return [];
  const sorted = [...rows].sort((one, other) => Number(other.cost_usd) - Number(one.cost_usd));
  const shown = sorted.slice(0, sorted.length > MOST + 1 ? MOST : MOST + 1)
    .map((row) => ({ name: row[group] === null ? nameless : clean(row[group]), row }));
  const rest = sorted.slice(shown.length);
  if (rest.length) shown.push({ name: count(rest.length, "other"), row: sum(rest) });
  const long = Math.max(...shown.map(({ row }) => Number(row.cost_usd))) || 1;
  const items = shown.map(({ name, row }) => {
    const bar = svg("svg", { class: "bar-line", "aria-hidden": "true" },
      svg("rect", { width: 100 * Number(row.cost_usd) / long + "%", height: "100%" }));
    return el("li", {}, el("span", { className: "isolated", dir: "auto", textContent: name }),
      el("span", { className: "num", textContent: spent(row) }), bar);
  });
  return [figure("Spent by " + group, el("ul", {}, ...items))];
}

// The charts of the last days; nothing without a request.
export async function charts(days) {
  const to = Date.now(), from = to - days * DAY;
  const sums = async (by) => (await (await ask("/api/usage?by=" + by + "&from=" + from)).json()).rows;
  const [daily, ...others] = await Promise.all(["day", ...GROUPS.map(([group]) => group)].map(sums));
  if (!daily.length) return [];
  const groups = GROUPS.flatMap(([group, nameless], at) => bars(group, nameless, others[at]));
  return [el("div", { className: "charts" }, columns(daily, from, to), ...groups)];
}
