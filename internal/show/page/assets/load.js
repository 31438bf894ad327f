// The figures of one load.
"use strict";
globalThis.tareLoad = function (Plot, content) {
  const { base, known, amount, color, tips, rowLabels, rowAxis, rowsHigh } = tareKit(Plot, content);
  const { load } = content;
  const times = load.closed ? "service time" : "response time";
  const frame = { ...base, marginLeft: 62, marginRight: 16, marginTop: 24 };

  function percentiles() {
    const data = load.quantiles ?? [];
    if (!data.length) return null;
    const rows = data.map((q) => ({ row: q.name, left: q.name, right: amount(q.ms) + " ms", ms: q.ms }));
    const bars = (load.histogram ?? []).map((b, i, all) => ({ from: i ? all[i - 1].to_ms : b.to_ms / 1.5, to: b.to_ms, count: b.count, tip: `up to ${amount(b.to_ms)} ms\n${amount(b.count)} requests` }));
    const panels = [{
      title: `${times[0].toUpperCase()}${times.slice(1)} by percentile (ms)`, about: rows.map((d) => `${d.left} ${d.right}`).join("; "),
      plot: (width) => ({
        ...base, width, height: rowsHigh(rows.length), y: rowAxis(rows), x: { type: "log", label: "ms", labelAnchor: "center", labelArrow: "none", nice: true, ticks: Math.max(2, Math.round(width / 140)), tickFormat: amount },
        marks: [
          Plot.link(rows, { y1: "row", y2: "row", x1: () => rows[0].ms, x2: "ms", stroke: color("series1"), strokeWidth: 2, dy: 6 }),
          Plot.dot(rows, { y: "row", x: "ms", r: 5, dy: 6, fill: color("series1"), className: "mark-estimate", title: (d) => `${d.left}: ${d.right}`, tip: tips }),
          ...rowLabels(rows, width),
        ],
      }),
    }];
    if (bars.length) panels.push({
      title: "Requests by response time", about: bars.map((b) => b.tip.replace("\n", ": ")).join("; "),
      plot: (width) => ({
        ...frame, width, height: 300,
        x: { type: "log", label: "ms", labelAnchor: "center", labelArrow: "none", ticks: Math.max(2, Math.round(width / 140)), tickFormat: amount },
        y: { label: "requests", grid: true, tickFormat: amount, nice: true },
        marks: [Plot.rectX(bars, { x1: "from", x2: "to", y1: () => 0, y2: "count", insetLeft: 0.5, insetRight: 0.5, fill: color("series1"), title: "tip", tip: tips }), Plot.ruleY([0], { stroke: "currentColor" })],
      }),
    });
    return {
      id: "times", title: "How long requests took", caption: `The ${times} of successful requests${load.closed ? ", from the send" : ", from the intended start"}, in the measure window. Axes are logarithmic.`,
      columns: ["percentile", "ms"], rows: data.map((q) => [q.name, q.ms]), panels,
    };
  }

  function seconds() {
    const data = (load.seconds ?? []).filter((s) => s.phase === "measure");
    if (data.length < 2) return null;
    const t0 = data[0].second, at = data.map((s) => ({ t: s.second - t0 + 1, rate: s.completed, errors: s.errors, p50: s.p50_ms, p99: s.p99_ms }));
    const x = { label: "second of the measure window", labelAnchor: "center", labelArrow: "none", domain: [1, at.length] };
    const legend = [{ text: "p50", color: color("series1") }, { text: "p99", color: color("series2"), dashed: true }];
    const panels = [{
      title: "Answers per second", about: `${amount(Math.min(...at.map((d) => d.rate)))} to ${amount(Math.max(...at.map((d) => d.rate)))}`,
      legend: at.some((d) => d.errors) ? [{ text: "answers", color: color("series1") }, { text: "failed", color: color("series2"), dashed: true }] : undefined,
      plot: (width) => ({
        ...frame, width, height: 240, x: { ...x, ticks: Math.max(2, Math.round(width / 90)) }, y: { label: "per second", grid: true, zero: true, nice: true, tickFormat: amount },
        marks: [
          Plot.line(at, { x: "t", y: "rate", stroke: color("series1"), strokeWidth: 2 }),
          ...(at.some((d) => d.errors) ? [Plot.line(at, { x: "t", y: "errors", stroke: color("series2"), strokeWidth: 2, strokeDasharray: "4 3" })] : []),
          Plot.dot(at, { x: "t", y: "rate", r: at.length > 90 ? 1 : 2.5, fill: color("series1"), title: (d) => `second ${d.t}\n${amount(d.rate)} answers, ${amount(d.errors)} failed`, tip: tips }),
          Plot.ruleY([0], { stroke: "currentColor" }),
        ],
      }),
    }];
    const timed = at.filter((d) => known(d.p50) && d.p50 > 0);
    if (timed.length > 1) panels.push({
      title: "Response time (ms)", about: `p99 ${amount(Math.min(...timed.map((d) => d.p99)))} to ${amount(Math.max(...timed.map((d) => d.p99)))} ms`, legend,
      plot: (width) => ({
        ...frame, width, height: 240, x: { ...x, ticks: Math.max(2, Math.round(width / 90)) }, y: { type: "log", label: "ms", grid: true, nice: true, ticks: 4, tickFormat: amount },
        marks: [
          Plot.line(timed, { x: "t", y: "p50", stroke: color("series1"), strokeWidth: 2 }),
          Plot.line(timed, { x: "t", y: "p99", stroke: color("series2"), strokeWidth: 2, strokeDasharray: "4 3" }),
          Plot.dot(timed, { x: "t", y: "p99", r: at.length > 90 ? 1 : 2.5, fill: color("series2"), title: (d) => `second ${d.t}\np50 ${amount(d.p50)} ms, p99 ${amount(d.p99)} ms`, tip: tips }),
        ],
      }),
    });
    return {
      id: "seconds", title: "Second by second", caption: "Answers and times of requests by the second in which they ended.",
      columns: ["second", "answers", "failed", "p50 ms", "p99 ms"], rows: at.map((d) => [d.t, d.rate, d.errors, d.p50, d.p99]), panels,
    };
  }

  function urls() {
    const data = (load.routes ?? []).filter((r) => r.p50 > 0).map((r) => ({ ...r, row: r.name, left: r.name.length > 46 ? r.name.slice(0, 45) + "…" : r.name, right: `${amount(r.p50)}, p99 ${amount(r.p99)}`, note: r.failed ? `${amount(r.failed)} failed` : "" }));
    if (!data.length) return null;
    return {
      id: "urls", title: "By URL", caption: "Median and 99th percentile of the response time of successful requests, the most frequent URL first.",
      columns: ["URL", "requests", "failed", "p50 ms", "p95 ms", "p99 ms"], rows: load.routes.map((r) => [r.name, r.requests, r.failed, r.p50, r.p95, r.p99]),
      panels: [{
        title: "Response time (ms)", about: data.map((d) => `${d.name}: ${d.right}`).join("; "),
        legend: [{ text: "p50", color: color("series1"), symbol: "circle" }, { text: "p99", color: color("series2"), symbol: "square" }],
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length), y: rowAxis(data), symbol: { legend: false }, x: { type: "log", label: "ms", labelAnchor: "center", labelArrow: "none", nice: true, ticks: Math.max(2, Math.round(width / 140)), tickFormat: amount },
          marks: [
            Plot.link(data, { y1: "row", y2: "row", x1: "p50", x2: "p99", stroke: "currentColor", strokeWidth: 2, dy: 6 }),
            Plot.dot(data, { y: "row", x: "p50", r: 5, dy: 6, fill: color("series1"), title: (d) => `${d.name}\np50 ${amount(d.p50)} ms`, tip: tips }),
            Plot.dot(data, { y: "row", x: "p99", r: 5, dy: 6, symbol: "square", fill: color("series2"), title: (d) => `${d.name}\np99 ${amount(d.p99)} ms`, tip: tips }),
            ...rowLabels(data, width),
          ],
        }),
      }],
    };
  }

  const makers = { times: percentiles, seconds, urls };
  return { figure: (id, choices) => makers[id]?.(choices) ?? null, ids: Object.keys(makers).filter((id) => makers[id]()), amount };
};
