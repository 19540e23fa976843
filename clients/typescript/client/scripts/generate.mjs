// Writes src/generated from the backend's own documents. `--check` writes nothing and fails where a file is not up to date.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";
import { parse } from "yaml";
import openapiTS, { astToString } from "openapi-typescript";

const root = new URL("../../../../", import.meta.url);
const out = new URL("../src/generated/", import.meta.url);
const mark = (source) => `// Generated from ${source} by \`npm run generate\`. Do not edit.\n\n`;

/** Every generated file with its text. */
export async function generated() {
  const asyncapi = "handlers/live/asyncapi.yaml";
  const openapi = "handlers/rest/openapi.yaml";
  const ast = await openapiTS(new URL(openapi, root), { alphabetize: true });
  const document = parse(await readFile(new URL(openapi, root), "utf8"));
  return new Map([
    ["openapi.ts", mark(openapi) + astToString(ast)],
    ["operations.ts", mark(openapi) + operations(document)],
    ["frames.ts", mark(asyncapi) + (await frames(parse(await readFile(new URL(asyncapi, root), "utf8"))))],
  ]);
}

/** The socket's frames by what sends them, and what `data` of an event is by its type. */
async function frames(document) {
  const { schemas, messages } = document.components;
  // Those with an event's data by its type; here that is isEvent's to say.
  const typed = { TypedEvent: "EventFrame", TypedEvents: "EventsFrame" };
  const named = ($ref) => ((name) => typed[name] ?? name)($ref.split("/").at(-1));
  const sent = (operation) =>
    document.operations[operation].messages.map(({ $ref }) => resolve({ components: { messages } }, { $ref: $ref.replace("#/channels/device", "#/components") }));
  const titles = (operation) => sent(operation).map(({ payload }) => named(payload.$ref ?? payload.schema?.$ref ?? payload.allOf?.[0].$ref));
  const said = JSON.stringify({ ...schemas, TypedEvent: undefined, TypedEvents: undefined }).replaceAll("#/components/schemas/", "#/definitions/");
  const definitions = JSON.parse(said, (key, value) => (isAlternative(key, value) ? undefined : isAnything(value) ? { ...value, tsType: "unknown" } : value));
  const schema = {
    title: "Everything",
    type: "object",
    properties: Object.fromEntries(Object.keys(definitions).map((name) => [name, { $ref: `#/definitions/${name}` }])),
    definitions,
  };
  const text = await compile(schema, "Everything", { additionalProperties: false, bannerComment: "", unreachableDefinitions: false });
  const union = (name, about, operation) => `/** ${about} */\nexport type ${name} =\n  | ${titles(operation).join("\n  | ")};\n`;
  return [
    text.replace(/export interface Everything \{[^]*?\n\}\n/, ""),
    union("ClientFrame", "What a client sends.", "receive"),
    union("ServerFrame", "What the backend sends.", "send"),
  ].join("\n");
}

/** A schema that says what a value is for, and not what it is. */
function isAnything(value) {
  return typeof value?.description === "string" && Object.keys(value).length === 1;
}

/** Alternatives that only say which fields must be there: a type can't. */
function isAlternative(key, value) {
  return (key === "oneOf" || key === "anyOf") && value.every((one) => Object.keys(one).every((name) => name === "required"));
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
