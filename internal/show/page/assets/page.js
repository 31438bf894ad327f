// page.js draws the figures into the page and makes their tables, choices and downloads.
"use strict";
(function () {
  const content = JSON.parse(document.getElementById("content").textContent);
  const all = tareFigures(Plot, content);
  const ns = "http://www.w3.org/2000/svg";

  const h = (name, attributes = {}, ...children) => {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) k.startsWith("on") ? e.addEventListener(k.slice(2), v) : e.setAttribute(k, v);
    e.append(...children);
    return e;
  };

  const swatch = (item) => {
    const svg = document.createElementNS(ns, "svg");
    for (const [k, v] of Object.entries({ width: 16, height: 14, viewBox: "-8 -7 16 14", "aria-hidden": "true" })) svg.setAttribute(k, v);
    const shape = document.createElementNS(ns, "path");
    shape.setAttribute("d", item.dashed ? "M-8,0H8" : item.symbol ? tareSymbol(Plot, item.symbol) : "M-6,-6H6V6H-6Z");
    shape.setAttribute("fill", item.dashed || item.hollow || item.symbol === "times" ? "none" : item.color);
    shape.setAttribute("stroke", item.color);
    shape.setAttribute("stroke-width", "1.8");
    if (item.dashed) shape.setAttribute("stroke-dasharray", "4 3");
    svg.append(shape);
    return svg;
  };

  // save gives the reader a file; it leaves nothing behind.
  const save = (name, blob) => {
    const url = URL.createObjectURL(blob);
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const fileName = (figure, end) => `${content.name}-${figure.id}.${end}`;
  const colors = () => {
    const computed = getComputedStyle(document.documentElement), of = {};
    for (const role of content.roles) of[role] = computed.getPropertyValue("--" + role).trim();
    return of;
  };
  const still = (figure) => tareCompose(Plot, figure, { document, width: 760, columns: 1, colors: colors() });
  const svgText = (svg) => new XMLSerializer().serializeToString(svg);
  const csvCell = (v) => {
    if (v === undefined || v === null || (typeof v === "number" && !Number.isFinite(v))) return "";
    // A spreadsheet runs a text that begins like a formula.
    const s = typeof v === "string" && /^[=+\-@\t\r]/.test(v) ? "'" + v : String(v);
    return /[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s;
  };
  const csv = (figure) => [figure.columns, ...figure.rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
  const downloads = {
    SVG: (figure) => save(fileName(figure, "svg"), new Blob([svgText(still(figure))], { type: "image/svg+xml" })),
    PNG: (figure) => {
      const svg = still(figure), image = new Image(), scale = 2;
      const [width, height] = [svg.getAttribute("width"), svg.getAttribute("height")].map(Number);
      image.onload = () => {
        const canvas = h("canvas", { width: width * scale, height: height * scale });
        canvas.getContext("2d").drawImage(image, 0, 0, width * scale, height * scale);
        canvas.toBlob((blob) => save(fileName(figure, "png"), blob), "image/png");
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(svg));
    },
    CSV: (figure) => save(fileName(figure, "csv"), new Blob([csv(figure)], { type: "text/csv" })),
  };
  // further has a button for each table after the first: browsers block a second file from one click.
  const further = (figure, id) => {
    const t = figure.tables.find((t) => t.id === id);
    if (t) save(fileName({ id: `${figure.id}-${t.id}` }, "csv"), new Blob([csv(t)], { type: "text/csv" }));
  };

  const most = 1000; // rows of a table; the CSV has all
  const tableOf = (figure) => {
    const cell = (v) => {
      if (typeof v === "number" && Number.isFinite(v)) return h("td", { class: "number", "data-value": String(v) }, all.amount(v));
      return h("td", {}, v === undefined || v === null || Number.isNaN(v) ? "" : String(v));
    };
    const table = h("table", {},
      h("caption", {}, figure.title),
      h("thead", {}, h("tr", {}, ...figure.columns.map((c) => h("th", { scope: "col" }, c)))),
      h("tbody", {}, ...figure.rows.slice(0, most).map((row) => h("tr", {}, ...row.map((v, i) => (i === 0 ? h("th", { scope: "row" }, String(v ?? "")) : cell(v)))))));
    const box = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Data: ${figure.title}` }, table);
    return figure.rows.length > most ? [box, h("p", { class: "note" }, `The first ${most} of ${figure.rows.length} rows; the CSV has all.`)] : [box];
  };

  // section of one figure; its drawing follows the width of the page and the reader's choices.
  function section(id) {
    const choices = {};
    let figure = all.figure(id), drawn = 0;
    const panels = h("div", { class: "panels", "data-count": String(figure.panels.length) });
    const table = h("div");
    const data = h("details", { class: "data", ontoggle: () => data.open && fill() }, h("summary", {}, "Data as a table"), table);
    const fill = () => table.replaceChildren(...[figure, ...(figure.tables ?? [])].flatMap(tableOf));
    function draw() {
      drawn = panels.clientWidth;
      const style = getComputedStyle(panels), columns = style.gridTemplateColumns.split(" ").length || 1;
      const width = Math.max(260, Math.floor((drawn - parseFloat(style.columnGap || 0) * (columns - 1)) / columns));
      panels.replaceChildren(...figure.panels.map((panel) => {
        const svg = Plot.plot(panel.plot(width));
        svg.setAttribute("role", "img"); // with one label: those of its groups would name no element
        for (const g of svg.querySelectorAll("g[aria-label]")) g.removeAttribute("aria-label");
        svg.setAttribute("aria-label", `${panel.title}. ${panel.about ?? ""}`);
        const box = h("div", { class: "panel" }, h("h3", {}, panel.title));
        if (panel.legend?.length) box.append(h("ul", { class: "legend" }, ...panel.legend.map((item) => h("li", {}, swatch(item), item.text))));
        box.append(svg);
        return box;
      }));
      if (data.open) fill();
    }
    const controls = h("div", { class: "controls" });
    for (const option of figure.options ?? []) {
      if (option.values.length < 2) continue;
      const select = h("select", { onchange: () => { choices[option.name] = select.value; figure = all.figure(id, choices); draw(); } },
        ...option.values.map((v) => h("option", v.value === option.value ? { value: v.value, selected: "" } : { value: v.value }, v.label)));
      controls.append(h("label", {}, option.label + " ", select));
    }
    const buttons = h("div", { class: "downloads", role: "group", "aria-label": `Download: ${figure.title}` },
      ...Object.keys(downloads).map((kind) => h("button", { type: "button", "aria-label": `${kind} of ${figure.title}`, onclick: () => downloads[kind](figure) }, kind)),
      ...(figure.tables ?? []).map((t) => h("button", { type: "button", "aria-label": `CSV: ${t.id} of ${figure.title}`, onclick: () => further(figure, t.id) }, `CSV: ${t.id}`)));
    const whole = h("section", { id: "figure-" + id, class: "figure", "aria-labelledby": "title-" + id },
      h("h2", { id: "title-" + id }, figure.title), h("p", { class: "caption" }, figure.caption), controls, panels, h("div", { class: "below" }, data, buttons));
    new ResizeObserver(() => { if (panels.clientWidth !== drawn) draw(); }).observe(panels);
    return { whole, draw, title: figure.title, id, unlinked: figure.unlinked };
  }

  const figures = document.getElementById("figures");
  const sections = all.ids.map(section);
  figures.replaceChildren(...sections.map((s) => s.whole));
  document.getElementById("figure-links").replaceWith(...sections.filter((s) => !s.unlinked).map((s) => h("li", {}, h("a", { href: "#figure-" + s.id }, s.title))));
  for (const s of sections) s.draw();

  const root = document.documentElement, toggle = document.getElementById("theme");
  const dark = () => root.dataset.theme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  toggle.hidden = false;
  toggle.addEventListener("click", () => (root.dataset.theme = dark() ? "light" : "dark"));
  root.dataset.drawn = String(sections.length);
})();
