// The figures of a report: data in, options of Observable Plot out. It uses no document, so the
// page and `tare plot` share it. Estimates, intervals and verdicts are those of the report.
//
// tareFigures(Plot, content) is a list of figures:
//   id, title, caption
//   columns, rows   the data: a row of numbers and texts for each mark; for the table and the CSV
//   tables          further data of the same kind: [{id, title, columns, rows}]
//   options         choices of the reader, such as a metric: [{name, label, values: [{value, label}], value}]
//   panels          [{title, plot(width): options of Plot.plot}]
// with figure(id, choices) to make one again with other choices.
"use strict";
globalThis.tareFigures = function (Plot, content) {
  if (content.across) return tareAcross(Plot, content);
  if (content.history) return tareHistory(Plot, content);
  if (content.curves) return tareCurves(Plot, content);
  const { report, words, families } = content;
  const metrics = new Map(words.metrics.map((m) => [m.name, m]));
  const treatments = new Map(report.treatments.map((t) => [t.id, t]));
  const name = (id) => words.names[id] ?? id;
  const kit = tareKit(Plot, content);
  const { color, symbols, base, known, changeUnit, titled, amount, signed, tips, rowLabels, rowAxis, rowsHigh, levelAxis, shortened, within, meshName } = kit;

  // swept is the factor with the most numbers, at least three, that treatments are drawn over. A line is a treatment
  // without it.
  const numbers = new Map();
  for (const t of report.treatments) if (!t.control) for (const [f, v] of Object.entries(t.factors)) if (typeof v === "number") numbers.set(f, (numbers.get(f) ?? new Set()).add(v));
  const swept = [...numbers].filter(([, of]) => of.size >= 3).sort((a, b) => b[1].size - a[1].size)[0]?.[0];
  const varying = [...new Set(report.treatments.flatMap((t) => Object.keys(t.factors)))].filter((f) => f !== swept && f !== "control" && new Set(report.treatments.map((t) => String(t.factors[f]))).size > 1);
  const lineOf = (t) => varying.map((f) => report.names?.[String(t.factors[f])] ?? (f === "mesh" || f === "route" ? String(t.factors[f] ?? "") : `${f} ${t.factors[f]}`)).filter((s) => s).join(", ");
  const levelOf = (t) => (swept && typeof t.factors[swept] === "number" ? t.factors[swept] : 0);

  // look of a treatment: baselines are grey, their second measurements hollow; others have a color and a symbol, the same at each
  // level of a sweep.
  const looks = new Map();
  let nth = 0;
  for (const t of report.treatments) {
    const twin = t.control || !t.baseline;
    const key = (swept && lineOf(t)) || String(t.factors.mesh ?? t.id);
    let at = twin ? 0 : [...looks.values()].find((l) => l.key === key && l.at > 0)?.at;
    if (at === undefined) at = ++nth;
    looks.set(t.id, { key, at, color: color("series" + (at % 6)), symbol: symbols[at % symbols.length], hollow: !!t.control });
  }
  const look = (id) => looks.get(id);

  // groups are the baselines, each with the treatments compared with it.
  const groups = [];
  for (const t of report.treatments) {
    const id = t.baseline || t.id;
    let g = groups.find((x) => x.id === id);
    if (!g) groups.push((g = { id, members: [] }));
    g.members.push(t);
  }

  const dataFigures = tareDataFigures({ ...kit, Plot, content, name, look, legendOf: (ids) => legendOf(ids) });

  // levelPanel draws differences as lines over the numbers of a sweep, one a treatment, with the bands of their intervals.
  // Without a sweep it is null.
  function levelPanel(data, m, only) {
    if (!swept) return null;
    for (const d of data) Object.assign(d, { x: levelOf(treatments.get(d.row)), line: lineOf(treatments.get(d.row)) || "difference" });
    const lines = [...new Set(data.map((d) => d.line))];
    if (new Set(data.map((d) => d.x)).size < 3) return null;
    const first = (line) => look(data.find((d) => d.line === line).row);
    const noise = [...new Map(data.filter((d) => known(d.noiseLow)).map((d) => [d.x, d])).values()];
    const ordered = data.slice().sort((a, b) => a.x - b.x);
    return {
      title: only ? m.title : titled(m),
      about: `${m.title}: ` + data.map((d) => `${d.left} ${d.right}`).join("; "),
      legend: [...lines.map((line) => ({ text: line, color: first(line).color, symbol: first(line).symbol })), ...(noise.length ? [{ text: "baseline against itself", color: color("noise") }] : [])],
      plot: (width) => ({
        ...base, width, height: 300, marginLeft: 68, marginTop: 14, insetLeft: 10, insetRight: 10,
        x: levelAxis(swept, data.map((d) => d.x), width),
        y: { label: null, grid: true, nice: true, tickFormat: signed, ticks: 5 }, symbol: { legend: false },
        marks: [
          Plot.link(noise, { x1: "x", x2: "x", y1: "noiseLow", y2: "noiseHigh", stroke: color("noise"), strokeWidth: 14, strokeLinecap: "butt", className: "mark-noise" }),
          Plot.ruleY([0], { stroke: "currentColor", className: "mark-zero" }),
          Plot.areaY(ordered.filter((d) => known(d.low) && d.agrees), { x: "x", y1: "low", y2: "high", z: "line", fill: (d) => look(d.row).color, fillOpacity: 0.14, className: "mark-band" }),
          Plot.line(ordered, { x: "x", y: "estimate", z: "line", stroke: (d) => look(d.row).color, strokeWidth: 2, className: "mark-line" }),
          Plot.link(data.filter((d) => known(d.low) && d.agrees), { x1: "x", x2: "x", y1: "low", y2: "high", stroke: (d) => look(d.row).color, strokeWidth: 1.5, className: "mark-level-interval" }),
          Plot.dot(data, { x: "x", y: "estimate", r: 5, strokeWidth: 2, stroke: (d) => look(d.row).color, symbol: (d) => look(d.row).symbol, fill: (d) => (d.shown ? look(d.row).color : "var(--page)"), className: "mark-level", tip: tips, title: "tip" }),
        ],
      }),
    };
  }

  // 1. differences -------------------------------------------------------------------------------
  function differences() {
    const rows = [], panels = [];
    let lineless = false;
    const of = (x, ratios) => (!ratios ? x?.difference : x?.ratio && { estimate: x.ratio.estimate - 1, low: x.ratio.low - 1, high: x.ratio.high - 1 });
    for (const metric of words.shown) {
      const m = metrics.get(metric);
      if (!m) continue;
      const gateOf = (c) => report.decisions?.find((d) => d.unit === "%" && d.change && d.metric === metric && d.treatment === c.treatment && d.baseline === c.baseline);
      const ratios = metric === families.capacity || report.comparisons.some((c) => c.metric === metric && gateOf(c)); // as the first sentence has it
      const data = [], unit = ratios ? "%" : m.unit, k = ratios ? 100 : m.scale;
      report.comparisons.forEach((c, i) => {
        const gate = gateOf(c)?.change, by = gate ? { estimate: gate.estimate / 100, low: gate.low / 100, high: gate.high / 100 } : of(c, ratios);
        if (c.metric !== metric || c.control || !by) return;
        if (by.estimate === 0 && !known(by.low)) return; // zero against zero
        const w = words.comparisons[i];
        const noise = of(report.floor.find((f) => f.metric === metric && of(f, ratios) && treatments.get(f.treatment)?.baseline === c.baseline), ratios);
        data.push({
          row: c.treatment, left: name(c.treatment), right: ratios && !gate && metric !== families.capacity ? within(w.ratio, w.ratioInterval) : within(w.difference, w.interval),
          estimate: by.estimate * k, low: by.low * k, high: by.high * k, agrees: ratios || w.interval !== "", // otherwise the interval contradicts the verdict, which is of another
          noiseLow: noise?.low * k, noiseHigh: noise?.high * k,
          note: c.verdict === "higher" || c.verdict === "lower" ? "" : w.verdict,
          shown: c.verdict === "higher" || c.verdict === "lower",
          tip: `${name(c.treatment)} against ${words.against[c.treatment] ?? name(c.baseline)}\n${m.title}: ${within(w.difference, w.interval)}\n${w.ratio === "–" ? "" : `ratio ${within(w.ratio, w.ratioInterval)}\n`}${w.verdict}`,
        });
        const d = data[data.length - 1];
        lineless ||= known(d.low) && !d.agrees;
        rows.push([name(c.treatment), words.against[c.treatment] ?? name(c.baseline), m.title, unit, d.estimate, d.low, d.high, c.ratio?.estimate, c.ratio?.low, c.ratio?.high, w.verdict, d.noiseLow, d.noiseHigh]);
      });
      if (!data.length) continue;
      const overLevels = levelPanel(data, m, ratios);
      if (overLevels) {
        panels.push(overLevels);
        continue;
      }
      const noise = data.filter((d) => known(d.noiseLow));
      panels.push({
        title: ratios ? m.title : titled(m),
        about: `${m.title}: ` + data.map((d) => `${d.left} ${d.right}`).join("; "),
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length),
          x: { label: ratios ? "difference (% of the baseline)" : unit ? `difference (${changeUnit(unit)})` : "difference", labelAnchor: "center", labelArrow: "none", nice: true, ticks: Math.max(3, Math.round(width / 90)), tickFormat: signed },
          y: rowAxis(data), symbol: { legend: false },
          marks: [
            Plot.barX(noise, { y: "row", x1: "noiseLow", x2: "noiseHigh", insetTop: 21, fill: color("noise"), className: "mark-noise" }),
            Plot.tickX(data, { x: () => 0, y: "row", insetTop: 21, stroke: "currentColor", strokeWidth: 1, className: "mark-zero" }),
            Plot.link(data.filter((d) => known(d.low) && d.agrees), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 2, className: "mark-interval", dy: 6 }),
            Plot.dot(data, { y: "row", x: "estimate", r: 5, dy: 6, stroke: (d) => look(d.row).color, strokeWidth: 2, symbol: (d) => look(d.row).symbol,
              fill: (d) => (d.shown ? look(d.row).color : "var(--page)"), className: "mark-estimate", tip: tips, title: "tip" }),
            ...rowLabels(data, width),
          ],
        }),
      });
    }
    const baselines = [...new Set(report.comparisons.filter((c) => !c.control).map((c) => words.against[c.treatment]))];
    // The first sentence of imported runs is about the data plane.
    const first = (panel) => panel.title.startsWith("CPU") && panel.title.includes("data plane");
    if (report.method === "unpaired") panels.sort((a, b) => first(b) - first(a));
    return {
      id: "differences", title: `What it adds: difference to ${baselines.length === 1 ? baselines[0] : "the baseline"}`,
      caption: `${report.method === "paired" ? "Mean of the differences within blocks" : "Difference of the means, not paired,"} with ${report.confidence * 100} % intervals. Filled mark: a difference is shown${report.decisions?.length ? "; a gate has a wider interval, that of its own figure" : ""}. ${lineless ? "No line: the verdict is of the ratio. " : ""}` +
        (report.floor.length ? "Grey band: the baseline against itself." : "The baseline was not measured twice."),
      columns: ["treatment", "against", "metric", "unit", "difference", "low", "high", "ratio", "ratio low", "ratio high", "verdict", "noise low", "noise high"],
      rows, panels,
    };
  }

  // 7a. ladder -----------------------------------------------------------------------------------
  function ladder() {
    const rows = [], panels = [], high = 26;
    (report.ladders ?? []).forEach((l, nth) => {
      const step = (id) => meshName(treatments.get(id)?.factors.mesh ?? id);
      const others = Object.entries(l.factors).filter(([f]) => report.ladders.length > 1 && f !== "mesh").map(([f, v]) => `${f} ${v}`).join(", ");
      l.metrics.forEach((of, i) => {
        const m = metrics.get(of.metric), k = m?.scale;
        if (!m || !words.shown.includes(of.metric) || !of.whole) return;
        const cells = words.ladders[nth][i], data = [];
        let from = 0;
        of.increments.forEach((c, s) => {
          const judged = c.adjusted ?? c.difference; // the interval of the verdict
          const by = known(c.difference?.estimate) ? c.difference.estimate * k : undefined;
          const d = {
            row: c.treatment, left: "+ " + step(c.treatment), right: cells[s].difference, from, to: from + (by ?? 0),
            low: from + judged?.low * k, high: from + judged?.high * k, shown: c.verdict === "higher" || c.verdict === "lower",
            color: color(by < 0 ? "series3" : "series1"), tip: `${step(c.treatment)} after ${step(c.before)}\n${m.title}: ${within(cells[s].difference, cells[s].interval)}\n${cells[s].verdict}`,
          };
          data.push(d);
          from = d.to;
          rows.push([step(c.treatment), step(c.before), others, m.title, m.unit, by, judged?.low * k, judged?.high * k, from, cells[s].verdict]);
        });
        const whole = cells[of.increments.length], rest = cells[of.increments.length + 1], last = step(l.steps[l.steps.length - 1]), first = step(l.steps[0]);
        if (rest) {
          const by = of.rest_interval.estimate * k;
          data.push({ row: " rest", left: "rest", right: rest.difference, from, to: from + by, low: from + of.rest_interval.low * k, high: from + of.rest_interval.high * k,
            shown: false, color: color("series3"), tip: `what blocks without a step leave of the whole\n${m.title}: ${within(rest.difference, rest.interval)}` });
        }
        const compared = report.comparisons.find((c) => c.treatment === l.steps[l.steps.length - 1] && c.baseline === l.steps[0] && c.metric === of.metric);
        data.push({ row: " whole", left: "whole", right: whole.difference, from: 0, to: of.whole.estimate * k, low: of.whole.low * k, high: of.whole.high * k, shown: !compared || compared.verdict === "higher" || compared.verdict === "lower", color: color("series0"),
          tip: `${last} against ${first}\n${m.title}: ${within(whole.difference, whole.interval)}\nrest: ${signed(of.rest * k)} ${m.unit}` });
        rows.push(["whole", first, others, m.title, m.unit, of.whole.estimate * k, of.whole.low * k, of.whole.high * k, of.whole.estimate * k, ""]);
        rows.push(["rest", "", others, m.title, m.unit, of.rest * k, of.rest_interval?.low * k, of.rest_interval?.high * k, undefined, ""]);
        const joints = data.slice(0, -1).map((d, s) => ({ at: d.to, row: d.row, next: data[s + 1].row }));
        const room = (texts) => Math.max(...texts.map((t) => t.length)) * 7 + 12;
        const right = room(data.map((d) => d.right));
        const clipped = (text, width) => { const most = width < 420 ? 14 : 26; return text.length > most ? text.slice(0, most - 1) + "…" : text; };
        panels.push({
          title: titled(m) + (others ? `, ${others}` : ""),
          about: `${m.title}: ` + data.map((d) => `${d.left} ${d.right}`).join("; "),
          plot: (width, left = room(data.map((d) => clipped(d.left, width)))) => ({
            ...base, marginLeft: left, marginRight: right, width, height: data.length * high + base.marginTop + base.marginBottom,
            x: { label: `added to ${first}${m.unit ? ` (${changeUnit(m.unit)})` : ""}`, labelAnchor: "center", labelArrow: "none", grid: true, nice: true, ticks: Math.max(2, Math.round((width - left - right) / 80)), tickFormat: signed },
            y: { type: "band", domain: data.map((d) => d.row), axis: null, padding: 0.3 }, symbol: { legend: false },
            marks: [
              Plot.tickX(data, { x: () => 0, y: "row", insetTop: -4, insetBottom: -4, stroke: "currentColor", strokeWidth: 1, className: "mark-zero" }),
              Plot.link(joints, { x1: "at", x2: "at", y1: "row", y2: "next", stroke: "currentColor", strokeOpacity: 0.35, className: "mark-joint" }),
              Plot.barX(data, { y: "row", x1: "from", x2: "to", fill: (d) => (d.shown ? d.color : "var(--page)"), stroke: "color", strokeWidth: 1.5, className: "mark-step", title: "tip", tip: tips }),
              Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 2, className: "mark-interval" }),
              Plot.text(data, { y: "row", text: (d) => clipped(d.left, width), frameAnchor: "left", textAnchor: "end", dx: -8, fontWeight: 600, fill: "currentColor" }),
              Plot.text(data, { y: "row", text: "right", frameAnchor: "right", textAnchor: "start", dx: 8, fill: "currentColor" }),
            ],
          }),
        });
      });
    });
    return {
      id: "ladder", title: "Ladder: what each step adds",
      caption: `Each bar begins where the step before it ends. Lines are ${report.confidence * 100} % intervals that hold for all steps at once. Filled bar: a difference is shown. Green: a step that saves.`,
      columns: ["step", "after", "other factors", "metric", "unit", "adds", "low", "high", "sum so far", "verdict"], rows, panels,
    };
  }

  // 2. bill --------------------------------------------------------------------------------------
  function bill() {
    const rows = [];
    const panelOf = (prefix, heading) => {
      const total = metrics.get(prefix + "/total");
      if (!total) return null;
      const k = total.scale, data = [], parts = [];
      // What is compared stands side by side: by level of a sweep, each baseline before its treatments.
      for (const t of report.treatments.slice().sort((a, b) => levelOf(a) - levelOf(b))) {
        const e = t.metrics[prefix + "/total"];
        if (!e) continue;
        const growing = words.growing?.[t.id]?.[total.name];
        const words_ = `${words.estimates[t.id][total.name]} ${total.unit}${growing ? " " + growing : ""}`;
        data.push({ row: t.id, left: name(t.id), right: words_, total: e.estimate * k, low: e.low * k, high: e.high * k });
        let from = 0;
        for (const p of words.planes) {
          const v = t.metrics[`${prefix}/${p.part}`];
          if (!v || v.estimate === 0) continue;
          parts.push({ row: t.id, plane: p, from, to: from + v.estimate * k, value: v.estimate * k });
          from += v.estimate * k;
          rows.push([name(t.id), heading, total.unit, p.title, v.estimate * k, v.low * k, v.high * k]);
        }
        rows.push([name(t.id), heading, total.unit, "total", e.estimate * k, e.low * k, e.high * k]);
      }
      if (!data.length) return null;
      const most = Math.max(...data.map((d) => (known(d.high) ? d.high : d.total)));
      return {
        title: `${heading} (${total.unit})`,
        about: `${heading}: ` + data.map((d) => `${d.left} ${d.right}`).join("; "),
        legend: words.planes.filter((p) => parts.some((x) => x.plane.part === p.part)).map((p) => ({ text: p.title, color: color(p.part) })),
        plot: (width) => ({
          ...base, width, height: rowsHigh(data.length),
          x: { label: `${heading} (${total.unit})`, labelAnchor: "center", labelArrow: "none", domain: [0, most * 1.02], grid: true, ticks: Math.max(3, Math.round(width / 90)), tickFormat: amount },
          y: rowAxis(data),
          marks: [
            Plot.barX(parts, { y: "row", x1: "from", x2: "to", insetTop: 21, insetBottom: 10, insetLeft: 0.5, insetRight: 0.5, fill: (d) => color(d.plane.part), className: "mark-plane",
              title: (d) => `${name(d.row)}\n${d.plane.title}: ${amount(d.value)} ${total.unit}`, tip: tips }),
            Plot.text(parts.filter((d) => ((d.value / most) * width) > d.plane.title.length * 7 + 14), { y: "row", x: (d) => (d.from + d.to) / 2, text: (d) => d.plane.title, dy: 6, fill: "var(--page)", fontWeight: 600 }),
            Plot.link(data.filter((d) => known(d.low)), { y1: "row", y2: "row", x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 2, dy: 19, className: "mark-interval" }),
            ...rowLabels(data, width),
          ],
        }),
      };
    };
    const panels = families.stacked.map((f) => panelOf(f.name, f.title)).filter((p) => p);
    return {
      id: "bill", title: "Where it goes: CPU and memory by plane",
      caption: `Means over trials, stacked by plane. The line below a bar is the ${report.confidence * 100} % interval of the total; the load generator is not in it.`,
      columns: ["treatment", "resource", "unit", "plane", "mean", "low", "high"], rows, panels,
    };
  }

  // choice of a metric, for the figures with one.
  const trialMetrics = words.metrics.filter((m) => report.trials.some((t) => known(t.metrics[m.name])));
  const metricChoice = (chosen) => {
    const first = words.shown.find((s) => trialMetrics.some((m) => m.name === s)) ?? trialMetrics[0]?.name;
    const value = trialMetrics.some((m) => m.name === chosen) ? chosen : first;
    const shown = trialMetrics.filter((m) => words.shown.includes(m.name)), other = trialMetrics.filter((m) => !words.shown.includes(m.name));
    return { name: "metric", label: "Metric", value, values: [...shown, ...other].map((m) => ({ value: m.name, label: titled(m) })) };
  };

  // legendOf treatments: symbol and color. Treatments that look alike, as the levels of a sweep, have one entry.
  const legendOf = (ids) => {
    const alike = new Map();
    for (const id of ids) {
      const l = look(id), key = `${l.color} ${l.symbol} ${l.hollow}`;
      alike.set(key, [...(alike.get(key) ?? []), id]);
    }
    return [...alike.values()].map(([id, ...more]) => ({
      text: more.length ? (lineOf(treatments.get(id)) || name(id)) + (look(id).hollow ? " (again)" : "") : name(id),
      color: look(id).color, symbol: look(id).symbol, hollow: look(id).hollow,
    }));
  };

  // 3. trials ------------------------------------------------------------------------------------
  function trials(choices = {}) {
    const choice = metricChoice(choices.metric), m = metrics.get(choice.value);
    if (!m) return null;
    const data = report.trials.map((t) => ({
      id: t.id, ordinal: t.ordinal, block: t.block, treatment: t.treatment, valid: t.valid,
      value: known(t.metrics[m.name]) ? t.metrics[m.name] * m.scale : undefined,
      mean: treatments.get(t.treatment)?.metrics[m.name]?.estimate * m.scale,
      tip: `${t.id}\n${name(t.treatment)}, block ${t.block}\n${m.title}: ${amount(t.metrics[m.name] * m.scale)} ${m.unit}${t.valid ? "" : "\nnot valid: " + (t.error || t.warnings.filter((w) => w.invalidates).map((w) => w.message).join(", "))}`,
    }));
    const drawn = data.filter((d) => known(d.value)).sort((a, b) => a.ordinal - b.ordinal);
    const valid = drawn.filter((d) => d.valid);
    for (const d of valid) d.deviation = d.mean ? (d.value / d.mean - 1) * 100 : undefined;
    const deviating = valid.filter((d) => known(d.deviation));
    const ids = report.treatments.map((t) => t.id).filter((id) => drawn.some((d) => d.treatment === id));
    const many = drawn.length > 200; // lines would hide the marks of more trials
    const dots = (from, y) => Plot.dot(from, { x: y === "value" ? "ordinal" : "block", y, r: many ? 2 : 4.5, symbol: (d) => look(d.treatment).symbol, stroke: (d) => look(d.treatment).color, strokeWidth: 1.5,
      fill: (d) => (look(d.treatment).hollow ? "var(--page)" : look(d.treatment).color), title: "tip", tip: tips, className: "mark-trial" });
    const whole = (v) => (Number.isInteger(v) ? String(v) : "");
    const frame = { ...base, marginLeft: 58, marginRight: 12, marginTop: 14 };
    const panels = [{
      title: titled(m), legend: legendOf(ids),
      about: `${m.title} of ${drawn.length} trials in order`,
      plot: (width) => ({
        ...frame, width, height: 280,
        x: { label: "trial, in order of time", labelAnchor: "center", labelArrow: "none", ticks: Math.min(drawn.length, Math.round(width / 60)), tickFormat: whole },
        y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount },
        marks: [
          Plot.line(valid, { x: "ordinal", y: "value", z: "block", stroke: "currentColor", strokeOpacity: many ? 0.04 : 0.3, className: "mark-block" }),
          dots(valid, "value"),
          Plot.dot(drawn.filter((d) => !d.valid), { x: "ordinal", y: "value", symbol: "times", r: 6, stroke: "var(--bad)", strokeWidth: 2, title: "tip", tip: tips, className: "mark-invalid-trial" }),
        ],
      }),
    }];
    if (deviating.length && new Set(deviating.map((d) => d.block)).size > 1) panels.push({
      title: "deviation from the treatment's mean (%)",
      about: `deviation of each trial from the mean of its treatment, in percent, by block`,
      plot: (width) => ({
        ...frame, width, height: 280,
        x: { label: "block, in order of time", labelAnchor: "center", labelArrow: "none", ticks: Math.min(report.count.blocks, Math.round(width / 50)), tickFormat: whole },
        y: { label: null, grid: true, nice: true, tickFormat: signed },
        marks: [
          Plot.ruleY([0], { stroke: "currentColor" }),
          Plot.line(deviating.slice().sort((a, b) => a.block - b.block), { x: "block", y: "deviation", z: "treatment", stroke: (d) => look(d.treatment).color, strokeOpacity: many ? 0.15 : 0.6, className: "mark-treatment" }),
          dots(deviating, "deviation"),
        ],
      }),
    });
    const sliced = dataFigures.slices(choices.block);
    if (sliced) panels.push(...sliced.panels);
    return {
      id: "trials", title: "Every trial: drift and outliers",
      caption: "One mark a trial. Lines on the left join the trials of a block, lines on the right those of a treatment. A cross is a trial that is not valid and in no mean.",
      columns: ["trial", "order", "block", "treatment", "valid", "metric", "unit", "value", "deviation %"],
      rows: data.map((d) => [d.id, d.ordinal, d.block, name(d.treatment), d.valid ? "yes" : "no", m.title, m.unit, d.value, d.deviation]),
      options: [choice, ...(sliced?.options ?? [])], panels, tables: sliced ? [sliced.table] : [],
    };
  }

  // 4. latency -----------------------------------------------------------------------------------
  const quantiles = [["p50", 0.5], ["p90", 0.9], ["p99", 0.99], ["p99.9", 0.999], ["p99.99", 0.9999]];
  function latency(choices = {}) {
    const rows = [], panels = [];
    const times = [families.response, families.service];
    for (const g of groups) {
      const data = [];
      for (const t of g.members) for (const { name: prefix, title } of times) for (const [part, q] of quantiles) {
        const e = t.metrics[`${prefix}/${part}`];
        if (!e || !(e.estimate > 0)) continue;
        const few = (e.warnings ?? []).some((w) => w.code === "too-few-requests");
        const d = { treatment: t.id, time: title, part, q, tail: 1 / (1 - q), value: e.estimate, low: known(e.low) ? Math.max(e.low, e.estimate / 20) : undefined, high: e.high, few, line: t.id + title,
          tip: `${name(t.id)}\n${title}, ${part}: ${words.estimates[t.id][`${prefix}/${part}`]} ms${few ? "\ntoo few requests for this percentile" : ""}` };
        data.push(d);
        rows.push([name(t.id), title, part, e.estimate, e.low, e.high, few ? "too few requests" : ""]);
      }
      // A percentile with too few requests everywhere is not drawn; the table has it.
      for (const [part] of quantiles.slice(2)) if (data.every((d) => d.part !== part || d.few)) data.splice(0, data.length, ...data.filter((d) => d.part !== part));
      if (new Set(data.map((d) => d.part)).size < 2) continue; // one point is no curve
      const response = data.filter((d) => d.time === families.response.title), service = data.filter((d) => d.time === families.service.title);
      const parts = quantiles.filter(([part]) => data.some((d) => d.part === part));
        panels.push({
        title: groups.length > 1 ? `against ${name(g.id)} (ms)` : "time of a request (ms)",
        about: response.filter((d) => d.part === "p50" || d.part === "p99").map((d) => `${name(d.treatment)} ${d.part} ${words.estimates[d.treatment][`${families.response.name}/${d.part}`]} ms`).join("; "),
        legend: [...legendOf(g.members.map((t) => t.id).filter((id) => data.some((d) => d.treatment === id))), ...(service.length ? [{ text: families.service.title, dashed: true, color: "currentColor" }] : [])],
        plot: (width) => ({
          ...base, width, height: 340, marginLeft: 52, marginRight: 28, marginTop: 14,
          x: { type: "log", domain: [parts[0] ? 1 / (1 - parts[0][1]) : 2, 1 / (1 - (parts.at(-1)?.[1] ?? 0.99))], label: "percentile (tail on a logarithmic axis)", labelAnchor: "center", labelArrow: "none",
            ticks: parts.map(([, q]) => 1 / (1 - q)), tickFormat: (v) => parts.find(([, q]) => Math.abs(1 / (1 - q) - v) < 1e-6 * v)?.[0] ?? "" },
          y: { type: "log", label: null, grid: true, tickFormat: amount, ticks: 5 },
          marks: [
            Plot.areaY(response.filter((d) => known(d.low)), { x: "tail", y1: "low", y2: "high", z: "line", fill: (d) => look(d.treatment).color, fillOpacity: 0.18, className: "mark-interval" }),
            Plot.line(service, { x: "tail", y: "value", z: "line", stroke: (d) => look(d.treatment).color, strokeDasharray: "4 3", className: "mark-service-time" }),
            Plot.line(response, { x: "tail", y: "value", z: "line", stroke: (d) => look(d.treatment).color, strokeWidth: 2, className: "mark-response-time" }),
            Plot.dot(response, { x: "tail", y: "value", symbol: (d) => look(d.treatment).symbol, r: 4.5, stroke: (d) => look(d.treatment).color, strokeWidth: 1.5,
              fill: (d) => (d.few || look(d.treatment).hollow ? "var(--page)" : look(d.treatment).color), title: "tip", tip: tips, className: "mark-percentile" }),
          ],
        }),
      });
    }
    const heat = panels.length ? dataFigures.heat(choices.trial) : null;
    if (heat) panels.push(heat.panel);
    return panels.length ? {
      id: "latency", title: "How long a request takes: percentiles",
      caption: `Means over trials with ${report.confidence * 100} % bands. Solid: response time, from the intended start. Dashed: service time, from the send. Hollow: too few requests for the percentile, or a baseline measured again.`,
      columns: ["treatment", "time", "percentile", "ms", "low", "high", "note"], rows, panels, options: heat?.options, tables: heat ? [heat.table] : [],
    } : null;
  }

  // 5. cost against rate -------------------------------------------------------------------------
  function rate(choices = {}) {
    if (!report.lines.length) return null;
    const parts = [...new Set(report.lines.filter((l) => !l.role).map((l) => l.part))];
    if (!parts.length) return null;
    const title = (p) => words.planes.find((x) => x.part === p)?.title ?? p;
    const value = parts.includes(choices.part) ? choices.part : parts.includes("total") ? "total" : parts[0];
    const lines = report.lines.filter((l) => !l.role && l.part === value);
    const match = (l, f) => Object.entries(l.factors).every(([k, v]) => String(f[k]) === String(v));
    const points = [], fits = [], band = [];
    const rows = [];
    for (const l of lines) {
      const first = report.treatments.find((t) => !t.control && match(l, t.factors));
      if (!first) continue;
      const words_ = Object.entries(l.factors).filter(([k]) => k === "mesh").map(([, v]) => String(v))[0] ?? name(first.id);
      const at = (x) => l.fixed_cores.estimate * 1000 + (l.per_request_us.estimate * x) / 1000;
      if (!l.warnings?.length) fits.push({ line: words_, id: first.id, x: l.from, y: at(l.from) }, { line: words_, id: first.id, x: l.to, y: at(l.to) });
      if (!l.warnings?.length) band.push(...dataFigures.band(l, dataFigures.halfOf(l.fixed_cores, 1000), dataFigures.halfOf(l.per_request_us, 1 / 1000), at, { line: words_, id: first.id }));
      for (const t of report.trials) {
        const x = t.metrics[families.answered], cores = t.metrics[`${families.cores}/${value}`];
        if (!t.valid || t.control || !match(l, t.factors) || !known(x) || !known(cores)) continue;
        const y = cores * 1000;
        const p = { line: words_, id: first.id, x, y, residual: y - at(x), tip: `${t.id}\n${amount(x)} /s: ${amount(y)} mC` };
        points.push(p);
        rows.push([words_, t.id, p.x, p.y, at(p.x), p.residual]);
      }
    }
    if (!points.length) return null;
    const ids = [...new Set(points.map((p) => p.id))];
    const legend = ids.map((id) => ({ ...legendOf([id])[0], text: points.find((p) => p.id === id).line }));
    const dots = (y) => Plot.dot(points, { x: "x", y, r: 4, symbol: (d) => look(d.id).symbol, stroke: (d) => look(d.id).color, fill: (d) => look(d.id).color, title: "tip", tip: tips, className: "mark-trial" });
    const rejected = lines.length - fits.length / 2;
    const frame = { ...base, marginLeft: 58, marginTop: 14, height: 300 };
    const x = (width) => ({ label: "answered requests per second", labelAnchor: "center", labelArrow: "none", ticks: Math.max(3, Math.round(width / 90)), tickFormat: amount, nice: true });
    return {
      id: "rate", title: "Cost against rate",
      caption: `CPU of each trial over the rate, with the fitted line and its ${report.confidence * 100} % band: a fixed cost and a cost per request. On the right, the distance of each trial from its line.${rejected ? ` ${rejected} of ${lines.length} treatments do not lie on a line, which is not drawn.` : ""}` + dataFigures.referenceNote(value, lines),
      columns: ["treatment", "trial", "rate /s", "CPU mC", "line mC", "residual mC"], rows,
      options: [{ name: "part", label: "Part", value, values: parts.map((p) => ({ value: p, label: title(p) })) }],
      panels: [
        { title: `CPU, ${title(value)} (millicores)`, legend,
          about: lines.map((l) => `${Object.values(l.factors).join(", ")}: ${amount(l.per_request_us.estimate)} µs per request and ${amount(l.fixed_cores.estimate * 1000)} mC fixed`).join("; "),
          plot: (width) => ({ ...frame, width, x: { ...x(width), zero: true }, y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount },
            marks: [Plot.areaY(band, { x: "x", y1: "low", y2: "high", z: "line", fill: (d) => look(d.id).color, fillOpacity: 0.18, className: "mark-band" }), Plot.line(fits, { x: "x", y: "y", z: "line", stroke: (d) => look(d.id).color, strokeWidth: 2, className: "mark-fit" }), ...dataFigures.references(value, lines), dots("y")] }) },
        ...(fits.length ? [{ title: "residuals (millicores)", about: "distance of each trial from the fitted line",
          plot: (width) => ({ ...frame, width, x: x(width), y: { label: null, grid: true, nice: true, tickFormat: signed },
            marks: [Plot.ruleY([0], { stroke: "currentColor" }), dots("residual")] }) }] : []),
      ],
    };
  }

  // 6. timeline of a trial -----------------------------------------------------------------------
  function timeline(choices = {}) {
    const all = content.timelines ?? [];
    if (!all.length) return null;
    const t = all.find((x) => x.trial === choices.trial) ?? all.find((x) => { const y = treatments.get(x.treatment); return y?.baseline && !y.control; }) ?? all[0];
    const seconds = t.seconds, samples = t.samples ?? [];
    const end = Math.max(0, ...seconds.map((s) => s.at + 1), ...samples.map((s) => s.at), ...(t.phases ?? []).map((p) => p.to));
    const rows = [];
    for (const s of seconds) rows.push([t.trial, s.at, s.asked, s.rate, s.errors, s.p50, s.p99, ...words.planes.map(() => undefined)]);
    for (const s of samples) rows.push([t.trial, s.at, undefined, undefined, undefined, undefined, undefined, ...words.planes.map((p) => (known(s.cores[p.part]) ? s.cores[p.part] * 1000 : undefined))]);
    rows.sort((a, b) => a[1] - b[1]);
    const frame = { ...base, marginLeft: 58, marginTop: 22, height: 190 };
    const x = { label: "seconds from the start of the load", labelAnchor: "center", labelArrow: "none", domain: [Math.min(0, ...(t.phases ?? []).map((p) => p.from)), end] };
    // One shading covers all faults, and one text, since those of several would hide what is below.
    const faults = (t.faults ?? []).filter((f) => f.at <= end).sort((a, b) => a.at - b.at), faulty = [];
    for (const f of faults) {
      const last = faulty.at(-1), to = Math.min(f.to, end);
      if (last && f.at <= last.to) last.to = Math.max(last.to, to);
      else faulty.push({ at: f.at, to });
    }
    const said = faults.length && report.setup.faults?.length ? report.setup.faults[0] : faults[0]?.text;
    const marks = (more, phasesIn) => [ // a width for the names of phases, which are left out where they would overlap
      Plot.rectX((t.phases ?? []).filter((p) => p.name === "measure"), { x1: "from", x2: "to", fill: color("noise"), fillOpacity: 0.6, className: "mark-measure" }),
      Plot.rectX(faulty, { x1: "at", x2: "to", fill: color("bad"), fillOpacity: 0.08, className: "mark-faulty" }),
      Plot.ruleX(faults, { x: "at", stroke: color("bad"), strokeWidth: 1, strokeOpacity: 0.6, className: "mark-fault" }),
      ...more,
      Plot.ruleX(t.phases ?? [], { x: "from", stroke: "currentColor", strokeOpacity: 0.4, strokeDasharray: "2 3" }),
      ...(phasesIn ? [Plot.text(t.phases ?? [], { x: "from", text: "name", frameAnchor: "top", textAnchor: "start", dx: 3, dy: -12, fill: color("muted"), filter: (p, i) => { const next = t.phases[i + 1]; return !next || ((next.from - p.from) / end) * (phasesIn - 80) > p.name.length * 6.5 + 6; } })] : []),
      ...(phasesIn && said ? [Plot.text([said], { text: (s) => s, frameAnchor: "top-right", textAnchor: "end", dy: -27, fill: color("bad") })] : []),
    ];
    const times = seconds.flatMap((s) => [["p50", s.p50], ["p99", s.p99]].filter(([, v]) => v > 0).map(([part, v]) => ({ at: s.at + 0.5, part, v })));
    const cores = samples.flatMap((s) => words.planes.filter((p) => known(s.cores[p.part])).map((p) => ({ at: s.at, part: p.part, title: p.title, v: s.cores[p.part] * 1000 })));
    const used = words.planes.filter((p) => cores.some((c) => c.part === p.part && c.v > 0));
    const ratePanel = (title, seconds) => ({ title, about: "responses and target rate, each second of the load",
        legend: [{ text: "answered", color: color("series2") }, ...(seconds.some((s) => known(s.asked)) ? [{ text: "asked for", color: "currentColor", dashed: true }] : []), ...(seconds.some((s) => s.errors) ? [{ text: "failed", color: color("bad"), symbol: "times" }] : [])],
        plot: (width) => ({ ...frame, marginTop: t.faults?.length ? 37 : frame.marginTop, height: frame.height + (t.faults?.length ? 15 : 0), width, x, y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount, ticks: 4 }, marks: marks([
          Plot.line(seconds.filter((s) => known(s.asked)), { x: (s) => s.at + 0.5, y: "asked", stroke: "currentColor", strokeDasharray: "4 3", className: "mark-asked-for" }),
          Plot.line(seconds, { x: (s) => s.at + 0.5, y: "rate", stroke: color("series2"), strokeWidth: 2, className: "mark-answered" }),
          Plot.dot(seconds.filter((s) => s.errors), { x: (s) => s.at + 0.5, y: "errors", symbol: "times", r: 2.5, stroke: color("bad"), strokeWidth: 1.5, className: "mark-failed" }),
        ], width) }) });
    // With faults the other treatments of the run are beside the chosen one, over the same seconds.
    const compared = [...new Map(all.filter((x) => faults.length && x.treatment !== t.treatment && !treatments.get(x.treatment)?.control).reverse().map((x) => [x.treatment, x])).values()].reverse().slice(0, 5);
    const panels = [
      ratePanel(compared.length ? `requests per second: ${name(t.treatment)}` : "requests per second", seconds),
      ...compared.map((x) => ratePanel(`requests per second: ${name(x.treatment)}`, x.seconds)),
      { title: compared.length ? `response time: ${name(t.treatment)} (ms, logarithmic)` : "response time (ms, logarithmic)", about: "median and 99th percentile of each second", legend: [{ text: "p50", color: color("series2") }, { text: "p99", color: color("series1"), dashed: true }],
        plot: (width) => ({ ...frame, width, x, y: { type: "log", label: null, grid: true, tickFormat: amount, ticks: 4 }, marks: marks([
          Plot.line(times.filter((d) => d.part === "p50"), { x: "at", y: "v", stroke: color("series2"), strokeWidth: 2, className: "mark-p50" }),
          Plot.line(times.filter((d) => d.part === "p99"), { x: "at", y: "v", stroke: color("series1"), strokeWidth: 2, strokeDasharray: "4 3", className: "mark-p99" }),
        ]) }) },
    ].filter((p) => !p.title.startsWith("response time") || times.length);
    if (used.length) panels.push({
      title: "CPU by plane (millicores)", about: "CPU of each plane between samples", legend: used.map((p) => ({ text: p.title, color: color(p.part) })),
      plot: (width) => ({ ...frame, width, x, y: { label: null, grid: true, zero: true, nice: true, tickFormat: amount, ticks: 4 }, marks: marks([
        Plot.areaY(cores.filter((c) => used.some((p) => p.part === c.part)), Plot.stackY({ order: used.map((p) => p.part) }, { x: "at", y: "v", z: "part", fill: (d) => color(d.part), fillOpacity: 0.85, stroke: "var(--page)", strokeWidth: 0.5, curve: "step-before", className: "mark-plane" })),
      ]) }),
    });
    const expected = (t.expectations ?? []).map((e, i) => ({ ...e, row: String(i), left: e.text, right: `${e.ok ? "met" : "missed"}${known(e.value) ? `, ${amount(e.value)}${e.unit ? " " + e.unit : ""}` : ""}` }));
    const spans = expected.flatMap((e) => (e.times ?? []).map(([from, to]) => ({ ...e, from, to, tip: `${e.text}\n${e.ok ? "met" : "missed"}: ${e.detail}` })));
    if (expected.length) panels.push({
      title: "targets", about: expected.map((e) => `${e.text}: ${e.right}${known(e.value) ? "" : `, ${e.detail}`}`).join("; "),
      plot: (width) => ({ ...frame, width, height: rowsHigh(expected.length) + 16, x, y: rowAxis(expected), marks: marks([
        Plot.barX(spans, { y: "row", x1: "from", x2: "to", insetTop: 24, insetBottom: 12, fill: (d) => (d.ok ? color("series2") : "var(--page)"), stroke: (d) => color(d.ok ? "series2" : "bad"), strokeWidth: 2, title: "tip", tip: tips, className: "mark-expected" }),
        ...rowLabels(expected, width, frame.marginLeft),
      ]) }),
    });
    const holds = { id: "expectations", title: `Targets of ${t.trial}`, columns: ["trial", "target", "met", "measured", "unit", "detail", "from s", "to s"],
      rows: expected.flatMap((e) => (e.times?.length ? e.times : [[undefined, undefined]]).map(([from, to]) => [t.trial, e.text, e.ok ? "yes" : "no", e.value, e.unit, e.detail, from, to])) };
    return {
      id: "timeline", title: "One trial, second by second",
      caption: "Rate, response time and CPU by plane as recorded during the trial. A gap in the rate: another treatment had the load. The shaded time is the measure phase; figures come from it alone." +
        (expected.length ? " Bars: the time that each target is about; hollow where it was missed." : ""),
      tables: expected.length ? [holds] : [],
      columns: ["trial", "second", "asked /s", "answered /s", "failed", "p50 ms", "p99 ms", ...words.planes.map((p) => `CPU ${p.title} mC`)], rows,
      options: [{ name: "trial", label: "Trial", value: t.trial, values: all.map((x) => ({ value: x.trial, label: x.trial })) }], panels,
    };
  }

  const capacity = (choices = {}) => {
    const of = tareCapacity(Plot, kit), searches = content.searches ?? [];
    if (!searches.length) return of.sweep({ report, families, look, name, legendOf, choices });
    const one = searches.find((s) => s.trial === choices.trial) ?? searches[0];
    return { ...of.search(one.found), options: [{ name: "trial", label: "Trial", value: one.trial, values: searches.map((s) => ({ value: s.trial, label: s.trial })) }] };
  };
  const makers = { differences, ladder, bill, trials, latency, capacity, rate, timeline, soak: dataFigures.soak, memory: dataFigures.memory, "change-times": dataFigures.changeTimes, "change-failures": dataFigures.changeFailures, "change-cpu": dataFigures.changeCPU, "change-parts": dataFigures.changeParts, "control-times": dataFigures.controlTimes, boundary: dataFigures.boundary, slopes: dataFigures.slopes };
  // The figures of the run's own question come first.
  const objective = content.searches?.length || report.expectations?.length;
  const first = ["soak", "ladder", ...((report.slopes ?? []).some((s) => s.option.startsWith("background")) ? ["slopes"] : []), ...(content.searches?.length ? ["differences"] : []), ...(objective ? ["capacity"] : []), "change-times", "change-failures", "change-cpu", "change-parts", "control-times", "boundary", ...(report.expectations?.length ? ["timeline"] : [])];
  return {
    figure: (id, choices) => makers[id]?.(choices) ?? null,
    ids: Object.keys(makers).filter((id) => makers[id]()?.panels.length).sort((a, b) => first.includes(b) - first.includes(a)),
    amount,
  };
};
