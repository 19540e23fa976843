import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import { FileStorage } from "../src/file.js";
import { MemoryStorage } from "../src/index.js";

const folders: string[] = [];
afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true })));
});

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "cairn-file-"));
  folders.push(made);
  return made;
}

const key = fc.constantFrom("cairn/a", "cairn/b/1", "cairn/b/2", "x/../y", "ñ %2F", "cairn/outbox/000000000010");
const step = fc.oneof(
  fc.record({ do: fc.constant("set" as const), key, value: fc.string() }),
  fc.record({ do: fc.constant("delete" as const), key }),
);

it("is a storage like any other, also for who opens it anew", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const at = await folder();
      const [file, memory] = [new FileStorage(at), new MemoryStorage()];
      // Not awaited one by one: writes of one key keep their order.
      await Promise.all(steps.map((one) => (one.do === "set" ? file.set(one.key, one.value) : file.delete(one.key))));
      for (const one of steps) one.do === "set" ? memory.set(one.key, one.value) : memory.delete(one.key);
      for (const storage of [file, new FileStorage(at)]) {
        for (const prefix of ["", "cairn/", "cairn/b/", "none"]) expect(await storage.list(prefix)).toEqual(memory.list(prefix));
        for (const one of steps) expect(await storage.get(one.key)).toBe(memory.get(one.key));
      }
    }),
    { numRuns: 15 },
  );
});

it("has nothing in a folder that is not there, and takes no half-written file for an entry", async () => {
  const at = await folder();
  const storage = new FileStorage(join(at, "not", "yet"));
  expect(await storage.get("k")).toBeNull();
  expect(await storage.list("")).toEqual([]);
  await storage.set("k", "v");
  await writeFile(join(at, "not", "yet", "k.cairn.0.tmp"), "hal");
  expect(await new FileStorage(join(at, "not", "yet")).list("")).toEqual([["k", "v"]]);
  expect((await readdir(join(at, "not", "yet"))).length).toBe(2);
});
