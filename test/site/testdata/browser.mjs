// Opens pages of the site in headless Chromium, and prints its findings as JSON, for site_test.go.
// usage: node browser.mjs PACKAGES CHROMIUM SERVER PATH…
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, chromium, server, ...paths] = process.argv.slice(2);
const load = createRequire(join(packages, "node_modules", "from"));
const axe = load("axe-core").source;
const browser = await load("playwright-core").chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const out = [];
// Each page has both widths and both schemes, in turn the first two pairs or the last two.
for (const [pair, [colorScheme, width]] of [["light", 360], ["dark", 1600], ["dark", 360], ["light", 1600]].entries()) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  context.setDefaultTimeout(180_000); // on a busy machine
  const page = await context.newPage();
  let found = {};
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && found.errors.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => found.errors.push(String(e.stack)));
  page.on("request", (r) => r.url().startsWith(server + "/") || /^(data|blob):/.test(r.url()) || found.requests.push(r.url()));
  page.on("response", (r) => r.status() >= 400 && found.errors.push(`${r.status()} ${r.url()}`));
  for (const path of paths.filter((_, at) => at % 2 === pair >> 1)) {
    found = { path, colorScheme, width, errors: [], requests: [] };
    await page.goto(server + path, { waitUntil: "networkidle" });
    if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `${path.replaceAll("/", "_")}${colorScheme}.png`) });
    await page.evaluate(axe);
    found.axe = await page.evaluate(async () => (await axe.run()).violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`));
    Object.assign(found, await page.evaluate(() => ({ title: document.title, overflow: document.documentElement.scrollWidth - innerWidth })));
    out.push(found);
  }
  // The search finds a warning by its code.
  found = { path: "search", colorScheme, width, errors: [], requests: [] };
  await page.goto(server + paths[0], { waitUntil: "networkidle" });
  if (width < 1000) await page.click("label[for=__search].md-header__button");
  await page.fill(".md-search__input", "requests-not-conserved"); // whole: a half word is an invalid query
  for (const end = Date.now() + 180_000; Date.now() < end; ) { // until the index is loaded
    await page.press(".md-search__input", "End"); // the search follows keys
    if (await page.waitForSelector(".md-search-result__item a", { timeout: 5_000, state: "attached" }).catch(() => null)) break;
  }
  found.title = await page.textContent(".md-search-result__item");
  out.push(found);
  // The selector lists all versions. Another one is opened.
  found = { path: "versions", colorScheme, width, errors: [], requests: [] };
  await page.goto(server + paths[1], { waitUntil: "networkidle" });
  await page.focus(".md-version__current");
  const links = page.locator(".md-version__link");
  await links.first().waitFor();
  const versions = (await links.allTextContents()).map((text) => text.trim());
  const other = versions.find((v) => !paths[1].startsWith(`/${v}/`));
  if (other) {
    await links.filter({ hasText: other }).click();
    await page.waitForURL(`**/${other}/**`);
  }
  found.title = [...versions, new URL(page.url()).pathname].join(" ");
  out.push(found);
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(out));
