// Budgets: the accounts as a tree, what their windows have left, and what each account has spent.

import { ask } from "/feed.js";
import { clean, count, el, money, time } from "/text.js";

const number = new Intl.NumberFormat();
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });

function sheet(title, heads, rows) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col", textContent: text })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
  const scroll = el("div", { className: "scroll", tabIndex: 0, role: "region" }, table);
  scroll.setAttribute("aria-label", title);
  return [el("h3", { textContent: title }), scroll];
}

// How many of the accounts above this one have a row, too.
function depth(account, accounts) {
  const parts = account.split("/");
  return parts.slice(1).filter((_, at) => accounts.has(parts.slice(0, at + 1).join("/"))).length;
}

function name(account, accounts) {
  const cell = el("th", { scope: "row", className: "isolated", dir: "auto", textContent: clean(account) });
  cell.style.paddingInlineStart = 0.5 + 1.1 * depth(account, accounts) + "rem";
  return cell;
}

// The limits that a budget has: money, tokens, or both.
function limits(row) {
  const tokens = (n) => number.format(n) + " tokens";
  return [["usd", money], ["tokens", tokens]].filter(([unit]) => row["limit_" + unit] !== null).map(([unit, text]) => ({
    limit: Number(row["limit_" + unit]), spent: Number(row["spent_" + unit]),
    used: text(row["spent_" + unit]) + " of " + text(row["limit_" + unit]), left: text(row["left_" + unit]),
  }));
}

function budget(row, accounts) {
  const own = limits(row);
  const bars = own.map((one) => {
    const bar = el("progress", { max: 1, value: Math.min(1, one.spent / one.limit) });
    bar.setAttribute("aria-label", one.used);
    return el("div", {}, el("span", { textContent: one.used }), bar);
  });
  const share = Math.max(...own.map((one) => one.spent / one.limit));
  const left = own.map((one) => el("div", { textContent: one.left }));
  const spent = el("span", { className: "sub", textContent: percent.format(share) + " spent" });
  const ends = row.ends ? time(row.ends) : "not begun";
  return el("tr", {}, name(row.account, accounts), el("td", { textContent: row.window }), el("td", {}, ...bars),
    el("td", {}, ...left, spent), el("td", { textContent: ends }));
}

// The table of budgets; nothing without any.
export async function budgets() {
  const { budgets: rows } = await (await ask("/api/budgets")).json();
  if (!rows.length) return [];
  const accounts = new Set(rows.map((row) => row.account));
  rows.sort((a, b) => (a.account < b.account ? -1 : a.account > b.account ? 1 : 0));
  return sheet("Budgets", ["Account", "Window", "Spent", "Left", "Ends"], rows.map((row) => budget(row, accounts)));
}

// What accounts have spent in the last days; nothing where requests have no account.
export async function spending(days) {
  const from = Date.now() - days * 86400000;
  const { rows } = await (await ask("/api/usage?by=account&from=" + from)).json();
  const paid = rows.filter((row) => row.account !== null);
  const accounts = new Set(paid.map((row) => row.account));
  const line = (row) => el("tr", {}, name(row.account, accounts), el("td", { textContent: count(row.requests, "request") }),
    el("td", { textContent: (row.unpriced_requests ? "at least " : "") + money(row.cost_usd) }));
  return paid.length ? sheet("By account", ["Account", "Requests", "Spent"], paid.map(line)) : [];
}
