// A Storage in a folder, for Node: one file an entry, written whole or not at all.
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Storage } from "./storage.js";

const suffix = ".cairn";

/** Keeps entries in a folder that no other process uses. */
export class FileStorage implements Storage {
  readonly #folder: string;
  #made: Promise<unknown> | undefined;
  #serial = 0;
  readonly #writing = new Map<string, Promise<void>>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async get(key: string): Promise<string | null> {
    await this.#writing.get(key);
    try {
      return await readFile(this.#path(key), "utf8");
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return null;
      throw error;
    }
  }

  set(key: string, value: string): Promise<void> {
    return this.#after(key, async () => {
      this.#made ??= mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await this.#made;
      const path = this.#path(key);
      const temporary = `${path}.${this.#serial++}.tmp`;
      const file = await open(temporary, "w", 0o600);
      try {
        await file.writeFile(value);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    });
  }

  delete(key: string): Promise<void> {
    return this.#after(key, () => rm(this.#path(key), { force: true }));
  }

  async list(prefix: string): Promise<[string, string][]> {
    await Promise.all(this.#writing.values());
    const names = await readdir(this.#folder).catch((error: { code?: string }) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const keys = names
      .filter((name) => name.endsWith(suffix))
      .map((name) => decodeURIComponent(name.slice(0, -suffix.length)))
      .filter((key) => key.startsWith(prefix))
      .sort();
    const entries = await Promise.all(keys.map(async (key) => [key, await this.get(key)] as const));
    return entries.filter((entry): entry is [string, string] => entry[1] !== null);
  }

  // Writes of one key happen in their order.
  #after(key: string, work: () => Promise<void>): Promise<void> {
    const before = this.#writing.get(key) ?? Promise.resolve();
    const done = before.then(work, work);
    const settled = done
      .catch(() => undefined)
      .then(() => {
        if (this.#writing.get(key) === settled) this.#writing.delete(key);
      });
    this.#writing.set(key, settled);
    return done;
  }

  #path(key: string): string {
    return join(this.#folder, encodeURIComponent(key) + suffix);
  }
}
