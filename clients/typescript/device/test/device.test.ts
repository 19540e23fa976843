// What the journal and the index keep to, wherever a process ends.
import Database from "better-sqlite3";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { DeviceCall } from "@cairnhq/client";
import { openDevice, type OpenDevice, type OpenOptions, Store } from "../src/index.js";
import { schema } from "../src/schema.js";

let folder: string;
let devices: OpenDevice[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-device-"));
  devices = [];
});
afterEach(async () => {
  for (const device of devices) await device.close();
  rmSync(folder, { recursive: true, force: true });
});

const db = () => join(folder, "data", "device.db");
async function open(options: Partial<OpenOptions> = {}): Promise<OpenDevice> {
  const device = await openDevice({ db: db(), ...options });
  devices.push(device);
  return device;
}
async function close(device: OpenDevice): Promise<void> {
  devices.splice(devices.indexOf(device), 1);
  await device.close();
}
const call = (fields: Record<string, unknown>) => ({ type: "tool_call", run_id: "r", seq: 1, deadline: "2030-01-01T00:00:00Z", ...fields }) as DeviceCall;
const insert = (id: string, title: string) => call({ id, action: "insert", table: "notes", data: { title } });
const upsert = (id: string, of: string, vector: number[]) => call({ id, action: "vector_upsert", data: { id: of, content: of }, vector });
const nearest = async (device: OpenDevice, ...vector: number[]) => (await device.vectors.search(Float32Array.from(vector), 10)).map(({ id }) => id);

test("the file's tables are those of the Go device", () => {
  expect(schema).toBe(readFileSync(new URL("../../../device/schema.sql", import.meta.url), "utf8"));
});

test("a call that arrives many times at once is done once", async () => {
  const device = await open();
  const done = await Promise.all(Array.from({ length: 20 }, () => device.executor.execute(insert("c", "Once"))));
  expect(device.store.rows("notes")).toHaveLength(1);
  expect(new Set(done.map(({ answer }) => JSON.stringify(answer))).size).toBe(1);
  expect(done.filter(({ repeated }) => !repeated)).toHaveLength(1);
});

test("what a call did and its entry in the journal are there together, or neither", async () => {
  let device = await open();
  // The journal refuses its entry, as a full disk would: then nothing is done, and the call is tried again.
  device.store.db.exec("CREATE TRIGGER full BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'the disk is full'); END");
  for (const sent of [insert("c", "Door"), upsert("v", "n", [1, 0])]) await expect(device.executor.execute(sent)).rejects.toThrow("the disk is full");
  await close(device);
  device = await open();
  expect(device.store.rows("notes")).toEqual([]);
  expect(await nearest(device, 1, 0)).toEqual([]);
  device.store.db.exec("DROP TRIGGER full");
  expect((await device.executor.execute(insert("c", "Door"))).repeated).toBe(false);
  expect(device.store.rows("notes")).toHaveLength(1);
});

test("the journal answers after a restart, by the frame of the call, until a week after it was acknowledged", async () => {
  let now = Date.UTC(2026, 0, 1);
  let device = await open({ now: () => now });
  const request = { type: "data_request", id: "d", action: "select", table: "notes", deadline: "2030-01-01T00:00:00Z" } as DeviceCall;
  const mutation = { type: "mutation", id: "m", action: "insert", table: "notes", data: { title: "Approved" }, deadline: "2030-01-01T00:00:00Z" } as DeviceCall;
  const { answer } = await device.executor.execute(request);
  const made = await device.executor.execute(mutation);
  await close(device);
  device = await open({ now: () => now });
  expect(device.executor.unacknowledged()).toEqual([
    { id: "d", call: "data_request", answer },
    { id: "m", call: "mutation", answer: made.answer },
  ]);
  expect(await device.executor.execute(mutation)).toEqual({ answer: made.answer, repeated: true });
  device.executor.acknowledge("m");
  expect(device.executor.unacknowledged().map(({ id }) => id)).toEqual(["d"]);
  for (const [days, known] of [[6, true], [8, false]] as const) {
    await close(device);
    now = Date.UTC(2026, 0, 1 + days);
    device = await open({ now: () => now });
    expect(device.store.answered("m") !== undefined, `after ${days} days`).toBe(known);
    expect(device.store.answered("d")).toEqual(answer);
  }
});

test("a data_request only reads, and a mutation only writes", async () => {
  const device = await open();
  const refused = async (type: string, action: string) => {
    const sent = { type, id: `${type}.${action}`, action, table: "notes", data: { title: "x", id: "x" }, vector: [1], deadline: "" } as unknown as DeviceCall;
    return (await device.executor.execute(sent)).answer["error"];
  };
  for (const action of ["insert", "update", "delete", "vector_upsert", "vector_search"]) expect(await refused("data_request", action)).toMatch(/reads/);
  for (const action of ["select", "get", "vector_search"]) expect(await refused("mutation", action)).toMatch(/writes/);
  expect(device.store.rows("notes")).toEqual([]);
});

test("vectors that were stored are found, wherever a process ended before they were in the index", async () => {
  let device = await open();
  for (let i = 0; i < 5; i++) await device.executor.execute(upsert(`c${i}`, `n${i}`, [1, i]));
  await close(device);
  // A process that died between its commit and the index left this; so does a device that knows nothing of LanceDB.
  const other = new Database(db());
  const floats = Buffer.from(Float32Array.from([0, 1]).buffer);
  other.prepare("INSERT INTO vectors (id, projectId, content, vector) VALUES ('late', NULL, 'late', ?)").run(floats);
  other.prepare("UPDATE vectors SET vector = ? WHERE id = 'n0'").run(Buffer.from(Float32Array.from([-1, 0]).buffer));
  other.prepare("DELETE FROM vectors WHERE id = 'n4'").run();
  other.close();
  device = await open();
  expect(await nearest(device, 0, 1)).toEqual(["late", "n3", "n2", "n1", "n0"]);
  // The index is lost: it is made again.
  await close(device);
  rmSync(`${db()}.lance`, { recursive: true });
  device = await open();
  expect(await nearest(device, 0, 1)).toEqual(["late", "n3", "n2", "n1", "n0"]);
});

test("an index that fails loses nothing: the call is done, and found when the index is well", async () => {
  const failures: unknown[] = [];
  const device = await open({ onIndexError: (error) => failures.push(error) });
  await device.executor.execute(upsert("a", "n", [1, 0]));
  const good = device.vectors.catchUp.bind(device.vectors);
  device.vectors.catchUp = () => Promise.reject(new Error("no room"));
  expect((await device.executor.execute(upsert("b", "m", [0, 1]))).answer).toEqual({ ok: true });
  expect(failures).toHaveLength(1);
  const search = call({ id: "s", action: "vector_search", vector: [0, 1] });
  await expect(device.executor.execute(search)).rejects.toThrow("no room");
  device.vectors.catchUp = good;
  expect((await device.executor.execute(search)).answer).toMatchObject({ results: [{ id: "m" }, { id: "n" }] });
});

test("many writes leave few files in the index", async () => {
  const device = await open();
  for (let i = 0; i < 70; i++) await device.executor.execute(upsert(`c${i}`, `n${i % 40}`, [1, i]));
  expect(await nearest(device, 0, 1)).toHaveLength(10);
  expect(device.store.db.prepare("SELECT count(*) FROM vectorChanges").pluck().get()).toBe(0);
  // Each write leaves two or three where they are not put together.
  expect(readdirSync(`${db()}.lance`, { recursive: true }).length).toBeLessThan(70);
});

test("the client's storage is in the file, and nobody else reads the file", async () => {
  let device = await open();
  const { id, storage } = device;
  storage.set("a/%", "1");
  storage.set("a/b", "2");
  storage.set("a/b", "3");
  storage.set("a_b", "4");
  storage.set("b", "5");
  storage.delete("b");
  await close(device);
  device = await open();
  expect(device.id).toBe(id);
  expect(device.storage.list("a/")).toEqual([["a/%", "1"], ["a/b", "3"]]);
  expect(device.storage.get("b")).toBeNull();
  expect(statSync(db()).mode & 0o077).toBe(0);
});

test("a file of a newer version is refused, and left as it is", async () => {
  await close(await open());
  const file = new Database(db());
  file.pragma("user_version = 2");
  file.close();
  expect(() => new Store(db())).toThrow("newer version");
});
