// Build the page: one HTML file without any address in it, next to the licences of what it holds.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "vite";

const OUT = new URL("../src/hitherto/picture/page/", import.meta.url);
const HERE = new URL("./", import.meta.url);

/** Name and hash of every source, so that a test can tell when the built page is older. */
function sources() {
  const inside = readdirSync(new URL("src", HERE), { recursive: true, withFileTypes: true });
  const files = inside.filter((f) => f.isFile()).map((f) => `${f.parentPath}/${f.name}`.split("/explore/").pop());
  const all = [...files, "index.html", "build.mjs", "package.json", "package-lock.json", "tsconfig.json"].sort();
  return all.map((name) => {
    const hash = createHash("sha256").update(readFileSync(new URL(name, HERE))).digest("hex");
    return `${hash}  ${name}`;
  });
}

/** The licences of the packages that are in the page. */
function licences() {
  const { dependencies } = JSON.parse(readFileSync(new URL("package.json", HERE)));
  return Object.entries(dependencies).map(([name, version]) => {
    const text = readFileSync(new URL(`node_modules/${name}/LICENSE`, HERE), "utf8");
    return `${name} ${version}\n\n${text}`;
  }).join("\n");
}

const result = await build({
  root: HERE.pathname,
  configFile: false,
  logLevel: "warn",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: { write: false, target: "es2022", modulePreload: false, cssCodeSplit: false, assetsInlineLimit: 1e9 },
});
const { output } = result;
const script = output.find((part) => part.type === "chunk").code;
const style = output.find((part) => part.fileName.endsWith(".css")).source;
let html = output.find((part) => part.fileName === "index.html").source;
const once = (pattern, text) => {
  if (!pattern.test(html)) throw new Error(`${pattern} is not in the page`);
  html = html.replace(pattern, () => text);
};
once(/\n?<script type="module"[^>]*><\/script>/, "");
once(/\n?<link rel="stylesheet"[^>]*>/, `\n<style>${style.trim()}</style>`);
once(/<\/body>/, `<script type="module">${script.trim().replaceAll("</script", "<\\/script")}</script>\n</body>`);
mkdirSync(OUT, { recursive: true });
writeFileSync(new URL("explore.html", OUT), html);
writeFileSync(new URL("LICENSES.txt", OUT), licences());
writeFileSync(new URL("sources.sha256", OUT), sources().join("\n") + "\n");
console.log(`explore.html: ${Buffer.byteLength(html)} bytes`);
