// The executor: a call is done once, and what it did and the journal's entry are one transaction.
import Database from "better-sqlite3";
import type { Answer, DeviceCall, DeviceExecutor, JournalEntry } from "@cairnhq/client";
import { perform } from "./actions.js";
import { type Call, CallError, fields, permitted } from "./call.js";
import { whole } from "./query.js";
import type { Store } from "./store.js";
import { vectorOf } from "./vector.js";
import type { Vectors } from "./vectors.js";

const defaultNearest = 10;

interface Done {
  answer: Answer;
  repeated: boolean;
}

export interface ExecutorOptions {
  /** The index could not take what the file has; it is tried again. Nothing is lost. */
  onIndexError?: (error: unknown) => void;
}

/** Does calls on a store and its vectors. */
export class Executor implements DeviceExecutor {
  readonly #store: Store;
  readonly #vectors: Vectors;
  readonly #options: ExecutorOptions;
  readonly #running = new Map<string, Promise<Done>>();

  constructor(store: Store, vectors: Vectors, options: ExecutorOptions = {}) {
    this.#store = store;
    this.#vectors = vectors;
    this.#options = options;
  }

  async execute(call: DeviceCall): Promise<Done> {
    const before = this.#running.get(call.id);
    if (before) return { answer: (await before).answer, repeated: true };
    const running = this.#once(call);
    this.#running.set(call.id, running);
    try {
      return await running;
    } finally {
      this.#running.delete(call.id);
    }
  }

  acknowledge(id: string): void {
    this.#store.acknowledge(id);
  }

  unacknowledged(): JournalEntry[] {
    return this.#store.unacknowledged();
  }

  async #once(call: Call): Promise<Done> {
    if (call.action === "vector_search") {
      const known = this.#store.answered(call.id);
      if (known) return { answer: known, repeated: true };
      // It changes nothing: the journal's entry is all there is to write.
      const answer = await this.#search(call);
      this.#store.note(call.id, call.type, answer);
      return { answer, repeated: false };
    }
    const done = this.#store.transaction((): Done => {
      const known = this.#store.answered(call.id);
      if (known) return { answer: known, repeated: true };
      const answer = this.#attempt(call);
      this.#store.note(call.id, call.type, answer);
      return { answer, repeated: false };
    });
    // It is in the file, and so done; the index sees it now, or else before it is asked.
    await this.#vectors.catchUp().catch((error: unknown) => this.#options.onIndexError?.(error));
    return done;
  }

  // A transaction in the transaction, which is a savepoint: a call that fails leaves nothing, but its answer is journaled.
  #attempt(call: Call): Answer {
    try {
      return this.#store.transaction(() => perform(this.#store, call));
    } catch (error) {
      return inWords(error);
    }
  }

  async #search(call: Call): Promise<Answer> {
    try {
      permitted(call);
      const vector = vectorOf(call);
      const filters = call.filters === undefined ? {} : fields(call.filters, "filters");
      const project = filters["projectId"];
      if (project !== undefined && typeof project !== "string") throw new CallError("filter projectId is not a text");
      return { results: await this.#vectors.search(vector, whole(call.limit) || defaultNearest, project) };
    } catch (error) {
      return inWords(error);
    }
  }
}

// What the call itself is to blame for; a file that fails is no answer.
const refusals = /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/;

function inWords(error: unknown): Answer {
  if (error instanceof CallError || (error instanceof Database.SqliteError && refusals.test(error.code))) return { error: error.message };
  throw error;
}
