// A device's parts, opened together.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Executor, type ExecutorOptions } from "./executor.js";
import { SqliteStorage } from "./storage.js";
import { Store } from "./store.js";
import { Vectors } from "./vectors.js";

export interface OpenOptions extends ExecutorOptions {
  /** The SQLite file; ":memory:" keeps nothing. */
  db: string;
  /** The folder of the vectors' index; absent: beside the file. */
  vectors?: string;
  now?: () => number;
}

/** What `createClient` takes, and what a program may look at. */
export interface OpenDevice {
  id: string;
  executor: Executor;
  storage: SqliteStorage;
  store: Store;
  vectors: Vectors;
  /** Closes the files. Calls in hand must be done: close the client first. */
  close(): Promise<void>;
}

/** Opens or makes a device. */
export async function openDevice(options: OpenOptions): Promise<OpenDevice> {
  const store = new Store(options.db, options.now);
  const passing = options.db === ":memory:" && options.vectors === undefined ? mkdtempSync(join(tmpdir(), "cairn-vectors-")) : undefined;
  try {
    const vectors = await Vectors.open(store, passing ?? options.vectors ?? `${options.db}.lance`);
    return {
      id: store.identity(),
      executor: new Executor(store, vectors, options),
      storage: new SqliteStorage(store),
      store,
      vectors,
      async close() {
        await vectors.close();
        store.close();
        if (passing) rmSync(passing, { recursive: true, force: true });
      },
    };
  } catch (error) {
    store.close();
    throw new Error(`the vectors of ${options.db} can't be opened: ${(error as Error).message}`, { cause: error });
  }
}
