// A thread followed live: its newest rows fetched, then its stream from there, merged by the reducer.
import { sleep } from "./backoff.js";
import { type Clock, systemClock } from "./clock.js";
import type { Cursor } from "./cursor.js";
import type { Row } from "./rows.js";
import type { Api } from "./rest.js";
import type { Reset, Subscription, Want } from "./subscription.js";
import { emptyTimeline, type Timeline, type TimelineAction, timelineReducer } from "./timeline.js";

/** What a follower needs of a client. */
export interface FollowerClient {
  readonly api: Api;
  subscribe(want: Want): Subscription;
}

export interface FollowerOptions {
  signal?: AbortSignal;
  /** How many rows are fetched at first, and by `older`; 200. */
  limit?: number;
  clock?: Clock;
}

/** Iterates the states of a timeline: the newest one whenever it changed, so a slow reader misses states but no row. */
export class TimelineFollower implements AsyncIterable<Timeline> {
  readonly #client: FollowerClient;
  readonly #thread: string;
  readonly #options: FollowerOptions;
  #state = emptyTimeline;
  #changed = false;
  #wake: (() => void) | undefined;
  #older = true;
  #subscription: Subscription | undefined;

  constructor(client: FollowerClient, thread: string, options: FollowerOptions = {}) {
    this.#client = client;
    this.#thread = thread;
    this.#options = options;
  }

  /** The newest state. */
  get state(): Timeline {
    return this.#state;
  }

  /** Whether there are rows older than those that were loaded. */
  get hasOlder(): boolean {
    return this.#older;
  }

  /** Loads a page of older rows. */
  async older(): Promise<void> {
    const first = this.#state.rows[0];
    if (!first) return;
    const page = await this.#fetch({ direction: "before", seq: first.seq, limit: this.#options.limit ?? 200 });
    this.#older = page.has_older;
    this.#apply({ type: "page", entries: page.entries as Row[] });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Timeline, void, undefined> {
    const from = await this.#tail();
    let failure: unknown;
    let ended = false;
    const following = this.#follow(from)
      .catch((error: unknown) => {
        failure = error;
      })
      .finally(() => {
        ended = true;
        this.#wake?.();
      });
    try {
      for (;;) {
        if (this.#changed) {
          this.#changed = false;
          yield this.#state;
        } else if (ended) {
          if (failure) throw failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.#subscription?.close();
      this.#subscription = undefined;
      await following;
    }
  }

  async #follow(from: Cursor): Promise<void> {
    for (let after: Cursor | undefined = from; after; ) {
      const subscription: Subscription = this.#client.subscribe({
        stream: `thread-${this.#thread}`,
        after,
        live: true,
        ...(this.#options.signal ? { signal: this.#options.signal } : {}),
      });
      this.#subscription = subscription;
      const reset = await this.#take(subscription);
      if (reset?.reason === "access") throw new Error("the thread may not be read any more");
      if (!reset || !this.#subscription) return;
      // From where the rows end, which may be before the head: a read model may be behind.
      await sleep(this.#options.clock ?? systemClock, 100, this.#options.signal);
      this.#apply({ type: "reset" });
      after = await this.#tail();
    }
  }

  // Takes what comes until a reset, which it answers; nothing where it ends otherwise.
  async #take(subscription: Subscription): Promise<Reset | undefined> {
    for await (const item of subscription) {
      if (item.type === "reset") return item;
      this.#apply(item.type === "event" ? { type: "event", event: item.event } : { type: "live", live: item.live });
      const last = this.#state.rows.at(-1);
      if (item.type === "event" && last?.seq === item.event.seq && last.unformatted) void this.#format(last.seq);
    }
    return undefined;
  }

  async #tail(): Promise<Cursor> {
    const page = await this.#fetch({ direction: "tail", limit: this.#options.limit ?? 200 });
    this.#older = page.has_older;
    this.#apply({ type: "page", entries: page.entries as Row[] });
    const last = page.entries.at(-1);
    return last ? { after: last.seq, hash: last.hash } : { after: page.window.max_seq };
  }

  // The read model may not have the row yet; until it does the row is shown as the model wrote it.
  async #format(seq: number): Promise<void> {
    for (let attempt = 0; attempt < 8 && !this.#options.signal?.aborted; attempt++) {
      const page = await this.#fetch({ direction: "after", seq: seq - 1, limit: 1 }).catch(() => undefined);
      if (page && page.entries.length > 0) return this.#apply({ type: "page", entries: page.entries as Row[] });
      await sleep(this.#options.clock ?? systemClock, 100 * 2 ** attempt);
    }
  }

  async #fetch(query: { direction: "tail" | "before" | "after"; seq?: number; limit: number }) {
    const { data } = await this.#client.api.GET("/api/v1/threads/{thread}/timeline", {
      params: { path: { thread: this.#thread }, query },
      ...(this.#options.signal ? { signal: this.#options.signal } : {}),
    });
    return data!;
  }

  #apply(action: TimelineAction): void {
    const next = timelineReducer(this.#state, action);
    if (next === this.#state) return;
    this.#state = next;
    this.#changed = true;
    this.#wake?.();
  }
}
