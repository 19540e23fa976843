// What a call does to the tables. It runs inside the caller's transaction; what is wrong with the call is a CallError.
import { randomUUID } from "node:crypto";
import type { Answer } from "@cairnhq/client";
import { type Call, CallError, fields, permitted, type Row } from "./call.js";
import { bound, conditions, type Bound } from "./query.js";
import type { Store } from "./store.js";
import { tables } from "./tables.js";
import { packed, vectorOf } from "./vector.js";

/** Does every action but `vector_search`, which is LanceDB's. */
export function perform(store: Store, call: Call): Answer {
  permitted(call);
  if (call.action === "vector_upsert") return upsert(store, call);
  if (!["select", "get", "insert", "update", "delete"].includes(call.action)) throw new CallError(`unknown action ${JSON.stringify(call.action)}`);
  const table = call.table ?? "";
  if (!tables.has(table)) throw new CallError(`unknown table ${JSON.stringify(table)}`);
  if (call.action === "select") {
    const { where, order, values } = conditions(table, call);
    return { rows: store.db.prepare(`SELECT * FROM ${table}${where}${order}`).all(...values) };
  }
  const data = fields(call.data, "data");
  if (call.action === "insert") return insert(store, table, data);
  if (call.action === "update") return update(store, table, data);
  const id = identifier(data);
  if (call.action === "get") return { row: one(store, table, id) };
  return remove(store, table, id);
}

function one(store: Store, table: string, id: string): Row | null {
  return (store.db.prepare(`SELECT * FROM ${table} WHERE id = ?`).get(id) as Row | undefined) ?? null;
}

function insert(store: Store, table: string, data: Row): Answer {
  for (const column of ["id", "createdAt", "updatedAt"]) if (Object.hasOwn(data, column)) throw new CallError(`${column} is made by the device`);
  const now = BigInt(store.now());
  const id = randomUUID();
  const values = new Map<string, Bound>([...settable(table, data), ["id", id], ["createdAt", now]]);
  if (table === "notes") values.set("updatedAt", now);
  const marks = [...values].map(() => "?").join(", ");
  store.db.prepare(`INSERT INTO ${table} (${[...values.keys()].join(", ")}) VALUES (${marks})`).run(...values.values());
  return { row: one(store, table, id) };
}

function update(store: Store, table: string, data: Row): Answer {
  const id = identifier(data);
  const updates = data["updates"];
  if (typeof updates !== "object" || updates === null || Array.isArray(updates) || Object.keys(updates).length === 0) {
    throw new CallError("data.updates must name what to change");
  }
  const values = new Map<string, Bound>(settable(table, updates as Row));
  if (table === "notes") values.set("updatedAt", BigInt(store.now()));
  const sets = [...values.keys()].map((column) => `${column} = ?`).join(", ");
  const { changes } = store.db.prepare(`UPDATE ${table} SET ${sets} WHERE id = ?`).run(...values.values(), id);
  if (changes === 0) throw new CallError(`no row ${id} in ${table}`);
  return { row: one(store, table, id) };
}

function remove(store: Store, table: string, id: string): Answer {
  const { changes } = store.db.prepare(`DELETE FROM ${table} WHERE id = ?`).run(id);
  if (table === "notes") store.db.prepare("DELETE FROM vectors WHERE id = ?").run(id);
  return { deleted: changes > 0 };
}

function upsert(store: Store, call: Call): Answer {
  const data = call.data === undefined ? {} : fields(call.data, "data");
  const { projectId, content } = data;
  if (typeof data["id"] !== "string" || data["id"] === "") throw new CallError("vector_upsert needs data.id");
  if (projectId !== undefined && projectId !== null && typeof projectId !== "string") throw new CallError("data.projectId is not a text");
  if (content !== undefined && content !== null && typeof content !== "string") throw new CallError("data.content is not a text");
  const vector = vectorOf(call);
  store.db
    .prepare(
      `INSERT INTO vectors (id, projectId, content, vector) VALUES (?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET projectId = excluded.projectId, content = excluded.content, vector = excluded.vector`,
    )
    .run(data["id"], projectId ?? null, content ?? "", packed(vector));
  return { ok: true };
}

function identifier(data: Row): string {
  const id = data["id"];
  if (typeof id !== "string" || id === "") throw new CallError("data.id is missing");
  return id;
}

function settable(table: string, values: Row): [string, Bound][] {
  const columns = tables.get(table)!;
  const names = Object.keys(values).sort();
  for (const name of names) if (!columns.includes(name)) throw new CallError(`${table} has no column ${JSON.stringify(name)} that may be set`);
  return names.map((name) => [name, bound(values[name])]);
}
