
"use strict";
// Draws what stands in #data, again whenever it is called.
var softlandReport = (function () {
  var data = null, plots = [];
  function colour(name) {
    return getComputedStyle(document.querySelector(".report")).getPropertyValue(name).trim();
  }
  function axes(unit) {
    var ink = colour("--soft"), line = colour("--line");
    var axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    var money = function (u, values) {
      return values.map(function (value) { return "$" + value; });
    };
    var across = Object.assign({}, axis), up = Object.assign({ size: 70 }, axis);
    if (unit === "money") { up.values = money; }
    return [across, up];
  }
  function bars(name, label, width) {
    return {
      label: label, stroke: colour(name), fill: colour(name), points: { show: false },
      paths: uPlot.paths.bars({ size: [width, 60] }),
    };
  }
  function size(box) { return { width: Math.max(240, box.clientWidth), height: 260 }; }
  function draw(id, options, rows) {
    var box = document.getElementById(id);
    if (!box || !rows[0].length) { return; }
    box.textContent = "";
    plots.push([box, new uPlot(Object.assign(size(box), options), rows, box)]);
  }
  function spend() {
    var of = data.spend, half = of.hours * 1800;
    var first = of.at[0] - half, last = of.at[of.at.length - 1] + half;
    draw("spend", {
      axes: axes("money"),
      scales: { x: { range: function () { return [first, last]; } },
                y: { range: function (u, low, high) { return [0, high * 1.05 || 1]; } } },
      series: [{ label: "From" }, bars("--all", "Spent", 0.8), bars("--waste", "Wasted", 0.8)],
    }, [of.at, of.spent, of.wasted]);
  }
  // Runs and calls are whole: ticks stand at whole numbers, few of them, and none below nought.
  function whole(axis, space) {
    var steps = [];
    for (var ten = 1; ten < 1e12; ten *= 10) { steps.push(ten, 2 * ten, 5 * ten); }
    return Object.assign(axis, {
      incrs: steps, space: space,
      values: function (u, splits) { return splits.map(function (at) { return at === null ? "" : String(at); }); },
      filter: function (u, splits) { return splits.map(function (at) { return at < 0 || at % 1 ? null : at; }); },
    });
  }
  function calls() {
    var of = data.calls;
    var both = axes("runs");
    var last = Math.max(of.limit || 0, of.at.length ? of.at[of.at.length - 1] : 0);
    draw("calls", {
      axes: [whole(both[0], 80), whole(both[1], 50)],
      scales: { x: { time: false, range: function () { return [-of.width, last + 2 * of.width]; } },
                y: { range: function (u, low, high) { return [0, high * 1.05 || 1]; } } },
      series: [{ label: of.width > 1 ? "Calls from" : "Calls" }, bars("--all", "Runs", 0.8)],
      hooks: { draw: [function (u) {
        if (of.limit === null) { return; }
        var x = u.valToPos(of.limit, "x", true), ctx = u.ctx, box = u.bbox;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = colour("--limit");
        ctx.lineWidth = 2 * devicePixelRatio;
        ctx.setLineDash([6, 4]);
        ctx.beginPath();
        ctx.moveTo(x, box.top);
        ctx.lineTo(x, box.top + box.height);
        ctx.stroke();
        ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
        ctx.textAlign = "right";
        ctx.fillText("limit " + of.limit + " ", x, box.top + 14 * devicePixelRatio);
        ctx.restore();
      }] },
    }, [of.at, of.runs]);
  }
  function all() {
    plots.forEach(function (plot) { plot[1].destroy(); });
    plots = [];
    if (!data) { return; }
    spend();
    calls();
  }
  addEventListener("resize", function () {
    plots.forEach(function (plot) { plot[1].setSize(size(plot[0])); });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  return function () {
    var own = document.getElementById("data");
    data = own && JSON.parse(own.textContent);
    all();
  };
})();
