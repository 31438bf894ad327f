// The page of a run under way draws the states that the server sends. The list reads itself again while
// summaries are being made. Texts are set as text, never as HTML.
"use strict";
const live = document.getElementById("live");
if (live) {
  const at = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const e = document.createElement(tag);
    e.textContent = text ?? "";
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    return e;
  };
  const drawn = (tag, attributes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    return e;
  };
  const row = (...cells) => { const r = make("tr"); r.append(...cells); return r; };
  const head = (text) => make("th", text, { scope: "row" });
  const picture = (label, width, height, ...shapes) => { const e = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }); e.append(...shapes); return e; };
  const named = (name, text, attributes = {}) => make("td", text, { "data-name": name, ...attributes }); // phones show no heads
  const withCurve = (name, text, curve) => {
    const cell = named(name, text);
    if (curve.values.length > 1) {
      const high = Math.max(...curve.values, 0), low = Math.min(...curve.values, 0), range = high - low || 1;
      const points = curve.values.map((v, i) => `${1 + (i / (curve.values.length - 1)) * 118},${(1 + ((high - v) / range) * 18).toFixed(1)}`).join(" ");
      cell.append(" ", picture(`${curve.min} to ${curve.max}`, 120, 20, drawn("polyline", { points })));
    }
    return cell;
  };
  const kinds = { "◐": "running", "●": "good", "✗": "bad", "!": "bad" };
  const cells = (r) => {
    const cell = make("td", "", { class: "grid" });
    const marks = make("span", "", { role: "img", "aria-label": r.words || "no trials" });
    [...r.cells].forEach((mark, i) => marks.append(make("span", mark, { class: kinds[mark] ?? "", title: `block ${i + 1}` })));
    cell.append(marks);
    return cell;
  };
  // chart has the interval of each treatment on one axis, and where no difference is.
  const chart = (headline, rows) => {
    const bounds = [0, ...rows.flatMap((r) => [r.low, r.high])], range = Math.max(...bounds) - Math.min(...bounds);
    if (range === 0) return [];
    const power = 10 ** Math.floor(Math.log10(range / 4)), step = power * [1, 2, 5, 10].find((n) => n * power >= range / 4);
    const low = Math.floor(Math.min(...bounds) / step) * step, high = Math.ceil(Math.max(...bounds) / step) * step;
    const width = 640, height = 40 * rows.length + 24, x = (v) => 24 + ((v - low) / (high - low)) * (width - 48);
    const words = (text, attributes) => { const e = drawn("text", attributes); e.textContent = text; return e; };
    const line = (x1, x2, y1, y2, kind) => drawn("line", { x1, x2, y1, y2, class: kind });
    const shapes = [];
    for (let n = Math.round(low / step); n <= Math.round(high / step); n++) {
      const at = x(n * step);
      shapes.push(line(at, at, 0, height - 20, n === 0 ? "zero" : "tick"), words(String(Number((n * step).toPrecision(6))), { x: at, y: height - 4, "text-anchor": "middle" }));
    }
    rows.forEach((r, i) => {
      const y = 40 * i + 28;
      shapes.push(words(`${r.treatment}: ${r.text}`, { x: 4, y: y - 12 }), line(x(r.low), x(r.high), y, y, "interval"), drawn("circle", { cx: x(r.estimate), cy: y, r: 4 }));
    });
    const all = picture(`${headline}: ${rows.map((r) => `${r.treatment} ${r.text}`).join(", ")}`, width, height, ...shapes);
    all.setAttribute("class", "chart");
    return [make("p", headline, { class: "count" }), all];
  };
  const show = (s) => {
    at("place").textContent = [...s.place, s.bad ? `${s.bad} invalid or failed` : "", s.left ? `${s.left} left` : ""].filter(Boolean).join(" · ");
    at("headline").textContent = s.headline ?? "No difference yet: the first interval needs 3 blocks";
    at("answer").replaceChildren(...s.answer.map((line) => make("p", line)));
    at("chart").replaceChildren(...chart(s.headline, s.rows.filter((r) => r.low !== undefined)));
    at("rows").replaceChildren(...s.rows.map((r) => row(head(r.treatment), cells(r), make("td", r.text))));
    at("loads").replaceChildren(...s.loads.map((l) => row(head(l.treatment), named("Phase", l.phase), named("Asked /s", l.asked), withCurve("Answered /s", l.rate.now, l.rate), named("Errors", l.errors, l.errors ? { class: "bad" } : {}), withCurve("p50 ms", l.p50.now, l.p50), withCurve("p99 ms", l.p99.now, l.p99))));
    at("cpu").textContent = s.chosen ? `CPU by plane: ${s.chosen}` : "CPU by plane";
    at("cores").replaceChildren(...(s.cores ?? []).map((c) => row(head(c.name), named("Now", c.now), named("Min", c.min), named("Max", c.max), withCurve("", "", c))));
    at("messages").replaceChildren(...s.messages.map((m) => make("li", [m.at, m.trial ? `${m.trial}:` : "", m.text, m.hint ? `(hint: ${m.hint})` : ""].filter(Boolean).join(" "), m.bad ? { class: "bad" } : {})).reverse());
    live.hidden = false;
  };
  const state = at("state");
  const source = new EventSource(live.dataset.events);
  source.addEventListener("state", (e) => { if (state.textContent !== "Under way.") state.textContent = "Under way."; show(JSON.parse(e.data)); });
  source.addEventListener("end", (e) => { source.close(); state.textContent = e.data === "finished" ? "Finished." : "Interrupted: tare run --resume continues it."; });
  source.addEventListener("problem", (e) => { source.close(); state.textContent = e.data; });
  source.onerror = () => { if (source.readyState !== EventSource.CLOSED) state.textContent = "No connection: trying again."; };
}
const list = document.getElementById("list");
if (list && list.dataset.pending) {
  const again = async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
    if (list.contains(document.activeElement) && document.activeElement !== document.body) { setTimeout(again, 2000); return; }
    list.replaceChildren(...next.childNodes);
    if (next.dataset.pending) setTimeout(again, 2000);
  };
  setTimeout(again, 1000);
}
