// Makes the chart library of internal/show/page: plot.js and plot.LICENSE in a folder. The same
// packages (package-lock.json) give the same bytes.
//
//   tools/page/install.sh && node tools/page/build.mjs ~/.cache/tare/page internal/show/page/assets
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [packagesAt, to] = process.argv.slice(2);
if (!to) throw new Error("usage: node build.mjs PACKAGES FOLDER");
const modules = resolve(packagesAt, "node_modules");
const { build } = createRequire(join(modules, "from"))("esbuild");
const made = await build({
  absWorkingDir: here, nodePaths: [modules], entryPoints: ["entry.js"], bundle: true, minify: true, format: "iife", globalName: "Plot",
  target: "es2019", charset: "ascii", legalComments: "none", metafile: true, write: false,
});

const packages = new Set();
for (const output of Object.values(made.metafile.outputs)) for (const [file, { bytesInOutput }] of Object.entries(output.inputs)) {
  const m = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file);
  if (m && bytesInOutput > 0) packages.add(m[1]);
}
const about = [...packages].sort().map((name) => {
  const at = join(modules, name), p = JSON.parse(readFileSync(join(at, "package.json")));
  const file = readdirSync(at).find((f) => /^licen[cs]e/i.test(f));
  if (!file) throw new Error(`${name} has no license file`);
  return { title: `${name} ${p.version} (${p.license})`, text: readFileSync(join(at, file), "utf8").trim() };
});
const banner = `/* Made by tools/page/build.mjs; do not edit. Licenses: plot.LICENSE\n${about.map((a) => "   " + a.title).join("\n")} */\n`;
writeFileSync(join(to, "plot.js"), banner + made.outputFiles[0].text);
writeFileSync(join(to, "plot.LICENSE"), about.map((a) => `${a.title}\n\n${a.text}\n`).join("\n----\n\n"));
