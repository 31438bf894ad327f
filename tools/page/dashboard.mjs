// Checks Grafana dashboards against the schema that Grafana publishes: the types of @grafana/schema, with
// TypeScript. Unknown fields are errors. Prints one line for each finding.
//
//   node tools/page/dashboard.mjs ~/.cache/tare/page templates/grafana.json…
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [packagesAt, ...files] = process.argv.slice(2);
if (!files.length) throw new Error("usage: node dashboard.mjs PACKAGES DASHBOARD…");
const at = resolve(packagesAt);
const ts = createRequire(join(at, "node_modules", "from"))("typescript");

// The packages of panels, by the type of a panel.
const configurations = { table: "table/panelcfg/x/TablePanelCfg", barchart: "barchart/panelcfg/x/BarChartPanelCfg", timeseries: "timeseries/panelcfg/x/TimeSeriesPanelCfg", "state-timeline": "statetimeline/panelcfg/x/StateTimelinePanelCfg" };
const source = join(at, "dashboard-check.ts"); // exists in memory only
const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Node10, types: [] };
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
const read = new Map(); // the types, once
let text = "";
host.getSourceFile = (name, version, ...rest) => {
  if (name === source) return ts.createSourceFile(name, text, version);
  if (!read.has(name)) read.set(name, getSourceFile.call(host, name, version, ...rest));
  return read.get(name);
};
host.fileExists = (name) => name === source || fileExists.call(host, name);
host.readFile = (name) => (name === source ? text : readFile.call(host, name));

function check(file) {
  const dashboard = JSON.parse(readFileSync(file, "utf8"));
  // Fields that the Prometheus data source adds to annotations: the schema has none of a data source.
  const withoutExtensions = structuredClone(dashboard);
  for (const a of withoutExtensions.annotations.list) for (const field of ["expr", "step", "titleFormat", "textFormat"]) delete a[field];
  const found = [];
  const lines = [
    `import type { Dashboard } from "@grafana/schema";`,
    `type Plain<T> = T extends string ? \`\${T}\` : T extends number ? number : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;`,
    `export const dashboard: Plain<Dashboard> = ${JSON.stringify(withoutExtensions)};`,
  ];
  dashboard.panels.forEach((p, i) => {
    if (p.type === "row") return;
    const from = configurations[p.type];
    if (!from) { found.push(`panel ${p.title}: unknown type ${p.type}`); return; }
    const of = `import("@grafana/schema/dist/esm/raw/composable/${from}_types.gen")`;
    lines.push(`export const options${i}: Plain<${of}.Options> = ${JSON.stringify(p.options)};`);
    lines.push(`export const custom${i}: Plain<Partial<${of}.FieldConfig>> = ${JSON.stringify(p.fieldConfig.defaults.custom ?? {})};`);
  });
  text = lines.join("\n");
  const program = ts.createProgram([source], options, host);
  for (const d of ts.getPreEmitDiagnostics(program)) {
    const where = d.file && d.start !== undefined ? d.file.text.slice(Math.max(0, d.start - 60), d.start + 40).replace(/\s+/g, " ") : "";
    found.push(`${ts.flattenDiagnosticMessageText(d.messageText, " ")} near: ${where}`);
  }
  if (!program.getSourceFile(join(at, "node_modules/@grafana/schema/dist/types/index.d.ts"))) found.push("the types of @grafana/schema were not found");
  return found.map((f) => `${file}: ${f}`);
}

const found = files.flatMap(check);
for (const line of found) console.log(line);
process.exit(found.length ? 1 : 0);
