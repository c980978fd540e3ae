"use strict";
// Draws the figures in #data, again for each choice of days, project and model. All text of a
// recording is set as text.
var softlandReport = (function () {
  var DAY = 86400000, COLUMNS = 60, BARS = 10, UNKNOWN = "not recorded", SPANS = [1, 7, 30, 91, 365];
  var NS = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;
  var CLASSES = [["read", "read from the cache"], ["write", "written to the cache"],
    ["again", "written or sent again"], ["input", "other input"], ["output", "output"]];
  var SLICE = 50;
  var data = null, cards = null, pictures = [], waiting = [], timer = 0;
  function find(id) { return document.getElementById(id); }
  function make(name, className, text) {
    var node = document.createElement(name);
    if (className) { node.className = className; }
    if (text !== undefined) { node.textContent = text; }
    return node;
  }
  function draw(name, attributes, to) {
    var node = document.createElementNS(NS, name);
    Object.keys(attributes).forEach(function (key) { node.setAttribute(key, attributes[key]); });
    if (to) { to.appendChild(node); }
    return node;
  }
  // Does the waiting steps, and leaves the page to its reader in between: what is waiting after a slice
  // of 50 ms is done in a task of its own.
  function work() {
    var end = performance.now() + SLICE;
    timer = 0;
    while (waiting.length) {
      waiting.shift()();
      if (waiting.length && performance.now() > end) { timer = setTimeout(work); break; }
    }
    document.body.setAttribute("aria-busy", String(waiting.length > 0));
  }
  function count(number, what) { return digits(number) + " " + what + (number === 1 ? "" : "s"); }
  function digits(number) { return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ","); }
  // Money comes in millionths of a dollar.
  function money(amount) {
    if (amount === null) { return "?"; }
    var dollars = amount / 1e6, places = amount === 0 ? 0 : Math.abs(dollars) < 0.01 ? 6 : dollars < 1 ? 4 : 2;
    var text = dollars.toFixed(places).split(".");
    text[0] = text[0].replace(/\B(?=(\d{3})+$)/g, ",");
    return "$" + text.join(".");
  }
  function amount(value) { return data.unit === "usd" ? money(value) : digits(value); }
  function share(part, whole) { return whole ? (part * 100 / whole).toFixed(1) + "%" : ""; }
  function day(number) { return new Date(number * DAY).toISOString().slice(0, 10); }
  function sum(list, of) { return list.reduce(function (all, one) { return all + of(one); }, 0); }
  // The sums of the classes of some parts.
  function classes(parts) {
    var values = CLASSES.map(function () { return 0; });
    parts.forEach(function (part) { for (var at = 0; at < values.length; at += 1) { values[at] += part[at + 1]; } });
    return values;
  }
  // All elements of the lists in a member of the runs.
  function all(runs, key) {
    var list = [];
    runs.forEach(function (run) { run[key].forEach(function (one) { list.push(one); }); });
    return list;
  }
  function total(values) { return sum(values, function (value) { return value; }); }

  // Steps of an axis: four at most, round numbers.
  function steps(most, whole) {
    var step = Math.pow(10, Math.floor(Math.log10(most / 4)));
    step = [1, 2, 5, 10].map(function (times) { return times * step; }).find(function (one) { return most / one <= 4.0001; });
    if (whole) { step = Math.max(1, Math.round(step)); }
    var list = [];
    for (var at = 0; at <= most * 1.0001; at += step) { list.push(at); }
    return list;
  }
  // Columns of stacked parts: `of` has rows ({label, parts}), kinds (a class each), say (formats a
  // value), and may have a mark (a position among the rows) with its text.
  function columns(box, of) {
    var width = Math.max(240, box.clientWidth), height = 220, left = 64, below = 24, above = 16;
    var most = Math.max.apply(null, of.rows.map(function (row) { return total(row.parts); }));
    var svg = draw("svg", { width: width, height: height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" });
    var room = height - below - above, each = (width - left) / of.rows.length;
    function up(value) { return above + room - (most ? value / most * room : 0); }
    steps(most || 1, of.whole).forEach(function (at) {
      draw("line", { x1: left, x2: width, y1: up(at), y2: up(at), class: "grid" }, svg);
      draw("text", { x: left - 8, y: up(at) + 4, "text-anchor": "end" }, svg).textContent = of.say(at);
    });
    var skip = Math.ceil((of.whole ? 50 : 120) / each);
    of.rows.forEach(function (row, at) {
      var x = left + at * each, wide = Math.max(1, Math.min(each * 0.8, 48)), sofar = 0;
      var column = draw("g", {}, svg);
      row.parts.forEach(function (part, kind) {
        if (part <= 0) { return; }
        var top = up(sofar + part);
        draw("rect", { x: x + (each - wide) / 2, width: wide, y: top, height: Math.max(0.5, up(sofar) - top), class: "k-" + of.kinds[kind] }, column);
        sofar += part;
      });
      draw("rect", { x: x, width: each, y: above, height: room, class: "hover" }, column);
      draw("title", {}, column).textContent = row.label + ": " + of.say(total(row.parts)) + (row.more || "");
      if (at % skip === 0 && x + each / 2 + 40 < width + 8) {
        draw("text", { x: Math.max(left, x + each / 2), y: height - 6, "text-anchor": x + each / 2 - 40 < left ? "start" : "middle" }, svg).textContent = row.label;
      }
    });
    if (of.mark !== undefined) {
      var mark = left + of.mark * each, end = mark > width / 2;
      draw("line", { x1: mark, x2: mark, y1: above, y2: above + room, class: "mark" }, svg);
      draw("text", { x: mark + (end ? -6 : 6), y: 11, "text-anchor": end ? "end" : "start", class: "mark" }, svg).textContent = of.text;
    }
    box.replaceChildren(svg);
  }
  function picture(id, of) {
    var box = find(id);
    if (!box) { return; }
    box.closest("section, div.part").hidden = !of;
    if (of) { columns(box, of); pictures.push([box, of]); }
  }
  function table(to, heads, rows) {
    var body = make("tbody"), head = make("thead"), line = make("tr");
    heads.forEach(function (text) { line.appendChild(make("th", "", text)); });
    head.appendChild(line);
    rows.forEach(function (cells) {
      var row = make("tr");
      cells.forEach(function (text) { row.appendChild(make("td", "", text)); });
      body.appendChild(row);
    });
    var all = make("table");
    all.append(head, body);
    find(to).replaceChildren(all);
  }

  // The days of the chosen runs, filled up to columns of equal length.
  function days(runs) {
    var parts = all(runs, "s").filter(function (part) { return part[0] !== null; });
    var known = parts.map(function (part) { return part[0]; });
    var first = known.reduce(function (a, b) { return Math.min(a, b); }, Infinity);
    var last = known.reduce(function (a, b) { return Math.max(a, b); }, -Infinity);
    // A single column would say what the sums say already.
    if (!(last > first)) { return picture("spend", null); }
    var span = SPANS.find(function (one) { return (last - first) / one < COLUMNS; }) || 3650;
    var count = Math.floor((last - first) / span) + 1, groups = [];
    for (var at = 0; at < count; at += 1) { groups.push([]); }
    parts.forEach(function (part) { groups[Math.floor((part[0] - first) / span)].push(part); });
    var rows = groups.map(function (group, at) {
      var values = classes(group);
      var more = CLASSES.map(function (one, kind) { return values[kind] ? "\n" + one[1] + " " + amount(values[kind]) : ""; });
      return { label: day(first + at * span), parts: values, more: more.join("") };
    });
    picture("spend", { rows: rows, kinds: CLASSES.map(function (one) { return one[0]; }), say: amount });
    var used = rows.filter(function (row) { return total(row.parts) > 0; });
    table("spend-table", [span > 1 ? span + " days from" : "Day (UTC)", "All"].concat(CLASSES.map(function (one) { return one[1]; })),
      used.map(function (row) { return [row.label, amount(total(row.parts))].concat(row.parts.map(amount)); }));
    find("spend").setAttribute("aria-label", "By day, stacked by class: " + used.length + " columns, the largest " +
      amount(Math.max.apply(null, used.map(function (row) { return total(row.parts); }))) + "; the table below has all");
  }

  // One bar of all classes, with what each came to.
  function whole(runs) {
    var values = classes(all(runs, "s")), bill = total(values), at = 0;
    find("where").closest("section").hidden = !bill;
    if (!bill) { return; }
    var svg = draw("svg", { viewBox: "0 0 1000 24", preserveAspectRatio: "none", "aria-hidden": "true" });
    var list = make("ul", "key");
    CLASSES.forEach(function (one, kind) {
      if (!values[kind]) { return; }
      draw("rect", { x: at, width: values[kind] / bill * 1000, height: 24, class: "k-" + one[0] }, svg);
      at += values[kind] / bill * 1000;
      var item = make("li", "b-" + one[0]);
      item.append(make("b", "", amount(values[kind])), " " + share(values[kind], bill) + " " + one[1]);
      list.appendChild(item);
    });
    find("where").replaceChildren(svg, list);
    var lost = data.causes.map(function (cause, at) { return [cause, sum(runs, function (run) { return run.l ? run.l[at] : 0; })]; });
    lost = lost.filter(function (one) { return one[1] > 0; }).sort(function (a, b) { return b[1] - a[1]; });
    var text = lost.map(function (one) { return money(one[1]) + " " + one[0]; }).join(" · ");
    var sums = sum(lost, function (one) { return one[1]; });
    find("lost").textContent = sums ? "Lost to the cache: " + money(sums) + " (" + share(sums, bill) + ") beyond the price of reading. " + text : "";
  }

  // Bars of names; `rows` has [name, value, link].
  function bars(id, rows) {
    var box = find(id);
    rows = rows.filter(function (row) { return row[1] > 0; }).sort(function (a, b) { return b[1] - a[1]; });
    box.closest("div.part").hidden = rows.every(function (row) { return row[0] === UNKNOWN; });
    var most = rows.length ? rows[0][1] : 1, list = make("ul", "bars");
    rows.slice(0, BARS).forEach(function (row) {
      var item = make("li"), name = make(row[2] ? "a" : "bdi", "name", row[0]);
      if (row[2]) { name.href = row[2]; }
      var svg = draw("svg", { viewBox: "0 0 1000 6", preserveAspectRatio: "none", "aria-hidden": "true" });
      draw("rect", { width: Math.max(4, row[1] / most * 1000), height: 6, class: "k-bar" }, svg);
      item.append(name, make("b", "", amount(row[1])), svg);
      list.appendChild(item);
    });
    var rest = rows.slice(BARS);
    box.replaceChildren(list);
    if (rest.length) { box.appendChild(make("p", "soft", "and " + digits(rest.length) + " more: " + amount(sum(rest, function (row) { return row[1]; })))); }
  }
  function named(names, pairs) {
    var sums = new Map();
    pairs.forEach(function (pair) { sums.set(pair[0], (sums.get(pair[0]) || 0) + pair[1]); });
    return Array.from(sums, function (one) { return [one[0] === null ? UNKNOWN : names[one[0]], one[1]]; });
  }
  function spent(run) { return total(classes(run.s)); }
  function projects(runs) { bars("by-project", named(data.projects, runs.map(function (run) { return [run.p, spent(run)]; }))); }
  function models(runs) { bars("by-model", named(data.models, all(runs, "y"))); }
  function tools(runs) { bars("by-tool", named(data.tools, all(runs, "x"))); }
  function dearest(runs) {
    bars("by-run", runs.map(function (run) {
      return [run.b, spent(run), find("run-" + run.at) ? "#run-" + run.at : run.link];
    }));
    find("groups").hidden = !find("groups").querySelector("div.part:not([hidden])");
  }

  function calls(runs) {
    var counted = runs.filter(function (run) { return !run.rows; }).map(function (run) { return run.n; });
    var limit = data.limit, most = Math.max(limit || 0, counted.reduce(function (a, b) { return Math.max(a, b); }, 0));
    if (counted.length < 2 || !most) { return picture("calls", null); }
    var span = Math.floor(most / COLUMNS) + 1, rows = [];
    for (var at = 0; at <= most; at += span) { rows.push({ label: String(at), parts: [0], more: span > 1 ? " (calls from " + at + ")" : "" }); }
    counted.forEach(function (count) { rows[Math.floor(count / span)].parts[0] += 1; });
    var of = { rows: rows, kinds: ["bar"], whole: true, say: function (value) { return digits(value); } };
    if (limit) { of.mark = limit / span + 0.5; of.text = "limit " + limit; }
    picture("calls", of);
  }

  function sums(runs) {
    var known = runs.filter(function (run) { return run.c !== null; });
    var unpriced = sum(runs, function (run) { return run.u; });
    var cost = known.length ? sum(known, function (run) { return run.c; }) : null;
    var lost = sum(runs, function (run) { return run.l ? total(run.l) : 0; });
    var wasted = sum(runs, function (run) { return run.w; });
    var tokens = sum(runs, function (run) { return run.i; });
    var more = unpriced && known.length ? "+" : "";
    var values = {
      spent: [money(cost) + more, unpriced ? count(unpriced, "turn") + " without a known price" : ""],
      lost: [money(known.length ? lost : null) + more, share(lost, cost) && share(lost, cost) + " of the money"],
      wasted: [money(wasted), !wasted ? "nothing in loops or silence" : share(wasted, cost) && share(wasted, cost) + " of the money, in loops and silence"],
      runs: [digits(runs.length), "of " + digits(data.runs.length)],
      turns: [digits(sum(runs, function (run) { return run.t; })), count(sum(runs, function (run) { return run.n; }), "tool call")],
      tokens: [tokens ? digits(tokens) : "?", digits(sum(runs, function (run) { return run.o; })) + " out"],
    };
    document.querySelectorAll(".report .cards > div").forEach(function (card) {
      var own = values[card.dataset.card];
      if (own) { card.children[1].textContent = own[0]; card.children[2].textContent = own[1]; }
    });
  }
  // Findings with their part of the chosen runs, and the runs themselves.
  function choose(runs) {
    var all = runs.length === data.runs.length, taken = new Set(runs.map(function (run) { return run.at; }));
    data.findings.forEach(function (pairs, at) {
      var node = find("finding-" + at), price = node.querySelector(".price");
      var own = pairs.filter(function (pair) { return taken.has(pair[0]); });
      node.hidden = !all && pairs.length > 0 && own.length === 0;
      price.dataset.all = price.dataset.all || price.textContent;
      var part = sum(own, function (pair) { return pair[1]; });
      price.textContent = all || !pairs.length || !part ? price.dataset.all : money(part) + " of " + price.dataset.all;
    });
    document.querySelectorAll(".report details.run").forEach(function (node) { node.hidden = !taken.has(Number(node.dataset.run)); });
    document.querySelectorAll(".report section.runs, .report section.found").forEach(function (section) {
      section.hidden = !section.querySelector("details.run:not([hidden]), li.finding:not([hidden])");
    });
    document.querySelectorAll(".report .of-all").forEach(function (node) { node.hidden = all; });
    if (cards) { find("cards").replaceChildren.apply(find("cards"), cards.map(function (card) { return card.cloneNode(true); })); }
    if (!all) { sums(runs); }
  }
  function chosen() {
    var form = find("choice");
    if (!form) { return data.runs; }
    var from = Date.parse(form.elements.from.value) / DAY, until = Date.parse(form.elements.until.value) / DAY;
    var project = form.elements.project.value, model = form.elements.model.value;
    return data.runs.filter(function (run) {
      return !(run.d === null ? from || until : run.d < from || run.d > until) &&
        (project === "" || String(run.p) === project) && (model === "" || run.m.indexOf(Number(model)) >= 0);
    });
  }
  // Draws the chosen runs; what an older choice has still to draw is given up.
  function plan() {
    var runs = chosen();
    pictures = [];
    find("nothing").hidden = runs.length > 0;
    waiting = [choose, whole, days, projects, models, tools, dearest, calls].map(function (step) {
      return function () { step(runs); };
    });
  }
  function show() {
    if (!data) { return; }
    clearTimeout(timer);
    plan();
    work();
  }
  // The choice of runs: only what there are several of can be chosen.
  function offer() {
    var form = find("choice"), known = data.runs.filter(function (run) { return run.d !== null; });
    if (!form) { return; }
    function fill(name, names) {
      var select = form.elements[name];
      names.forEach(function (text, at) { select.appendChild(new Option(text, at)); });
      select.closest("label").hidden = names.length < 2;
      return names.length > 1;
    }
    var first = known.reduce(function (a, run) { return Math.min(a, run.d); }, Infinity);
    var last = known.reduce(function (a, run) { return Math.max(a, run.d); }, -Infinity);
    ["from", "until"].forEach(function (name) {
      var input = form.elements[name];
      input.closest("label").hidden = !(last > first);
      if (last > first) { input.min = day(first); input.max = day(last); }
    });
    var projects = fill("project", data.projects), models = fill("model", data.models);
    form.hidden = !(projects || models || last > first);
    form.addEventListener("input", show);
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.addEventListener("reset", function () { setTimeout(show); });
  }
  addEventListener("resize", function () { pictures.forEach(function (one) { columns(one[0], one[1]); }); });
  addEventListener("hashchange", function () {
    var own = /^#run-\d+$/.test(location.hash) && find(location.hash.slice(1));
    if (own) { own.open = true; own.scrollIntoView(); }
  });
  return function () {
    var own = find("data");
    clearTimeout(timer);
    data = own && JSON.parse(own.textContent);
    if (!data) { return; }
    data.runs.forEach(function (run, at) { run.at = at; });
    cards = find("cards") && Array.from(find("cards").children, function (card) { return card.cloneNode(true); });
    waiting = [offer, plan];
    work();
  };
})();
