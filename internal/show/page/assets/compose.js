// compose.js makes one still SVG of a figure: title, panels with their legends, caption. The page
// uses it for downloads, `tare plot` for files.
//
// tareCompose(Plot, figure, {document, width, columns, colors, font, text}) is an <svg> element
// without CSS variables, classes or scripts. width is in px, 1/96 inch.
"use strict";
globalThis.tareCompose = function (Plot, figure, { document, width, columns = 1, colors, font = "system-ui, sans-serif", heading = true }) {
  const ns = "http://www.w3.org/2000/svg", gap = 20, size = 12;
  const element = (name, attributes, parent) => {
    const e = document.createElementNS(ns, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
    if (parent) parent.appendChild(e);
    return e;
  };
  const write = (parent, x, y, text, more = {}) => {
    element("text", { x, y, fill: colors.ink, "font-family": font, "font-size": size, ...more }, parent).textContent = text;
  };
  const wide = (text, of = size) => text.length * of * 0.55; // rough: a mean character of a sans-serif font
  const wrap = (text, room, of) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const last = lines.length - 1, longer = lines[last] ? lines[last] + " " + word : word;
      if (wide(longer, of) <= room || !lines[last]) lines[last] = longer;
      else lines.push(word);
    }
    return lines;
  };
  const solid = (value) => {
    const m = /^var\(--([\w-]+)\)$/.exec(value);
    return m ? colors[m[1]] ?? colors.ink : value === "currentColor" ? colors.ink : value;
  };
  const settle = (node) => {
    for (const a of ["fill", "stroke"]) {
      const v = node.getAttribute?.(a);
      if (v) node.setAttribute(a, solid(v));
    }
    if (!node.getAttribute?.("class")?.startsWith("mark-")) node.removeAttribute?.("class");
    for (const child of [...(node.childNodes ?? [])]) settle(child);
  };
  const swatch = (parent, x, y, item) => {
    const fill = solid(item.color), stroke = { stroke: fill, "stroke-width": 1.8 };
    if (item.dashed) element("line", { x1: x, x2: x + 14, y1: y, y2: y, ...stroke, "stroke-dasharray": "4 3" }, parent);
    else if (item.symbol) element("path", { d: tareSymbol(Plot, item.symbol), transform: `translate(${x + 7},${y})`, fill: item.hollow || item.symbol === "times" ? "none" : fill, ...stroke }, parent);
    else element("rect", { x: x + 1, y: y - 6, width: 12, height: 12, fill }, parent);
  };

  const svg = element("svg", { xmlns: ns, width, "font-family": font });
  const back = element("rect", { width, fill: colors.page }, svg);
  let y = 14;
  if (heading) {
    for (const line of wrap(figure.title, width - 24, 16)) write(svg, 12, (y += 14), line, { "font-size": 16, "font-weight": "bold" }), (y += 6);
    y += 8;
  }
  const each = (width - 24 - gap * (columns - 1)) / columns;
  for (let i = 0; i < figure.panels.length; i += columns) {
    let tallest = 0;
    figure.panels.slice(i, i + columns).forEach((panel, column) => {
      const x = 12 + column * (each + gap);
      let top = y + 14;
      write(svg, x, top, panel.title, { "font-weight": "bold" });
      top += 8;
      if (panel.legend?.length) {
        let at = x;
        top += 12;
        for (const item of panel.legend) {
          if (at > x && at + 34 + wide(item.text) > x + each) (at = x), (top += 18);
          swatch(svg, at, top - 4, item);
          write(svg, at + 19, top, item.text);
          at += 34 + wide(item.text);
        }
        top += 8;
      }
      const plot = Plot.plot({ ...panel.plot(each), document });
      const group = element("g", { transform: `translate(${x},${top})`, fill: colors.ink, "font-family": font, "font-size": size, "text-anchor": "middle" }, svg);
      for (const child of [...plot.childNodes]) if (child.tagName?.toLowerCase() !== "style") group.appendChild(child);
      tallest = Math.max(tallest, top + Number(plot.getAttribute("height")) - y);
    });
    y += tallest + gap / 2;
  }
  for (const line of wrap(figure.caption, width - 24, 11)) write(svg, 12, (y += 15), line, { "font-size": 11, fill: colors.muted });
  y += 12;
  svg.setAttribute("height", y);
  svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
  back.setAttribute("height", y);
  settle(svg);
  return svg;
};

// tareSymbol is the path of a symbol, 7 px wide.
globalThis.tareSymbol = function (Plot, name) {
  const shape = Plot["symbol" + name[0].toUpperCase() + name.slice(1)];
  let d = "";
  const n = (v) => Math.round(v * 100) / 100;
  const context = {
    moveTo: (x, y) => (d += `M${n(x)},${n(y)}`), lineTo: (x, y) => (d += `L${n(x)},${n(y)}`), closePath: () => (d += "Z"),
    rect: (x, y, w, h) => (d += `M${n(x)},${n(y)}h${n(w)}v${n(h)}h${n(-w)}Z`),
    arc: (x, y, r) => (d += `M${n(x + r)},${n(y)}A${n(r)},${n(r)},0,1,1,${n(x - r)},${n(y)}A${n(r)},${n(r)},0,1,1,${n(x + r)},${n(y)}`),
  };
  shape.draw(context, 45);
  return d;
};
