// capacity.js draws latency against rate, with the line of an objective: of a run with several rates, and of a
// search for the highest rate.
"use strict";
globalThis.tareCapacity = function (Plot, kit) {
  const { base, known, amount, color, tips } = kit;
  const units = { us: 0.001, "µs": 0.001, ms: 1, s: 1000 };
  // limits of response times among conditions such as "p99 < 50ms, errors < 0.1%", in ms.
  const limits = (conditions) => [...new Set(conditions.flatMap((c) => c.split(",")).map((c) => c.trim()))].flatMap((text) => {
    const m = /^p(\d+(?:\.\d+)?)\s*<=?\s*(\d+(?:\.\d+)?)\s*(us|µs|ms|s)$/.exec(text);
    return m ? [{ part: "p" + m[1], ms: Number(m[2]) * units[m[3]], text }] : [];
  });
  const frame = { ...base, marginLeft: 58, marginRight: 28, marginTop: 18, insetLeft: 8, insetRight: 8, height: 340 };
  const xAxis = (width) => ({ type: "log", label: "requests per second (logarithmic)", labelAnchor: "center", labelArrow: "none", ticks: Math.max(2, Math.round(width / 160)), tickFormat: amount });
  const yAxis = { type: "log", label: null, grid: true, nice: true, tickFormat: amount, ticks: 5 };
  const objective = (lines) => [
    Plot.ruleY(lines, { y: "ms", stroke: color("bad"), strokeWidth: 2, strokeDasharray: "6 3", className: "mark-objective" }),
    Plot.text(lines, { y: "ms", text: "text", frameAnchor: "left", textAnchor: "start", dx: 4, dy: -8, fill: color("bad"), fontWeight: 600 }),
  ];

  // sweep has a line for each treatment but its rate.
  function sweep({ report, families, look, name, legendOf, choices }) {
    const key = (f) => JSON.stringify(Object.entries(f).filter(([k]) => k !== "rate").sort());
    const of = report.treatments.filter((t) => !t.control && typeof t.factors.rate === "number");
    const lines = new Map();
    for (const t of of) lines.set(key(t.factors), [...(lines.get(key(t.factors)) ?? []), t]);
    for (const [k, all] of lines) if (new Set(all.map((t) => t.factors.rate)).size < 2) lines.delete(k);
    if (!lines.size) return null;
    const slo = limits((report.expectations ?? []).map((e) => e.expect));
    const percentile = (t, part) => t.metrics[`${families.response.name}/${part}`];
    const parts = ["p50", "p90", "p99", "p99.9"].filter((p) => of.some((t) => percentile(t, p)?.estimate > 0));
    if (!parts.length) return null;
    const wanted = slo.find((l) => parts.includes(l.part))?.part ?? "p99";
    const part = parts.includes(choices.part) ? choices.part : parts.includes(wanted) ? wanted : parts[0];
    const data = [], rows = [], ids = [];
    for (const [k, all] of lines) {
      const label = Object.entries(all[0].factors).filter(([f]) => f !== "rate" && (f === "mesh" || lines.size > new Set(of.map((t) => t.factors.mesh)).size)).map(([f, v]) => (f === "mesh" ? kit.meshName(v) : `${f} ${v}`)).join(", ") || name(all[0].id);
      ids.push({ id: all[0].id, label });
      for (const t of all.slice().sort((a, b) => a.factors.rate - b.factors.rate)) {
        const e = percentile(t, part);
        if (!e || !(e.estimate > 0)) continue;
        const answered = t.metrics[families.answered]?.estimate ?? t.factors.rate;
        data.push({ line: k, id: all[0].id, x: t.factors.rate, y: e.estimate, low: known(e.low) ? Math.max(e.low, e.estimate / 20) : undefined, high: e.high, tip: `${label}\n${amount(t.factors.rate)} /s asked, ${amount(answered)} answered\n${part} ${amount(e.estimate)} ms` });
        rows.push([label, t.factors.rate, answered, part, e.estimate, e.low, e.high]);
      }
    }
    const drawn = slo.filter((l) => l.part === part);
    return {
      id: "capacity", title: "Capacity: response time against rate",
      caption: "Means over trials at each target rate, with their bands." + (drawn.length ? " Dashed: the objective of the experiment's expect." : slo.length ? "" : " The experiment has no objective of response times."),
      columns: ["treatment", "target rate /s", "rate answered /s", "percentile", "ms", "low", "high"], rows,
      options: [{ name: "part", label: "Percentile", value: part, values: parts.map((p) => ({ value: p, label: p })) }],
      panels: [{
        title: `response time, ${part} (ms, logarithmic)`, legend: ids.map(({ id, label }) => ({ ...legendOf([id])[0], text: label })),
        about: data.map((d) => d.tip.replaceAll("\n", ", ")).join("; "),
        plot: (width) => ({
          ...frame, width, x: xAxis(width), y: yAxis,
          marks: [
            Plot.areaY(data.filter((d) => known(d.low)), { x: "x", y1: "low", y2: "high", z: "line", fill: (d) => look(d.id).color, fillOpacity: 0.18, className: "mark-band" }),
            Plot.line(data, { x: "x", y: "y", z: "line", stroke: (d) => look(d.id).color, strokeWidth: 2, className: "mark-line" }),
            Plot.dot(data, { x: "x", y: "y", r: 4.5, symbol: (d) => look(d.id).symbol, stroke: (d) => look(d.id).color, fill: (d) => look(d.id).color, title: "tip", tip: tips, className: "mark-rate" }),
            ...objective(drawn),
          ],
        }),
      }],
    };
  }

  // bandOf is the interval of the highest rate. Without a probe that misses it has no upper end.
  const bandOf = (found, probes) => {
    if (!known(found.low) || !(found.low > 0)) return [];
    if (found.open === "above") return [{ low: found.low, high: Math.max(found.low * 1.02, ...probes.map((p) => p.x)), at: found.low, text: `highest rate: ${amount(found.low)} /s or more` }];
    return !found.open && found.high > found.low ? [{ low: found.low, high: found.high, at: found.rate, text: "highest rate, 95 % interval" }] : [];
  };
  const captions = {
    "": "The line is the highest rate that did, the shade its interval.",
    above: "No probe missed it, so the highest rate has a lower end only.",
    below: "Every probe missed it, so there is no rate with it.",
  };

  // search has a mark for each probe.
  function search(found) {
    const outcomes = { kept: ["circle", "series2", true], missed: ["times", "bad", false], undecided: ["diamond", "muted", false] };
    const probes = found.probes.map((p, i) => ({ ...p, nth: i + 1, outcome: p.undecided ? "undecided" : p.holds ? "kept" : "missed" }));
    if (!probes.length) return null;
    const slo = limits([found.objective]);
    const panels = ["p99", "p50"].flatMap((part) => {
      const data = probes.filter((p) => p[part + "_ms"] > 0).map((p) => ({ x: p.rate, y: p[part + "_ms"], outcome: p.outcome, tip: `probe ${p.nth}: ${p.outcome}\n${amount(p.rate)} /s asked, ${amount(p.answered)} answered\np50 ${amount(p.p50_ms)} ms, p99 ${amount(p.p99_ms)} ms, errors ${amount(p.errors * 100)} %` }));
      if (!data.length) return [];
      const band = bandOf(found, data);
      return [{
        title: `response time, ${part} (ms, logarithmic)`, about: `${data.length} probes` + (found.open === "above" ? `; ${amount(found.low)} requests per second or more` : known(found.rate) && !found.open ? `; ${amount(found.rate)} requests per second, ${amount(found.low)} to ${amount(found.high)}` : ""),
        legend: Object.entries(outcomes).filter(([o]) => data.some((d) => d.outcome === o)).map(([o, [symbol, role, filled]]) => ({ text: o, symbol, color: color(role), hollow: !filled })).concat(band.map((b) => ({ text: b.text, color: color("noise") }))),
        plot: (width) => ({
          ...frame, width, x: xAxis(width), y: yAxis, symbol: { legend: false },
          marks: [
            Plot.rectX(band, { x1: "low", x2: "high", fill: color("noise"), fillOpacity: 0.8, className: "mark-highest" }),
            Plot.ruleX(band, { x: "at", stroke: "currentColor" }),
            Plot.dot(data, { x: "x", y: "y", r: 5, strokeWidth: 2, symbol: (d) => outcomes[d.outcome][0], stroke: (d) => color(outcomes[d.outcome][1]), fill: (d) => (outcomes[d.outcome][2] ? color(outcomes[d.outcome][1]) : "none"), title: "tip", tip: tips, className: "mark-probe" }),
            ...objective(slo.filter((l) => l.part === part)),
          ],
        }),
      }];
    });
    return {
      id: "capacity", title: "Capacity: response time against rate",
      caption: `Each mark is a test of one rate: did it keep ${found.objective}? ` + (captions[found.open ?? ""] ?? captions[""]),
      columns: ["probe", "target rate /s", "rate answered /s", "p50 ms", "p99 ms", "errors %", "seconds", "objective"],
      rows: probes.map((p) => [p.nth, p.rate, p.answered, p.p50_ms, p.p99_ms, p.errors * 100, p.seconds, p.undecided ? `undecided: ${p.undecided}` : p.outcome]), panels,
    };
  }
  return { sweep, search };
};
