// The figures of two runs compared, and of a series of runs.
"use strict";
globalThis.tareAcross = function (Plot, content) {
  const kit = tareKit(Plot, content), { base, known, changeUnit, titled, amount, signed, color, symbols, tips, rowLabels, rowAxis, rowsHigh } = kit;
  const { across, words } = content;
  const metrics = new Map(words.metrics.map((m) => [m.name, m]));
  const name = (id) => words.names[id] ?? id;

  function changes() {
    const rows = [], panels = [];
    for (const metric of words.shown) {
      const m = metrics.get(metric), data = [];
      if (!m) continue;
      across.changes.forEach((c, i) => {
        if (c.metric !== metric || !c.difference) return;
        const w = words.comparisons[i], k = m.scale;
        const d = {
          row: c.treatment, left: name(c.treatment), right: `${w.difference} ${w.interval}`.trim(), note: c.verdict === "higher" || c.verdict === "lower" ? "" : c.verdict,
          estimate: c.difference.estimate * k, low: c.difference.low * k, high: c.difference.high * k, shown: c.verdict === "higher" || c.verdict === "lower", control: !!c.control || !!c.reference,
          tip: `${name(c.treatment)}\n${m.title}: ${w.difference} ${w.interval}\n${w.ratio === "–" ? "" : `ratio ${w.ratio} ${w.ratioInterval}\n`}${w.verdict}`,
        };
        if (d.estimate === 0 && !known(d.low)) return;
        data.push(d);
        rows.push([name(c.treatment), m.title, m.unit, c.base * k, c.new * k, d.estimate, d.low, d.high, c.ratio?.estimate, w.verdict]);
      });
      if (!data.length) continue;
      panels.push({
        title: titled(m), about: `${m.title}: ` + data.map((d) => `${d.left} ${d.right}`).join("; "),
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length), y: rowAxis(data),
          x: { label: m.unit ? `change (${changeUnit(m.unit)})` : "change", labelAnchor: "center", labelArrow: "none", nice: true, ticks: Math.max(3, Math.round(width / 90)), tickFormat: signed },
          marks: [
            Plot.tickX(data, { x: () => 0, y: "row", insetTop: 21, stroke: "currentColor", strokeWidth: 1, className: "mark-zero" }),
            Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 2, className: "mark-interval", dy: 6 }),
            Plot.dot(data, { y: "row", x: "estimate", r: 5, dy: 6, strokeWidth: 2, symbol: (d) => (d.control ? "square" : "circle"), stroke: (d) => color(d.control ? "series0" : "series2"),
              fill: (d) => (d.shown ? color(d.control ? "series0" : "series2") : "var(--page)"), className: "mark-estimate", title: "tip", tip: tips }),
            ...rowLabels(data, width),
          ],
        }),
      });
    }
    return panels.length ? {
      id: "changes", title: "What changed: new run less base run",
      caption: `Difference of the means with ${across.confidence * 100} % intervals, over trials for one base run and over runs for several. Filled mark: a change is shown. Square: a baseline, which only the machine or the application moves.`,
      columns: ["treatment", "metric", "unit", "base", "new", "change", "low", "high", "ratio", "verdict"], rows, panels,
    } : null;
  }
  const makers = { changes };
  return { figure: (id, choices) => makers[id]?.(choices) ?? null, ids: Object.keys(makers).filter((id) => makers[id]()), amount };
};

globalThis.tareHistory = function (Plot, content) {
  const { base, known, amount, signed, color, tips } = tareKit(Plot, content);
  const { history, series } = content;
  const frame = { ...base, marginLeft: 62, marginRight: 16, marginTop: 22 };

  // segments are the means between change points.
  const segments = (s) => {
    const from = [0, ...s.changes.map((c) => s.runs.indexOf(c.run)), s.runs.length];
    return from.slice(1).map((end, i) => {
      const values = s.values.slice(from[i], end);
      return { from: s.runs[from[i]], to: s.runs[end - 1], mean: values.reduce((a, b) => a + b, 0) / values.length };
    }).filter((g) => g.to !== undefined);
  };

  function line(choices = {}) {
    if (!series.length) return null;
    const at = Math.min(Math.max(0, Number(choices.series) || 0), series.length - 1), s = series[at], k = s.scale;
    const data = s.values.map((v, i) => ({ run: s.runs[i] + 1, value: v * k, tip: `run ${s.runs[i] + 1}, ${history.runs[s.runs[i]].began.slice(0, 10)}\n${amount(v * k)} ${s.unit}\n${history.runs[s.runs[i]].dir}` }));
    const parts = segments(s).map((g) => ({ x1: g.from + 0.7, x2: g.to + 1.3, y: g.mean * k }));
    const changes = s.changes.map((c) => ({ run: c.run + 0.5, text: `${signed(((c.after - c.before) / c.before) * 100)} %`, tip: `run ${c.run + 1}: ${amount(c.before * k)} to ${amount(c.after * k)} ${s.unit}\np ${amount(c.p)}` }));
    const conditions = history.obstacles.filter((o) => s.runs.includes(o.run)).map((o) => ({ run: o.run + 0.5, tip: `run ${o.run + 1}: ${o.what ?? ""}` }));
    return {
      id: "history", title: "Run by run",
      caption: "One mark a run, with the mean of each stretch between change points. Solid vertical line: a change point. Dotted: a condition of the run changed.",
      columns: ["series", "unit", "run", "began", "directory", "value"],
      rows: s.values.map((v, i) => [s.title, s.unit, s.runs[i] + 1, history.runs[s.runs[i]].began, history.runs[s.runs[i]].dir, v * k]),
      options: [{ name: "series", label: "Series", value: String(at), values: series.map((x, i) => ({ value: String(i), label: x.title + (x.changes.length ? ` (${x.changes.length} changed)` : "") })) }],
      panels: [{
        title: s.unit ? `${s.title} (${s.unit})` : s.title, about: `${data.length} runs` + (changes.length ? "; changes: " + changes.map((c) => c.tip.replace("\n", ", ")).join("; ") : "; no change point"),
        plot: (width) => ({
          ...frame, width, height: 320,
          x: { label: "run, in order of time", labelAnchor: "center", labelArrow: "none", domain: [0.5, history.runs.length + 0.5], ticks: Math.min(history.runs.length, Math.round(width / 50)), tickFormat: (v) => (Number.isInteger(v) ? String(v) : "") },
          y: { label: null, grid: true, nice: true, tickFormat: amount },
          marks: [
            Plot.ruleX(conditions, { x: "run", stroke: "currentColor", strokeDasharray: "2 3", className: "mark-condition" }),
            Plot.ruleX(changes, { x: "run", stroke: color("bad"), strokeWidth: 2, className: "mark-change" }),
            Plot.text(changes, { x: "run", text: "text", frameAnchor: "top", dy: -14, fill: color("bad"), fontWeight: 600 }),
            Plot.link(parts, { x1: "x1", x2: "x2", y1: "y", y2: "y", stroke: "currentColor", strokeWidth: 2, className: "mark-mean" }),
            Plot.dot(data, { x: "run", y: "value", r: 4, fill: color("series2"), stroke: "var(--page)", title: "tip", tip: tips, className: "mark-run" }),
          ],
        }),
      }],
    };
  }
  const makers = { history: line };
  return { figure: (id, choices) => makers[id]?.(choices) ?? null, ids: Object.keys(makers).filter((id) => makers[id]()), amount };
};
