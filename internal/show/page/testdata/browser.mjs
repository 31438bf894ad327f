// Opens pages in headless Chromium and prints what it finds as JSON, for browser_test.go.
// usage: node browser.mjs PACKAGES CHROMIUM FILE…
import { createRequire } from "node:module";
import { join } from "node:path";
import { readFileSync } from "node:fs";

const [packages, chromium, ...files] = process.argv.slice(2);
// The first file is opened on a light wide screen and on a dark phone, the others by turns on a light phone and on a dark wide screen.
const settings = (nth) => (nth === 0 ? [["light", 1600], ["dark", 360]] : nth % 2 ? [["light", 360]] : [["dark", 1600]]);
const load = createRequire(join(packages, "node_modules", "from"));
const axe = load("axe-core").source;
const browser = await load("playwright-core").chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });

// marks are the positions of a figure's marks, as values of its scales.
function marks() {
  const at = (e) => {
    let [x, y] = [0, 0];
    const move = /translate\(([-\d.e]+),([-\d.e]+)\)/.exec(e.getAttribute("transform") ?? "");
    if (move) [x, y] = [Number(move[1]), Number(move[2])];
    return [x + Number(e.getAttribute("cx") ?? 0), y + Number(e.getAttribute("cy") ?? 0)];
  };
  const value = (scale, v) => (scale.invert ? scale.invert(v) : v);
  const of = {};
  for (const section of document.querySelectorAll(".figure")) {
    of[section.id] = [...section.querySelectorAll(".panel")].map((panel) => {
      const svg = panel.querySelector("svg.plot"), x = svg.scale("x"), y = svg.scale("y");
      const group = (name) => svg.querySelectorAll(`.mark-${name} > *`);
      return {
        title: panel.querySelector("h3").textContent, about: svg.getAttribute("aria-label"),
        estimates: [...group("estimate")].map((e) => value(x, at(e)[0])),
        intervals: [...group("interval")].map((e) => e.getAttribute("d").match(/-?[\d.]+(e-?\d+)?/g).map(Number)).map(([a, , b]) => [value(x, a), value(x, b)]),
        levels: [...group("level")].map((e) => at(e)).map(([a, b]) => [value(x, a), value(y, b)]),
        levelIntervals: [...group("level-interval")].map((e) => e.getAttribute("d").match(/-?[\d.]+(e-?\d+)?/g).map(Number)).map(([, a, , b]) => [value(y, a), value(y, b)]),
        trials: [...group("trial")].map((e) => at(e)).map(([a, b]) => [value(x, a), value(y, b)]),
        percentiles: [...group("percentile")].map((e) => at(e)).map(([a, b]) => [value(x, a), value(y, b)]),
        probes: [...group("probe"), ...group("rate")].map((e) => at(e)).map(([a, b]) => [value(x, a), value(y, b)]),
        runs: [...group("run")].map((e) => at(e)).map(([a, b]) => [value(x, a), value(y, b)]),
        changes: [...group("change")].map((e) => [value(x, Number(e.getAttribute("x1"))), 0]),
        planes: [...group("plane")].map((e) => Number(e.getAttribute("width")) + 1).map((w) => value(x, w + x.range[0]) - value(x, x.range[0])),
        answered: [...group("answered")].flatMap((e) => e.getAttribute("d").match(/-?[\d.]+,-?[\d.]+/g).map((p) => p.split(",").map(Number))).map(([a, b]) => [value(x, a), value(y, b)]),
        bars: [...group("expected"), ...group("faulty")].map((e) => Number(e.getAttribute("x"))).map((v) => value(x, v)),
        dots: group("slice").length + group("heat").length,
      };
    });
  }
  return of;
}

const out = [];
for (const file of files) for (const [colorScheme, width] of settings(files.indexOf(file))) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, acceptDownloads: true });
  context.setDefaultTimeout(180_000); // on a busy machine
  const page = await context.newPage(), found = { file, colorScheme, width, errors: [], requests: [] };
  page.on("console", (m) => found.errors.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => found.errors.push(String(e.stack)));
  page.on("request", (r) => r.url().startsWith("file://" + file) || r.url().startsWith("data:") || found.requests.push(r.url()));
  await page.goto("file://" + file);
  await page.waitForFunction(() => document.documentElement.dataset.drawn);
  for (const details of await page.locator("details").all()) await details.evaluate((d) => (d.open = true));
  await page.waitForFunction(() => [...document.querySelectorAll(".figure details")].every((d) => d.querySelector("table")));
  Object.assign(found, await page.evaluate(() => ({
    owned: window.owned ?? null, text: document.body.innerText, overflow: document.documentElement.scrollWidth - innerWidth,
    background: getComputedStyle(document.documentElement).backgroundColor,
    tables: Object.fromEntries([...document.querySelectorAll(".figure")].map((f) => [f.id, [...f.querySelector("tbody").rows].map((tr) => [...tr.children].map((c) => (c.dataset.value !== undefined ? Number(c.dataset.value) : c.textContent)))])),
  })));
  found.further = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".figure")].map((f) => [f.id, [...f.querySelectorAll("table")].slice(1).map((t) => t.tBodies[0].rows.length)])));
  found.marks = await page.evaluate(marks);
  found.ticks = await page.evaluate(() => {
    const axis = Plot.plot({ y: { domain: [134.251, 134.262], ticks: 4, label: null, tickFormat: tareKit(Plot, {}).amount }, marks: [Plot.dot([134.251], { y: (v) => v })] });
    return [...axis.querySelectorAll("text")].map((t) => t.textContent);
  });
  await page.evaluate(axe);
  found.axe = await page.evaluate(async () => (await axe.run()).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`));
  if (width === 1600 && colorScheme === "light") {
    found.downloads = {};
    for (const kind of ["SVG", "PNG", "CSV"]) {
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`#figure-differences .downloads button >> text=${kind}`).click()]);
      found.downloads[kind] = readFileSync(await download.path()).toString(kind === "PNG" ? "base64" : "utf8");
    }
    // Chromium drops some of many downloads in a row, so the content is taken before it is saved.
    await page.evaluate(() => { const make = URL.createObjectURL; window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob); return make.call(URL, blob); }; });
    found.tablesOf = {};
    for (const button of await page.locator(".downloads button").all()) {
      const name = await button.textContent();
      if (!name.startsWith("CSV")) continue;
      const figure = await button.evaluate((b) => b.closest(".figure").id);
      await button.click();
      (found.tablesOf[figure] ??= []).push(await page.evaluate(() => window.saved.at(-1).text()));
    }
    found.pdf = (await page.pdf()).length;
    await page.locator("#theme").click();
    found.toggled = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    // Every control is reached by the keyboard.
    found.controls = await page.evaluate(() => document.querySelectorAll("button:not([hidden]), select, a[href], summary, [tabindex='0']").length);
    const reached = new Set();
    await page.evaluate(() => { document.activeElement?.blur(); window.scrollTo(0, 0); let n = 0; for (const e of document.querySelectorAll("*")) e.dataset.nth = n++; });
    for (let i = 0; i < found.controls + 5; i++) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement?.dataset.nth));
    }
    found.reached = [...reached].filter((n) => n !== undefined && n !== "0").length;
  }
  if (width === 1600) found.pdf ??= (await page.pdf()).length;
  out.push(found);
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(out));
