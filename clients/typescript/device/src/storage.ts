// What the client keeps, in the device's own file.
import type { Storage } from "@cairnhq/client";
import type { Store } from "./store.js";

/** A client's Storage in the table `storage`. What was set is on the disk when `set` returns. */
export class SqliteStorage implements Storage {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  get(key: string): string | null {
    return (this.#store.db.prepare("SELECT value FROM storage WHERE key = ?").pluck().get(key) as string | undefined) ?? null;
  }

  set(key: string, value: string): void {
    this.#store.db.prepare("INSERT INTO storage (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value").run(key, value);
  }

  delete(key: string): void {
    this.#store.db.prepare("DELETE FROM storage WHERE key = ?").run(key);
  }

  list(prefix: string): [string, string][] {
    const entries = this.#store.db.prepare("SELECT key, value FROM storage WHERE substr(key, 1, length(?)) = ? ORDER BY key").raw().all(prefix, prefix);
    return entries as [string, string][];
  }
}
