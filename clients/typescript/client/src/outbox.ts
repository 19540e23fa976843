// What must reach the backend though the network, the backend or this process goes away meanwhile.
import type { FloatingRequest, HomeRequest } from "./frames.js";
import type { Storage } from "./storage.js";

/** Something to be sent until it has an end, always under the same id. */
export type Outgoing =
  | { kind: "request"; id: string; frame: HomeRequest | FloatingRequest }
  | { kind: "command"; id: string; method: string; path: string; body?: unknown };

const prefix = "cairn/outbox/";

/**
 * Entries in the order in which they were added, kept in a Storage: an entry is there before it is sent first, and goes when
 * its end is known. Whoever finds one sends it again under its id, and the backend does it once.
 */
export class Outbox {
  readonly #storage: Storage;
  readonly #entries = new Map<string, { key: string; entry: Outgoing }>();
  #next = 0;
  #loading: Promise<void> | undefined;
  #adding: Promise<unknown> = Promise.resolve();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Keeps an entry; false: there is one of that id, and that one counts. */
  add(entry: Outgoing): Promise<boolean> {
    const added = this.#adding.then(async () => {
      await this.load();
      if (this.#entries.has(entry.id)) return false;
      const key = prefix + String(this.#next++).padStart(12, "0");
      await this.#storage.set(key, JSON.stringify(entry));
      this.#entries.set(entry.id, { key, entry });
      return true;
    });
    this.#adding = added.catch(() => undefined);
    return added;
  }

  /** Its end is known. */
  async remove(id: string): Promise<void> {
    await this.load();
    const found = this.#entries.get(id);
    if (!found) return;
    this.#entries.delete(id);
    await this.#storage.delete(found.key);
  }

  /** Everything without an end, the oldest first. */
  async pending(): Promise<Outgoing[]> {
    await this.load();
    return [...this.#entries.values()].map(({ entry }) => entry);
  }

  /** Reads what an earlier process left. */
  load(): Promise<void> {
    this.#loading ??= (async () => {
      for (const [key, text] of await this.#storage.list(prefix)) {
        const entry = JSON.parse(text) as Outgoing;
        this.#entries.set(entry.id, { key, entry });
        this.#next = Math.max(this.#next, Number(key.slice(prefix.length)) + 1);
      }
    })();
    return this.#loading;
  }
}
