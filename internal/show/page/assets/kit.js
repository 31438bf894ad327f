// What figures of one run and of several runs share: formats of numbers, rows and frames of plots.
"use strict";
globalThis.tareKit = function (Plot, content) {
  const color = (role) => `var(--${role})`;
  const symbols = ["circle", "square", "triangle", "diamond", "star", "cross", "wye"];
  const rowHeight = 50;
  const style = { fontSize: "12px", fontFamily: "system-ui, sans-serif", overflow: "visible" };
  const base = { className: "plot", style, marginLeft: 18, marginRight: 24, marginTop: 6, marginBottom: 40 };

  const known = (v) => v !== undefined && v !== null && Number.isFinite(v);
  const titled = (m) => (m.unit ? `${m.title} (${m.unit})` : m.title);
  // amount is a number as axes and tips show it, to four digits.
  const amount = (v) => {
    if (!known(v)) return "?";
    const [whole, rest] = String(Number(v.toPrecision(4))).split(".");
    return (whole.includes("e") ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ",")) + (rest === undefined ? "" : "." + rest);
  };
  const signed = (v) => (v > 0 ? "+" : "") + amount(v).replace("-", "−");

  // tips show the title of a mark under the pointer; a still figure has none.
  const tips = content.still ? undefined : { format: { x: false, y: false, symbol: false, fill: false, stroke: false, z: false } };

  // rowLabels are the two texts above a row: name on the left, figure on the right.
  const rowLabels = (data, wide) => [
    Plot.text(data, { y: "row", text: "left", frameAnchor: "left", dy: -12, fontWeight: 600, fill: "currentColor" }),
    Plot.text(data, { y: "row", text: (d) => (d.note && wide ? d.right + ", " + d.note : d.right), frameAnchor: "right", dy: -12, fill: "currentColor" }),
  ];
  const rowAxis = (data) => ({ type: "band", domain: data.map((d) => d.row), axis: null, padding: 0 });
  const rowsHigh = (n) => n * rowHeight + base.marginTop + base.marginBottom;
  return { color, symbols, style, base, known, titled, amount, signed, tips, rowLabels, rowAxis, rowsHigh };
};
