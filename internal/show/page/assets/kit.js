// What figures of one run and of several runs share: formats of numbers, rows and frames of plots.
"use strict";
globalThis.tareKit = function (Plot, content) {
  const color = (role) => `var(--${role})`;
  const symbols = ["circle", "square", "triangle", "diamond", "star", "cross", "wye"];
  const rowHeight = 50;
  const style = { fontSize: "12px", fontFamily: "system-ui, sans-serif", overflow: "visible" };
  const base = { className: "plot", style, marginLeft: 18, marginRight: 24, marginTop: 6, marginBottom: 40 };

  const known = (v) => v !== undefined && v !== null && Number.isFinite(v);
  // changeUnit is the unit of a difference: that of percentages is the percentage point.
  const changeUnit = (unit) => (unit === "%" ? "points" : unit);
  const titled = (m) => (m.unit ? `${m.title} (${m.unit})` : m.title);
  // amount is a number as axes and tips show it: to four digits, or to as many as tell the ticks of an axis apart.
  const amount = (v, _, ticks) => {
    if (!known(v)) return "?";
    let digits = 4;
    const same = () => new Set(ticks.map((t) => Number(t).toPrecision(digits))).size < new Set(ticks).size;
    while (Array.isArray(ticks) && digits < 12 && same()) digits++;
    const [whole, rest] = String(Number(v.toPrecision(digits))).split(".");
    return (whole.includes("e") ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ",")) + (rest === undefined ? "" : "." + rest);
  };
  const signed = (v, i, ticks) => (v > 0 ? "+" : "") + amount(v, i, ticks).replace("-", "−");

  // tips show the title of a mark under the pointer; a still figure has none.
  const tips = content.still ? undefined : { format: { x: false, y: false, symbol: false, fill: false, stroke: false, z: false } };

  // sized is a number of bytes: 16 B, 64 KiB, 1 MiB.
  const sized = (v) => (v >= 1048576 ? `${amount(v / 1048576)} MiB` : v >= 1024 ? `${amount(v / 1024)} KiB` : `${amount(v)} B`);
  // levelAxis is the axis of a factor's numbers: logarithmic over a wide range, with the levels as its ticks. (A log scale of
  // D3 leaves out labels of ticks that are no powers of ten.)
  const levelAxis = (factor, values, width) => {
    const levels = [...new Set(values)].sort((a, b) => a - b), format = factor.endsWith("Size") ? sized : amount;
    const log = levels[0] > 0 && levels.at(-1) / levels[0] >= 20;
    const at = (v) => (log ? Math.log(v / levels[0]) / Math.log(levels.at(-1) / levels[0]) : (v - levels[0]) / (levels.at(-1) - levels[0]));
    const ticks = [], room = 58 / Math.max(width - 90, 100);
    for (const v of levels) if (!ticks.length || at(v) - at(ticks.at(-1)) >= room) ticks.push(v);
    return { type: log ? "symlog" : "linear", label: factor + (factor === "rate" ? " (requests per second)" : "") + (log ? ", logarithmic" : ""), labelAnchor: "center", labelArrow: "none", ticks, tickFormat: format };
  };
  // within is a figure with its interval.
  const within = (figure, interval) => (!interval || interval.startsWith("±") ? `${figure} ${interval}`.trim() : `${figure} (${interval})`);
  // meshName is a level of the factor mesh in words.
  const meshName = (level) => (String(level) === "none" ? "no mesh" : String(level));
  // shortened is a name of at most n characters: what is cut is in the middle, since names differ at their ends.
  const shortened = (text, n) => (text.length <= n ? text : text.slice(0, Math.ceil((n - 1) / 2)) + "…" + text.slice(text.length - Math.floor((n - 1) / 2)));

  // rowLabels are the two texts above a row: name on the left, figure on the right. The note, then the interval, are
  // left out before a long name is cut.
  const rowLabels = (data, width, margin = base.marginLeft) => {
    const room = (width - margin - base.marginRight) / 7.4; // mean characters of a sans-serif font, bold
    const texts = data.map((d) => {
      const fits = (text) => d.left.length + text.length + 2 <= room;
      const noted = d.note && width > 420 ? `${d.right}, ${d.note}` : d.right;
      const right = [noted, d.right].find(fits) ?? d.right.split(/ [±(]/)[0]; // the interval is drawn
      const most = Math.max(6, Math.floor(room) - right.length - 2);
      return { row: d.row, left: shortened(d.left, most), right };
    });
    return [
      Plot.text(texts, { y: "row", text: "left", frameAnchor: "left", dy: -12, fontWeight: 600, fill: "currentColor" }),
      Plot.text(texts, { y: "row", text: "right", frameAnchor: "right", dy: -12, fill: "currentColor" }),
    ];
  };
  const rowAxis = (data) => ({ type: "band", domain: data.map((d) => d.row), axis: null, padding: 0 });
  const rowsHigh = (n) => n * rowHeight + base.marginTop + base.marginBottom;
  return { color, symbols, style, base, known, changeUnit, titled, amount, signed, tips, rowLabels, rowAxis, rowsHigh, levelAxis, shortened, within, meshName };
};
