// Writes src/generated from the backend's own documents. `--check` writes nothing and fails where a file is not up to date.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import openapiTS, { astToString } from "openapi-typescript";

const root = new URL("../../../../", import.meta.url);
const out = new URL("../src/generated/", import.meta.url);
const mark = (source) => `// Generated from ${source} by \`npm run generate\`. Do not edit.\n\n`;

/** Every generated file with its text. */
export async function generated() {
  const openapi = "handlers/rest/openapi.yaml";
  const ast = await openapiTS(new URL(openapi, root), { alphabetize: true });
  const document = parse(await readFile(new URL(openapi, root), "utf8"));
  return new Map([
    ["openapi.ts", mark(openapi) + astToString(ast)],
    ["operations.ts", mark(openapi) + operations(document)],
  ]);
}

/** Which operations take an Idempotency-Key, and which a min_position: others would refuse the parameter. */
function operations(document) {
  const taking = (name) =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, o]) => o.parameters?.some((p) => resolve(document, p).name.toLowerCase() === name))
        .map(([method]) => `${method.toUpperCase()} ${path}`),
    );
  const set = (about, name, of) =>
    `/** Operations that take ${about}. */\nexport const ${name}: ReadonlySet<string> = new Set(${JSON.stringify(taking(of), null, 2)});\n`;
  return `${set("an Idempotency-Key", "takesKey", "idempotency-key")}\n${set("a min_position", "takesPosition", "min_position")}`;
}

function resolve(document, node) {
  if (!node.$ref) return node;
  return node.$ref.slice(2).split("/").reduce((at, key) => at[key], document);
}

/** The names of the generated files that are not up to date. */
export async function stale() {
  const names = [];
  for (const [name, text] of await generated()) {
    const have = await readFile(new URL(name, out), "utf8").catch(() => "");
    if (have !== text) names.push(name);
  }
  return names;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--check")) {
    const names = await stale();
    if (names.length > 0) throw new Error(`not up to date: ${names.join(", ")}; run npm run generate`);
  } else {
    for (const [name, text] of await generated()) await writeFile(new URL(name, out), text);
  }
}
