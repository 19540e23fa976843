// Where a client keeps what must outlive the process: cursors, the outbox, tokens.

/** Text by key. A `set` that returned (or resolved) survives the end of the process, if the store is one that lasts. */
export interface Storage {
  get(key: string): Promise<string | null> | string | null;
  set(key: string, value: string): Promise<void> | void;
  delete(key: string): Promise<void> | void;
  /** All entries whose key begins with prefix, in the order of their keys. */
  list(prefix: string): Promise<[key: string, value: string][]> | [key: string, value: string][];
}

/** A Storage that lasts as long as the object. */
export class MemoryStorage implements Storage {
  readonly #entries = new Map<string, string>();

  get(key: string): string | null {
    return this.#entries.get(key) ?? null;
  }

  set(key: string, value: string): void {
    this.#entries.set(key, value);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  list(prefix: string): [string, string][] {
    return [...this.#entries].filter(([key]) => key.startsWith(prefix)).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  }
}
