// Parts of figures that need more than the report: slices, latency over time, the band of a line, and
// the looks of a sequential test.
"use strict";
globalThis.tareDataFigures = function ({ Plot, content, base, known, amount, signed, color, look, legendOf, name, titled, tips, rowLabels, rowsHigh, rowAxis }) {
  const { report, words } = content;
  const frame = { ...base, marginLeft: 58, marginRight: 12, marginTop: 14 };
  const x = (label, width) => ({ label, labelAnchor: "center", labelArrow: "none", ticks: Math.max(3, Math.round(width / 90)), tickFormat: amount });

  // slices of one block: CPU per request while each treatment had the load.
  function slices(chosen) {
    const all = content.slices ?? [];
    if (!all.length) return null;
    const blocks = [...new Set(all.map((s) => s.block))];
    const block = blocks.includes(Number(chosen)) ? Number(chosen) : blocks[0];
    const series = all.filter((s) => s.block === block);
    const data = series.flatMap((s) => s.us.map((us, i) => ({ treatment: s.treatment, slice: i + 1, us, tip: `${name(s.treatment)}, slice ${i + 1}\n${amount(us)} µs per request` })).filter((d) => known(d.us)));
    if (!data.length) return null;
    // Of more than four treatments each baseline has a panel of its own, with what is compared with it.
    const baseOf = (id) => report.treatments.find((t) => t.id === id)?.baseline || id;
    const groups = series.length > 4 ? [...new Set(series.map((s) => baseOf(s.treatment)))] : [null];
    return {
      table: { id: "slices", title: `CPU per request in each slice of block ${block}`, columns: ["treatment", "slice", "µs per request"], rows: data.map((d) => [name(d.treatment), d.slice, d.us]) },
      options: [{ name: "block", label: "Slices of block", value: String(block), values: blocks.map((b) => ({ value: String(b), label: String(b) })) }],
      panels: groups.map((group) => {
        const own = data.filter((d) => group === null || baseOf(d.treatment) === group);
        return {
          title: `CPU per request in each slice of block ${block} (µs)${group === null ? "" : `, against ${name(group)}`}`, legend: legendOf([...new Set(own.map((d) => d.treatment))]),
          about: `${own.length} slices of ${new Set(own.map((d) => d.treatment)).size} treatments`,
          plot: (width) => ({
            ...frame, width, height: 280,
            x: x("slice of the treatment, in order of time", width), y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount },
            marks: [
              Plot.line(own, { x: "slice", y: "us", z: "treatment", stroke: (d) => look(d.treatment).color, strokeOpacity: 0.35, className: "mark-slices" }),
              Plot.dot(own, { x: "slice", y: "us", r: 2.5, symbol: (d) => look(d.treatment).symbol, stroke: (d) => look(d.treatment).color, fill: (d) => (look(d.treatment).hollow ? "var(--page)" : look(d.treatment).color), title: "tip", tip: tips, className: "mark-slice" }),
            ],
          }),
        };
      }),
    };
  }

  // heat is the distribution of response times in each second of one trial.
  function heat(chosen) {
    const all = (content.heat ?? []).filter((h) => new Set(h.cells.map((c) => c[0])).size > 1); // one second shows no course
    if (!all.length) return null;
    const of = all.find((h) => h.trial === chosen) ?? all.find((h) => { const t = report.treatments.find((t) => t.id === h.treatment); return t?.baseline && !t.control; }) ?? all[0];
    const most = Math.max(...of.cells.map((c) => c[2]));
    const cells = of.cells.map(([second, bin, n]) => ({ x1: second, x2: second + 1, y1: of.from * 10 ** (bin / of.perDecade), y2: of.from * 10 ** ((bin + 1) / of.perDecade), n, share: Math.log(1 + n) / Math.log(1 + most) }));
    for (const c of cells) c.tip = `second ${c.x1}\n${amount(c.y1)} to ${amount(c.y2)} ms: ${amount(c.n)} answers`;
    return {
      table: { id: "times", title: `Response times of ${of.trial} over seconds`, columns: ["second", "from ms", "to ms", "answers"], rows: cells.map((c) => [c.x1, c.y1, c.y2, c.n]) },
      options: [{ name: "trial", label: "Times of trial", value: of.trial, values: all.map((h) => ({ value: h.trial, label: h.trial })) }],
      panel: {
        title: `response times of ${of.trial} (ms, over seconds)`, about: `answers by second and response time; the darker, the more, up to ${amount(most)}`,
        legend: [1, 0.5, 0.15].map((share) => ({ text: `${amount(Math.max(1, Math.round((1 + most) ** share - 1)))} answers`, color: color("heat" + (share === 1 ? 3 : share === 0.5 ? 2 : 1)) })),
        plot: (width) => ({
          ...frame, width, height: 340,
          x: x("seconds from the start of the load", width), y: { type: "log", label: null, grid: true, tickFormat: amount, ticks: 5 },
          marks: [Plot.rectX(cells, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", inset: 0, fill: color("series2"), fillOpacity: (c) => 0.08 + 0.92 * c.share, title: "tip", tip: tips, className: "mark-heat" })],
        }),
      },
    };
  }

  // band of a line: the interval of the mean at each level. The half widths of intercept and slope, in units of the
  // figure, give it, since both have the same deviation and degrees of freedom.
  const halfOf = (i, k) => (known(i.high) ? ((i.high - i.low) / 2) * k : undefined);
  function band(l, fixed, slope, at, more) {
    const middle = l.middle;
    if (!known(fixed) || !known(slope) || !known(middle)) return [];
    const least = Math.max(0, fixed ** 2 - (middle * slope) ** 2);
    return Array.from({ length: 41 }, (_, i) => {
      const x = l.from + ((l.to - l.from) * i) / 40, w = Math.sqrt(least + ((x - middle) * slope) ** 2);
      return { ...more, x, low: at(x) - w, high: at(x) + w };
    });
  }

  // slopes draws a figure of each trial over the items of a background, with the fitted lines.
  function slopes(choices = {}) {
    const all = (report.slopes ?? []).filter((s) => s.option.startsWith("background"));
    if (!all.length) return null;
    const pick = (of, chosen) => (of.includes(chosen) ? chosen : of[0]);
    const options = [...new Set(all.map((s) => s.option))], option = pick(options, choices.items);
    const names = [...new Set(all.filter((s) => s.option === option).map((s) => s.metric))], chosen = pick(names, choices.metric);
    const lines = all.filter((s) => s.option === option && s.metric === chosen), m = words.metrics.find((w) => w.name === chosen);
    const scale = m?.scale ?? 1, unit = m?.unit ? ` (${m.unit})` : "";
    const of = (s) => [s.mesh, ...Object.entries(s.factors).filter(([f, v]) => report.treatments.some((t) => String(t.factors[f]) !== String(v))).map(([f, v]) => `${f} ${v}`)].join(", ");
    const mine = (s, f) => Object.entries({ mesh: s.mesh, ...s.factors }).every(([k, v]) => !(k in f) || String(f[k]) === String(v));
    const hue = (s) => color("series" + (1 + (lines.indexOf(s) % 5)));
    const points = [], fits = [], bands = [], rows = [];
    for (const s of lines) {
      const at = (x) => (s.none.estimate + s.per_item.estimate * x) * scale, line = of(s);
      if (!s.warnings?.length) {
        fits.push({ line, hue: hue(s), x: s.from, y: at(s.from) }, { line, hue: hue(s), x: s.to, y: at(s.to) });
        bands.push(...band(s, halfOf(s.none, scale), halfOf(s.per_item, scale), at, { line, hue: hue(s) }));
      }
      for (const t of report.trials) {
        const x = Number.parseFloat(t.factors[option]), v = t.metrics[chosen];
        if (!t.valid || t.control || !mine(s, t.factors) || !Number.isFinite(x) || !known(v)) continue;
        points.push({ line, hue: hue(s), x, y: v * scale, tip: `${t.id}\n${option} ${amount(x)}: ${amount(v * scale)}${unit}` });
        rows.push([line, t.id, x, v * scale, at(x)]);
      }
    }
    const frame = { ...base, marginLeft: 58, marginTop: 14, height: 300 };
    return {
      id: "slopes", title: `Cost of each item: ${option}`,
      caption: `A mark is a trial. The line and its ${report.confidence * 100} % band are the fit over the number of items; a line that trials do not follow is not drawn.`,
      columns: ["line", "trial", option, `${chosen}${unit}`, `line${unit}`], rows,
      options: [{ name: "items", label: "Items", value: option, values: options.map((o) => ({ value: o, label: o })) },
        { name: "metric", label: "Metric", value: chosen, values: names.map((n) => ({ value: n, label: words.metrics.find((w) => w.name === n)?.title ?? n })) }],
      panels: [{ title: `${m?.title ?? chosen}${unit}`, legend: lines.map((s) => ({ text: of(s), color: hue(s) })),
        about: lines.map((s) => `${of(s)}: ${amount(s.none.estimate * scale)} without, and ${amount(s.per_item.estimate * scale)} for each item`).join("; "),
        plot: (width) => ({ ...frame, width, x: { label: option, labelAnchor: "center", labelArrow: "none", tickFormat: amount, ticks: Math.max(3, Math.round(width / 90)), nice: true, zero: true }, y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount },
          marks: [Plot.areaY(bands, { x: "x", y1: "low", y2: "high", z: "line", fill: "hue", fillOpacity: 0.18, className: "mark-band" }), Plot.line(fits, { x: "x", y: "y", z: "line", stroke: "hue", strokeWidth: 2, className: "mark-fit" }),
            Plot.dot(points, { x: "x", y: "y", r: 4, stroke: "hue", fill: "hue", title: "tip", tip: tips, className: "mark-trial" })] }) }],
    };
  }

  // references are published costs of one proxy at a rate, for orientation.
  const published = (part, lines) => (part === "data" ? (content.references ?? []).filter((r) => r.rate <= 2 * Math.max(...lines.map((l) => l.to))) : []);
  function references(part, lines) {
    const data = published(part, lines);
    return [
      Plot.dot(data, { x: "rate", y: "millicores", symbol: "star", r: 6, stroke: "currentColor", fill: "var(--page)", title: (r) => `${r.who}: ${r.what}\n${amount(r.millicores)} mC at ${amount(r.rate)} /s\n${r.conditions}`, tip: tips, className: "mark-reference" }),
      Plot.text(data, { x: "rate", y: "millicores", text: "who", dx: -10, fill: "currentColor", textAnchor: "end" }),
    ];
  }
  const referenceNote = (part, lines) => (published(part, lines).length ? " Stars: published figures of one proxy, measured under other conditions." : "");

  // 7. looks of the sequential test of a gate, against its limit.
  function boundary(choices = {}) {
    const all = content.looks ?? [];
    if (!all.length) return null;
    const nth = Math.min(Math.max(0, Number(choices.gate) || 0), all.length - 1), of = all[nth];
    const looks = of.looks.filter((l) => known(l.low) && known(l.high)), unit = of.unit === "%" ? "%" : of.unit;
    if (!looks.length) return null;
    const outside = of.upper ? "above" : "below";
    const data = looks.map((l) => ({ ...l, tip: `${l.pairs} pairs\n${signed(l.estimate)} ${unit} (${signed(l.low)} to ${signed(l.high)})\n${l.outcome}` }));
    const limits = [of.limit, ...(of.detect ? [of.limit + (of.upper ? of.detect : -of.detect)] : [])];
    // The first looks have intervals many times wider than the last ones: the axis is that of the others.
    const sorted = (values) => values.slice().sort((a, b) => a - b), late = Math.floor((data.length - 1) * 0.8);
    const lowest = Math.min(0, ...limits, sorted(data.map((d) => d.low))[data.length - 1 - late]), highest = Math.max(0, ...limits, sorted(data.map((d) => d.high))[late]);
    const room = 0.06 * (highest - lowest), bounds = [lowest - room, highest + room];
    const inside = (v) => Math.max(bounds[0], Math.min(bounds[1], v));
    return {
      id: "boundary", title: "When the gate was decided",
      caption: `The change after each pair of blocks. The gate is breached when the whole interval is ${outside} the limit, and holds when none of it is${of.detect ? ", or none beyond the limit and what --detect adds" : ""}. The interval is wider than others: it is right however often one looks (95 % on each side).`,
      columns: ["gate", "treatment", "pairs", `change ${unit}`, "low", "high", "outcome"],
      rows: looks.map((l) => [of.gate, name(of.treatment), l.pairs, l.estimate, l.low, l.high, l.outcome]),
      options: [{ name: "gate", label: "Gate", value: String(nth), values: all.map((o, i) => ({ value: String(i), label: `${o.gate}, ${name(o.treatment)}` })) }],
      panels: [{
        title: `${of.gate}, ${name(of.treatment)} (${unit})`, about: `${looks.length} looks; the last interval is ${signed(looks.at(-1).low)} to ${signed(looks.at(-1).high)} ${unit}: ${looks.at(-1).outcome}`,
        legend: [{ text: "limit", color: color("bad"), dashed: true }, { text: "change with its interval", color: color("series2"), symbol: "circle" }],
        plot: (width) => ({
          ...frame, width, height: 320,
          x: { ...x("pairs of blocks", width), ticks: Math.min(data.length, Math.round(width / 50)), tickFormat: (v) => (Number.isInteger(v) ? String(v) : "") },
          y: { label: null, grid: true, domain: bounds, tickFormat: signed },
          marks: [
            Plot.ruleY([0], { stroke: "currentColor" }),
            Plot.ruleY(limits, { stroke: color("bad"), strokeDasharray: "5 4", strokeWidth: 1.5, className: "mark-limit" }),
            Plot.areaY(data, { x: "pairs", y1: (d) => inside(d.low), y2: (d) => inside(d.high), fill: color("series2"), fillOpacity: 0.18, className: "mark-interval-band" }),
            Plot.link(data, { x1: "pairs", x2: "pairs", y1: (d) => inside(d.low), y2: (d) => inside(d.high), stroke: color("series2"), strokeWidth: 2, className: "mark-look" }),
            Plot.dot(data.filter((d) => d.estimate === inside(d.estimate)), { x: "pairs", y: "estimate", r: 4, fill: color("series2"), title: "tip", tip: tips, className: "mark-estimate" }),
          ],
        }),
      }],
    };
  }

  // 8. memory over the measure phase: a line a trial.
  function memory() {
    const all = content.memory ?? [];
    if (!all.length) return null;
    const planes = [...new Set(all.map((m) => m.plane))];
    return {
      id: "memory", title: "Memory over the measure phase",
      caption: "Resident memory of each deployment, a line a trial. Where it still grows at the end, a longer phase would end with more.",
      columns: ["treatment", "block", "plane", "second", "MiB"], rows: all.flatMap((m) => m.points.map(([s, mib]) => [name(m.treatment), m.block, m.plane, s, mib])),
      panels: planes.map((plane) => {
        const own = all.filter((m) => m.plane === plane);
        const data = own.flatMap((m) => m.points.map(([at, mib]) => ({ treatment: m.treatment, trial: `${m.treatment} ${m.block}`, at, mib, tip: `${name(m.treatment)}, block ${m.block}, second ${amount(at)}\n${amount(mib)} MiB` })));
        return {
          title: `memory, ${plane} (MiB, over seconds)`, legend: legendOf([...new Set(own.map((m) => m.treatment))]), about: `${own.length} trials`,
          plot: (width) => ({
            ...frame, width, height: 260, x: x("seconds of the measure phase", width), y: { label: null, grid: true, nice: true, tickFormat: amount },
            marks: [
              Plot.line(data, { x: "at", y: "mib", z: "trial", stroke: (d) => look(d.treatment).color, strokeOpacity: 0.7, className: "mark-memory" }),
              Plot.dot(data, { x: "at", y: "mib", r: 2, symbol: (d) => look(d.treatment).symbol, fill: (d) => look(d.treatment).color, title: "tip", tip: tips }),
            ],
          }),
        };
      }),
    };
  }

  // soak: each quantity over the time of load, a panel a treatment with the same axes, a line a deployment.
  function soak() {
    const shown = new Map((report.trends ?? []).map((x) => [x.treatment + x.metric, x]));
    if (!shown.size) return null;
    const ids = report.treatments.filter((t) => report.trends.some((x) => x.treatment === t.id)).map((t) => t.id);
    const all = report.trials.filter((t) => t.valid).flatMap((t) => (t.trends ?? []).map((x) => ({ treatment: t.treatment, block: t.block, ...x })));
    const order = content.words.metrics.filter((m) => all.some((x) => x.metric === m.name && x.points.some((p) => p[1] !== 0)));
    const rows = all.flatMap((x) => x.points.map(([s, v]) => [name(x.treatment), x.block, x.metric, s, v]));
    const minutes = Math.max(...rows.map((r) => r[3])) > 600, k = minutes ? 60 : 1;
    return {
      id: "soak", title: "Trends over the soak",
      caption: "A line a deployment, over the time of load. Dashed: the straight line through the second half, with its slope per hour. Treatments of a row have the same axes.",
      columns: ["treatment", "block", "metric", "second of load", "value"], rows,
      panels: order.map((m) => {
        const own = all.filter((x) => x.metric === m.name);
        const data = own.flatMap((x) => x.points.map(([s, v]) => ({ treatment: x.treatment, of: name(x.treatment), trial: `${x.treatment} ${x.block}`, at: s / k, v: v * m.scale, tip: `${name(x.treatment)}, block ${x.block}, ${amount(s / k)} ${minutes ? "min" : "s"}\n${amount(v * m.scale)} ${m.unit}` })));
        // The line of a trial through the mean of the second half of its points.
        const fits = own.flatMap((x) => {
          const last = x.points.at(-1)[0], half = (x.points[0][0] + last) / 2, late = x.points.filter((p) => p[0] >= half), mean = (i) => late.reduce((sum, p) => sum + p[i], 0) / late.length;
          const at = (s) => (mean(1) + ((s - mean(0)) * x.per_hour.estimate) / 3600) * m.scale;
          return [half, last].map((s) => ({ of: name(x.treatment), trial: `${x.treatment} ${x.block}`, at: s / k, v: at(s) }));
        });
        const texts = ids.map((id) => ({ id, of: name(id), x: shown.get(id + m.name) })).filter((d) => d.x).map((d) => ({ of: d.of, text: `${signed(d.x.per_hour.estimate * m.scale)} ${m.unit}/h${known(d.x.per_hour.low) ? ` (${signed(d.x.per_hour.low * m.scale)} to ${signed(d.x.per_hour.high * m.scale)})` : ""}`, verdict: d.x.verdict }));
        return {
          title: titled(m), about: texts.map((d) => `${d.of}: ${d.text}, ${d.verdict}`).join("; "), legend: legendOf(ids.filter((id) => own.some((x) => x.treatment === id))),
          plot: (width) => {
            const facet = width >= 260 * texts.length ? "fx" : "fy"; // panels below each other where they would be narrow
            return {
              ...frame, marginTop: 58, width, height: facet === "fx" ? 250 : 60 + 200 * texts.length, [facet]: { axis: null, padding: facet === "fx" ? 0.08 : 0.3, domain: texts.map((d) => d.of) },
              x: x(minutes ? "minutes of load" : "seconds of load", facet === "fx" ? width / texts.length : width), y: { label: null, grid: true, nice: true, tickFormat: amount, ticks: 4 },
              marks: [
                Plot.line(data, { x: "at", y: "v", z: "trial", [facet]: "of", stroke: (d) => look(d.treatment).color, strokeOpacity: 0.7, className: "mark-soak" }),
                Plot.dot(data, { x: "at", y: "v", [facet]: "of", r: 2, fill: (d) => look(d.treatment).color, title: "tip", tip: tips, className: "mark-soak-point" }),
                Plot.line(fits, { x: "at", y: "v", z: "trial", [facet]: "of", stroke: "currentColor", strokeDasharray: "5 3", strokeWidth: 1.5, className: "mark-trend" }),
                Plot.text(texts, { [facet]: "of", text: (d) => `${d.of}\n${d.text}\n${d.verdict}`, frameAnchor: "top-left", textAnchor: "start", lineAnchor: "bottom", dy: -4, fill: (d) => (d.verdict === "still growing" ? color("bad") : "currentColor"), className: "mark-slope" }),
              ],
            };
          },
        };
      }),
    };
  }

  // 9. changes: how long they take, when requests fail, and what they cost.
  const changes = content.changesMade ?? [];
  const kindsOf = (all) => [...new Set(all.map((c) => c.kind))];

  function changeTimes() {
    const all = changes.filter((c) => c.times.length);
    if (!all.length) return null;
    return {
      id: "change-times", title: "How long changes take",
      caption: "Share of changes that have taken effect, by the time since the change. The curve is what requests showed: the last old answer, or the first new one. A change may lie between two requests of a connection: the band has the bounds of each quantile.",
      columns: ["treatment", "kind", "changes", "ms", "share"], rows: all.flatMap((c) => c.times.map(([ms, share]) => [name(c.treatment), c.kind, c.changes, ms, share])),
      panels: kindsOf(all).map((kind) => {
        const own = all.filter((c) => c.kind === kind);
        const data = own.flatMap((c) => c.times.map(([ms, share]) => ({ treatment: c.treatment, ms, share: 100 * share, tip: `${name(c.treatment)}\n${amount(100 * share)} % within ${amount(ms)} ms` })));
        const bands = own.flatMap((c) => (c.band ?? []).map(([share, low, high]) => ({ treatment: c.treatment, share: 100 * share, low, high })));
        return {
          title: `${kind}: changes in effect (%, over ms, logarithmic)`, legend: legendOf(own.map((c) => c.treatment)), about: own.map((c) => `${name(c.treatment)}: ${c.changes} changes`).join("; "),
          plot: (width) => ({
            ...frame, width, height: 300, x: { ...x("ms since the change", width), type: "log", grid: true }, y: { label: null, grid: true, domain: [0, 100], ticks: 5 },
            marks: [
              Plot.link(bands, { y1: "share", y2: "share", x1: "low", x2: "high", stroke: (d) => look(d.treatment).color, strokeOpacity: 0.2, strokeWidth: 12, strokeLinecap: "butt", className: "mark-band" }),
              Plot.line(data, { x: "ms", y: "share", z: "treatment", stroke: (d) => look(d.treatment).color, strokeWidth: 2, className: "mark-times" }),
              Plot.dot(data, { x: "ms", y: "share", r: 2, symbol: (d) => look(d.treatment).symbol, stroke: (d) => look(d.treatment).color, fill: (d) => (look(d.treatment).hollow ? "var(--page)" : look(d.treatment).color), title: "tip", tip: tips }),
            ],
          }),
        };
      }),
    };
  }

  function changeFailures() {
    const all = changes.filter((c) => c.failed?.length);
    if (!all.length) return null;
    const most = Math.max(...all.flatMap((c) => c.failed.map((f) => f[2])));
    const from = Math.min(0, ...all.flatMap((c) => c.failed.map((f) => f[0]))), to = Math.max(...all.flatMap((c) => c.failed.map((f) => f[1])));
    return {
      id: "change-failures", title: "When requests fail around a change",
      caption: "Failed requests per change and millisecond, by the time of their sending. Zero is the change. Every treatment has the same axes.",
      columns: ["treatment", "kind", "changes", "from ms", "to ms", "failed per change and ms"], rows: all.flatMap((c) => c.failed.map((f) => [name(c.treatment), c.kind, c.changes, ...f])),
      panels: all.map((c) => {
        const data = c.failed.map(([x1, x2, y]) => ({ x1, x2, y, tip: `${amount(x1)} to ${amount(x2)} ms\n${amount(y * (x2 - x1))} failed requests per change` }));
        return {
          title: `${c.kind}, ${name(c.treatment)}: failed requests per change and ms`, about: `${c.changes} changes, ${amount(data.reduce((sum, d) => sum + d.y * (d.x2 - d.x1), 0))} failed requests per change`,
          plot: (width) => ({
            ...frame, width, height: 220, x: { ...x("ms from the change", width), domain: [from, to] }, y: { label: null, grid: true, domain: [0, most], nice: true, tickFormat: amount },
            marks: [
              Plot.rectX(data, { x1: "x1", x2: "x2", y1: () => 0, y2: "y", inset: 0, fill: color("bad"), fillOpacity: 0.6, title: "tip", tip: tips, className: "mark-failures" }),
              Plot.ruleX([0], { stroke: "currentColor", strokeWidth: 1.5, className: "mark-change" }),
              Plot.ruleY([0], { stroke: "currentColor" }),
            ],
          }),
        };
      }),
    };
  }

  function changeCPU() {
    const planes = [["control", "control plane"], ["data", "data plane"], ["app", "application"]];
    const all = kindsOf(changes).flatMap((kind) => report.treatments.flatMap((t) => planes.map(([part, title]) => ({ kind, part, title, treatment: t.id, ...t.metrics[`${content.families.change}/${kind}-${part}`] })).filter((d) => known(d.estimate))));
    if (!all.length) return null;
    const text = (d) => `${amount(d.estimate)} ms${known(d.low) ? ` (${amount(d.low)} to ${amount(d.high)})` : ""}`;
    return {
      id: "change-cpu", title: "CPU of a change by plane",
      caption: "CPU time above the level without a change, with its 95 % interval over trials: what the first half of the time to the next change has beyond the second.",
      columns: ["treatment", "kind", "plane", "ms", "low", "high"], rows: all.map((d) => [name(d.treatment), d.kind, d.title, d.estimate, d.low, d.high]),
      panels: kindsOf(all).map((kind) => {
        const data = all.filter((d) => d.kind === kind).map((d, i) => ({ ...d, row: String(i), left: `${name(d.treatment)}: ${d.title}`, right: text(d), tip: `${name(d.treatment)}\n${d.title}: ${text(d)}` }));
        return {
          title: `${kind}: CPU per change (ms)`, about: data.map((d) => `${d.left} ${d.right}`).join("; "),
          plot: (width) => ({
            ...base, width, height: rowsHigh(data.length) + 40, x: { ...x("ms of CPU above the level", width), grid: true, nice: true }, y: rowAxis(data),
            marks: [
              Plot.ruleX([0], { stroke: "currentColor" }),
              Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: (d) => color(d.part), strokeWidth: 3, className: "mark-interval" }),
              Plot.dot(data, { y: "row", x: "estimate", r: 5, fill: (d) => color(d.part), title: "tip", tip: tips, className: "mark-estimate" }),
              ...rowLabels(data, width),
            ],
          }),
        };
      }),
    };
  }

  function changeParts() {
    const all = (report.change_parts ?? []).filter((p) => p.parts);
    if (!all.length) return null;
    const colors = ["noise", "control", "data", "app"], names = [...new Set(all.flatMap((p) => p.parts.map((part) => part.name)))];
    const fill = (n) => color(colors[names.indexOf(n) % colors.length]);
    const text = (i) => `${amount(i.estimate)} ms${known(i.low) ? ` (${amount(i.low)} to ${amount(i.high)})` : ""}`;
    return {
      id: "change-parts", title: "Where the time of changes went",
      caption: "A diagnosis: control plane and proxies count these instants themselves, after every fifth change. The whole is measured by probes, and the last part is the rest. No other figure contains them.",
      columns: ["treatment", "kind", "changes", "left out", "part", "ms", "low", "high"],
      rows: all.flatMap((p) => [...p.parts.map((part) => [part.name, part.ms]), ["whole", p.whole_ms]].map(([n, i]) => [name(p.treatment), p.kind, p.changes, p.left_out ?? 0, n, i.estimate, i.low, i.high])),
      panels: kindsOf(all).map((kind) => {
        const own = all.filter((p) => p.kind === kind).map((p, i) => ({ ...p, row: String(i), left: `${name(p.treatment)} (changes: ${p.changes}${p.left_out ? `; ${p.left_out} left out: parts longer than the whole` : ""})`, right: text(p.whole_ms) }));
        const bars = own.flatMap((p) => {
          let to = 0;
          return p.parts.map((part) => ({ row: p.row, name: part.name, from: to, to: (to += Math.max(0, part.ms.estimate)), tip: `${name(p.treatment)}\n${part.name}: ${text(part.ms)}` }));
        });
        return {
          title: `${kind}: parts as they count them (ms)`, legend: names.map((n) => ({ text: n, color: fill(n) })), about: own.map((p) => `${p.left}: ${p.parts.map((part) => `${part.name} ${text(part.ms)}`).join(", ")}`).join("; "),
          plot: (width) => ({
            ...base, width, height: rowsHigh(own.length), x: { ...x("ms since the change", width), grid: true, nice: true }, y: rowAxis(own),
            marks: [
              Plot.barX(bars, { y: "row", x1: "from", x2: "to", insetTop: 21, insetBottom: 10, insetLeft: 0.5, fill: (d) => fill(d.name), title: "tip", tip: tips, className: "mark-part" }),
              Plot.ruleX([0], { stroke: "currentColor" }),
              ...rowLabels(own, width),
            ],
          }),
        };
      }),
    };
  }

  function controlTimes() {
    const all = report.control_times ?? [];
    if (!all.length) return null;
    const range = (b) => (!b ? "" : known(b.to_ms) ? `${b.from_ms ? amount(b.from_ms) : "up"} to ${amount(b.to_ms)}` : `over ${amount(b.from_ms)}`);
    const data = all.map((t, i) => ({ ...t.mean_ms, row: String(i), left: `${name(t.treatment)}: ${t.stage} (times: ${t.count})`, right: `${amount(t.mean_ms.estimate)} ms${t.p50_ms ? `, half: ${range(t.p50_ms)}` : ""}${t.p99_ms ? `, 99 %: ${range(t.p99_ms)}` : ""}` }));
    return {
      id: "control-times", title: "Stages of the control plane",
      caption: "A diagnosis: mean times that the control plane counts itself, of all of its work in the measure phase, with 95 % intervals over trials. Quantiles are the buckets of its histograms. Stages can contain one another.",
      columns: ["treatment", "stage", "times", "mean ms", "low", "high", "half", "99 %"],
      rows: all.map((t) => [name(t.treatment), t.stage, t.count, t.mean_ms.estimate, t.mean_ms.low, t.mean_ms.high, range(t.p50_ms), range(t.p99_ms)]),
      panels: [{
        title: "mean of each stage, as the control plane counts it (ms)", about: data.map((d) => `${d.left} ${d.right}`).join("; "),
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length) + 40, x: { ...x("ms", width), grid: true, nice: true }, y: rowAxis(data),
          marks: [
            Plot.ruleX([0], { stroke: "currentColor" }),
            Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: color("control"), strokeWidth: 3, className: "mark-interval" }),
            Plot.dot(data, { y: "row", x: "estimate", r: 5, fill: color("control"), className: "mark-estimate" }),
            ...rowLabels(data, width),
          ],
        }),
      }],
    };
  }

  return { slices, heat, memory, soak, changeTimes, changeFailures, changeCPU, changeParts, controlTimes, slopes, halfOf, band, references, referenceNote, boundary };
};
