// runs.js draws many runs of one experiment.
"use strict";
globalThis.tareRuns = function (Plot, content) {
  const { base, known, titled, amount, signed, color, tips, rowLabels, rowAxis, rowsHigh } = tareKit(Plot, content);
  const { runs } = content;

  function differences(choices = {}) {
    const offered = runs.metrics.filter((m) => runs.list.some((r) => r.differences.some((d) => d.metric === m.name && !d.control)));
    if (!offered.length) return null;
    const m = offered.find((x) => x.name === choices.metric) ?? offered[0], k = m.scale;
    const rows = [], panels = [];
    for (const t of runs.treatments) {
      const data = [];
      runs.list.forEach((r, i) => {
        const d = r.differences.find((x) => x.metric === m.name && x.treatment === t.id && !x.control);
        if (!d) return;
        const floor = r.differences.find((x) => x.metric === m.name && x.control && known(x.low));
        const shown = d.verdict === "higher" || d.verdict === "lower";
        data.push({ row: String(i), left: `${i + 1}: ${r.name}`, right: d.text, note: shown ? "" : d.verdict, estimate: d.estimate * k, low: d.low * k, high: d.high * k, shown,
          floorLow: floor?.low * k, floorHigh: floor?.high * k, tip: `${r.name}\n${r.began.slice(0, 10)}\n${t.name}: ${d.text}\n${d.verdict}` });
        rows.push([i + 1, r.name, r.began, t.name, m.title, m.unit, d.estimate * k, d.low * k, d.high * k, d.verdict]);
      });
      if (!data.length) continue;
      panels.push({
        title: `${t.name}: ${titled(m)}`, about: data.map((d) => `${d.left} ${d.right}`).join("; "),
        legend: data.some((d) => known(d.floorLow)) ? [{ text: "baseline against itself", color: color("noise") }] : undefined,
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length), y: rowAxis(data),
          x: { label: m.unit ? `difference (${m.unit})` : "difference", labelAnchor: "center", labelArrow: "none", nice: true, ticks: Math.max(3, Math.round(width / 90)), tickFormat: signed },
          marks: [
            Plot.barX(data.filter((d) => known(d.floorLow)), { y: "row", x1: "floorLow", x2: "floorHigh", insetTop: 21, fill: color("noise"), className: "mark-noise" }),
            Plot.tickX(data, { x: () => 0, y: "row", insetTop: 21, stroke: "currentColor", strokeWidth: 1, className: "mark-zero" }),
            Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 2, className: "mark-interval", dy: 6 }),
            Plot.dot(data, { y: "row", x: "estimate", r: 5, dy: 6, strokeWidth: 2, stroke: color("series2"), fill: (d) => (d.shown ? color("series2") : "var(--page)"), className: "mark-estimate", title: "tip", tip: tips }),
            ...rowLabels(data, width),
          ],
        }),
      });
    }
    return {
      id: "runs", title: "Each run: difference to the baseline",
      caption: `One row a run, in order of time, with ${runs.confidence * 100} % intervals. Filled: a difference is shown. Shaded: the same run's baseline against itself.`,
      columns: ["run", "directory", "began", "treatment", "metric", "unit", "difference", "low", "high", "verdict"], rows, panels,
      options: [{ name: "metric", label: "Metric", value: m.name, values: offered.map((x) => ({ value: x.name, label: x.title })) }],
    };
  }
  const makers = { runs: differences };
  return { figure: (id, choices) => makers[id]?.(choices) ?? null, ids: Object.keys(makers).filter((id) => makers[id]()?.panels.length), amount };
};
