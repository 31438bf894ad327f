// Opens the list and the page of a run under way in headless Chromium, and prints what it finds as JSON, for
// browser_test.go. usage: node browser.mjs PACKAGES CHROMIUM SERVER TOKEN PATH…
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, chromium, server, token, ...paths] = process.argv.slice(2);
const load = createRequire(join(packages, "node_modules", "from"));
const axe = load("axe-core").source;
const browser = await load("playwright-core").chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const out = [];
for (const [colorScheme, width] of [["light", 360], ["dark", 1600]]) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  context.setDefaultTimeout(180_000); // on a busy machine
  const page = await context.newPage();
  let found = { errors: [], requests: [] };
  page.on("console", (m) => found.errors.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => found.errors.push(String(e.stack)));
  page.on("request", (r) => r.url().startsWith(server + "/") || r.url().startsWith("data:") || found.requests.push(r.url()));
  await page.goto(`${server}/?token=${token}`);
  const cookies = (await context.cookies()).map((c) => c.value);
  for (const path of paths) {
    found = { path, colorScheme, width, cookies, errors: [], requests: [] };
    await page.goto(server + path);
    if (path !== "/") await page.waitForFunction(() => !document.getElementById("live").hidden);
    await page.evaluate(axe);
    found.axe = await page.evaluate(async () => (await axe.run()).violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`));
    Object.assign(found, await page.evaluate(() => ({ owned: window.owned ?? null, text: document.body.innerText, chart: document.querySelector(".chart")?.getAttribute("aria-label") ?? "", overflow: document.documentElement.scrollWidth - innerWidth })));
    found.pdf = (await page.pdf()).length;
    out.push(found);
  }
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(out));
