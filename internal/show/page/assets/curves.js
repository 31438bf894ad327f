// curves.js draws costs over a rate: measured points, the curve, and its two bands. For tare size and tare forecast.
"use strict";
globalThis.tareCurves = function (Plot, content) {
  const { base, amount, color, tips, levelAxis } = tareKit(Plot, content);
  const ids = content.curves.map((_, i) => "curve-" + (i + 1));
  function figure(id) {
    const c = content.curves[ids.indexOf(id)];
    if (!c) return null;
    const points = c.points.map(([x, y]) => ({ x, y, tip: `measured: ${amount(y)} at ${amount(x)}` }));
    const wanted = (c.wanted ?? []).map((w) => ({ ...w, tip: `${w.name ?? "wanted"}: ${amount(w.estimate)} at ${amount(w.x)}\naverage ${amount(w.low)} to ${amount(w.high)}\none more deployment ${amount(w.newLow)} to ${amount(w.newHigh)}` }));
    return {
      id, unlinked: c.unlinked, title: c.y.split(",")[0] + ": " + c.title,
      caption: `The line is the average deployment, which is in the dark band. One more deployment is in the light band. Each small mark is one measured trial. The line consists of ${c.about}.`,
      columns: ["what", c.x, c.y, "low", "high", "one more, low", "one more, high"],
      rows: [...wanted.map((w) => [w.name ?? "wanted", w.x, w.estimate, w.low, w.high, w.newLow, w.newHigh]), ...c.line.map((b) => ["curve", b.x, b.estimate, b.low, b.high, b.newLow, b.newHigh]), ...c.points.map(([x, y]) => ["measured", x, y])],
      panels: [{
        title: c.y,
        about: wanted.map((d) => d.tip.replaceAll("\n", ", ")).join("; "),
        legend: [{ text: "measured", symbol: "circle", color: color("series0"), hollow: true }, { text: "curve, with the bands of the average and of a new deployment", color: color("series1") }, ...(wanted.length ? [{ text: c.wanted[0].name ? "services" : "wanted", symbol: "diamond", color: color("series2") }] : [])],
        plot: (width) => ({
          ...base, width, height: 340, marginLeft: 62, marginTop: 14, insetLeft: 10, insetRight: 10, symbol: { legend: false },
          x: { ...levelAxis("rate", [...points.map((d) => d.x), ...c.line.map((b) => b.x)], width), ticks: [...new Set(points.map((d) => d.x))], label: c.x },
          y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount, ticks: 5 },
          marks: [
            Plot.areaY(c.line, { x: "x", y1: "newLow", y2: "newHigh", fill: color("series1"), fillOpacity: 0.12, className: "mark-new" }),
            Plot.areaY(c.line, { x: "x", y1: "low", y2: "high", fill: color("series1"), fillOpacity: 0.3, className: "mark-band" }),
            Plot.line(c.line, { x: "x", y: "estimate", stroke: color("series1"), strokeWidth: 2, className: "mark-line" }),
            Plot.dot(points, { x: "x", y: "y", r: 3, stroke: color("series0"), title: "tip", tip: tips, className: "mark-run" }),
            Plot.link(wanted, { x1: "x", x2: "x", y1: "newLow", y2: "newHigh", stroke: color("series2"), strokeWidth: 2, className: "mark-level-interval" }),
            Plot.dot(wanted, { x: "x", y: "estimate", r: 6, symbol: "diamond", fill: color("series2"), stroke: color("series2"), title: "tip", tip: tips, className: "mark-level" }),
          ],
        }),
      }],
    };
  }
  return { figure, ids, amount };
};
