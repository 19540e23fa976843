// A subscription: the events of a stream or a scope, each exactly once and in order, across reconnects and restarts.
import { jitter } from "./backoff.js";
import { genesis, IntegrityError, type Subtle, verify } from "./chain.js";
import type { Clock } from "./clock.js";
import { type Cursor, Place } from "./cursor.js";
import type { ClientFrame, Frame, LiveFrame, StreamEvent } from "./frames.js";
import type { Storage } from "./storage.js";

/** What to follow. */
export interface Want {
  /** A stream, such as `thread-…`; or else `scope`. */
  stream?: string;
  /** A scope that may be read, such as `user-…`. */
  scope?: string;
  /** Only of a scope. */
  filter?: { agent_id?: string; types?: string[] };
  /** What one has: 0 is the beginning, absent is from now on. A cursor that was kept under `name` goes before. */
  after?: number | Cursor;
  /** Keeps the cursor under this name, so that the subscription goes on there after a restart. */
  name?: string;
  /** `chain` (the default) checks hashes and digests; `order` only that no event is missing, for half the bytes. */
  verify?: "chain" | "order";
  /** Whether provisional frames come too; they move no cursor, and some are left out where they are not taken in time. */
  live?: boolean;
  signal?: AbortSignal;
}

/** The subscription has ended on the backend: load the read model, then ask for the next item; what is after `head` follows. */
export interface Reset {
  type: "reset";
  reason: string;
  head: number;
  headHash?: string;
}

export type Item = { type: "event"; event: StreamEvent } | { type: "live"; live: LiveFrame } | Reset;

/** A refusal that trying again does not change. */
export class SubscribeError extends Error {
  override readonly name = "SubscribeError";
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(`${message} (${code})`);
  }
}

/** What a subscription needs of the one who runs it. */
export interface Runner {
  send(frame: ClientFrame): boolean;
  /** A new id, by which frames for this subscription are found. */
  attach(subscription: Subscription): string;
  detach(id: string): void;
  /** It has ended. */
  forget?(subscription: Subscription): void;
  readonly storage: Storage;
  readonly subtle: Subtle;
  readonly clock: Clock;
  /** So many items wait for the consumer; more are asked for again when they are taken. */
  readonly maxQueued: number;
}

const maxLive = 256;
// A cursor that moves without events is kept so often, in milliseconds.
const saveEvery = 5000;
// A hole that is there so often is no accident of a connection.
const maxRefetches = 10;
const again = new Set(["busy", "rate_limited", "unavailable"]);

export class Subscription implements AsyncIterable<Item> {
  readonly #want: Want;
  readonly #run: Runner;
  /** What was received and checked, and what was taken. */
  readonly #received: Place;
  readonly #taken: Place;
  #id: string | undefined;
  #inbox: Frame[] = [];
  #checking = false;
  #queue: Item[] = [];
  #wake: (() => void) | undefined;
  #state: "loading" | "following" | "full" | "reset" | "closed" = "loading";
  #failure: Error | undefined;
  #head: number | undefined;
  #refetched = 0;
  #timer: unknown;
  #last: Item | undefined;
  #saved = 0;

  constructor(want: Want, run: Runner) {
    if ((want.stream === undefined) === (want.scope === undefined)) throw new TypeError("either stream or scope must be given");
    if (want.filter && want.scope === undefined) throw new TypeError("only a scope can be filtered");
    this.#want = want;
    this.#run = run;
    const of = want.stream === undefined ? "scope" : "stream";
    this.#received = new Place(of, want.stream ?? want.scope!);
    this.#taken = new Place(of, want.stream ?? want.scope!);
    want.signal?.addEventListener("abort", () => this.close(want.signal?.reason as Error), { once: true });
    if (want.signal?.aborted) this.close(want.signal.reason as Error);
    else void this.#load();
  }

  /** The newest seq or position that the backend said there was; undefined before it said so. */
  get head(): number | undefined {
    return this.#head;
  }

  /** Where the consumer is: what it has taken, and asked for the next after. */
  get cursor(): Cursor | undefined {
    return this.#taken.cursor();
  }

  /** Ends it. With a reason the iterator rejects with it, otherwise it is done. */
  close(reason?: Error): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#failure = reason;
    this.#unsubscribe();
    this.#queue = [];
    this.#run.forget?.(this);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    try {
      for (;;) {
        const item = await this.#next();
        if (!item) return;
        yield item;
      }
    } finally {
      // Whether the item in hand was dealt with is not known here: a loop is left by `break` and by what it throws.
      this.close();
    }
  }

  /** Says that the item in hand was dealt with, as asking for the next one does: for who leaves the loop with it. */
  async commit(): Promise<void> {
    await this.#settle();
  }

  /** Only the events; a reset rejects with a SubscribeError of code `reset`. */
  async *events(): AsyncGenerator<StreamEvent, void, undefined> {
    for await (const item of this) {
      if (item.type === "event") yield item.event;
      if (item.type === "reset") throw new SubscribeError("reset", `the subscription was reset: ${item.reason}`);
    }
  }

  /** For the runner: an introduced connection is there. */
  connected(): void {
    if (this.#state === "following") this.#subscribe();
  }

  /** For the runner: it is lost. What was received and not yet checked comes again. */
  lost(): void {
    this.#leave();
  }

  /** For the runner: a frame of this subscription. */
  take(frame: Frame): void {
    if (frame.type === "subscribed") {
      this.#head = frame.head;
      // From now on: what comes first is told by the head, should the connection be lost before it comes.
      if (this.#received.after === undefined) this.#start(frame.head);
      return;
    }
    if (frame.type === "error") return this.#refused(frame);
    if (frame.type === "unsubscribed") return;
    this.#inbox.push(frame);
    void this.#check();
  }

  async #load(): Promise<void> {
    try {
      const text = this.#want.name === undefined ? null : await this.#run.storage.get(cursorKey(this.#want.name));
      const { after } = this.#want;
      const cursor = text ? (JSON.parse(text) as Cursor) : typeof after === "number" ? { after } : after;
      if (cursor) {
        this.#received.set(cursor);
        this.#taken.set(cursor);
      }
    } catch (error) {
      return this.close(error as Error);
    }
    if (this.#state !== "loading") return;
    this.#state = "following";
    this.#subscribe();
  }

  #start(after: number): void {
    this.#received.set({ after });
    if (this.#taken.after !== undefined) return;
    this.#taken.set({ after });
    // Also who is told nothing before it ends goes on here, not at a later now.
    this.#save()?.catch((error: Error) => this.close(error));
  }

  #save(): Promise<void> | undefined {
    const { name } = this.#want;
    if (name === undefined) return undefined;
    this.#saved = this.#run.clock.now();
    return Promise.resolve(this.#run.storage.set(cursorKey(name), JSON.stringify(this.#taken.cursor())));
  }

  #subscribe(): void {
    this.#leave();
    const id = this.#run.attach(this);
    this.#id = id;
    const { stream, scope, filter } = this.#want;
    const { after, hash } = this.#received;
    const sent = this.#run.send({
      type: "subscribe",
      id,
      ...(stream === undefined ? {} : { stream }),
      ...(scope === undefined ? {} : { scope }),
      ...(filter ? { filter } : {}),
      ...(after === undefined ? {} : { after }),
      ...(after && hash ? { after_hash: hash } : {}),
      ...(this.#verifies ? { stored: true } : {}),
    });
    if (!sent) this.#leave();
  }

  #leave(): void {
    this.#run.clock.clearTimeout(this.#timer);
    this.#inbox = [];
    if (this.#id === undefined) return;
    const id = this.#id;
    this.#id = undefined;
    this.#run.detach(id);
  }

  #unsubscribe(): void {
    if (this.#id !== undefined) this.#run.send({ type: "unsubscribe", id: this.#id });
    this.#leave();
  }

  get #verifies(): boolean {
    return this.#want.verify !== "order";
  }

  // Frames are checked one after the other: a hash needs the one before it.
  async #check(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      for (let frame = this.#inbox.shift(); frame; frame = this.#inbox.shift()) {
        const id = this.#id;
        if (frame.type === "event") await this.#event(frame, id);
        else if (frame.type === "live") this.#live(frame);
        else if (frame.type === "reset") this.#reset(frame);
        else if (frame.type === "events") {
          for (const event of frame.events) {
            await this.#event(event, id);
            if (id !== this.#id) break;
          }
          if (id === this.#id && this.#state === "following") this.#moved(frame.cursor);
        }
      }
    } catch (error) {
      this.#unsubscribe();
      this.close(error as Error);
    } finally {
      this.#checking = false;
    }
  }

  async #event(event: StreamEvent, id: string | undefined): Promise<void> {
    const place = this.#received;
    const number = place.number(event);
    const { after } = place;
    if (after !== undefined && number <= after) return; // had already
    if (after !== undefined && number > after + 1 && !this.#want.filter) return this.#refetch(event);
    place.check(event);
    const link = place.link(event.stream) ?? (event.seq === 1 ? [0, ""] : undefined);
    if (link && event.seq > link[0] + 1 && !this.#want.filter) throw new IntegrityError(event, "order");
    if (this.#verifies) {
      const follows = link && event.seq === link[0] + 1;
      const prev = !follows ? undefined : event.seq === 1 ? await genesis(this.#run.subtle, event.stream) : link[1];
      event = await verify(this.#run.subtle, prev, event);
    }
    if (id !== this.#id) return; // the connection was lost meanwhile, and it comes again
    place.advance(event);
    this.#refetched = 0;
    this.#push({ type: "event", event });
  }

  // A hole: what is missing is asked for again. The log has it.
  #refetch(event: Pick<StreamEvent, "stream" | "seq">): void {
    if (++this.#refetched > maxRefetches) throw new IntegrityError(event, "order");
    this.#unsubscribe();
    if (this.#refetched === 1) return this.#subscribe();
    const { clock } = this.#run;
    this.#timer = clock.setTimeout(() => this.connected(), jitter(clock, this.#refetched, 100, 20_000));
  }

  #moved(cursor: number): void {
    const { after, name } = this.#received;
    if (!this.#want.filter && after !== undefined && cursor > after) return this.#refetch({ stream: name, seq: after + 1 });
    this.#received.move(cursor);
    if (this.#queue.length > 0 || this.#last !== undefined) return;
    // Nothing waits for the consumer, and it has dealt with what it took.
    this.#taken.move(cursor);
    if (this.#run.clock.now() - this.#saved >= saveEvery) this.#save()?.catch((error: Error) => this.close(error));
  }

  #live(live: LiveFrame): void {
    if (this.#want.live && this.#queue.length < maxLive) this.#push({ type: "live", live });
  }

  #reset(frame: Frame & { type: "reset" }): void {
    this.#leave();
    this.#state = "reset";
    this.#push({ type: "reset", reason: frame.reason, head: frame.head, ...(frame.head_hash ? { headHash: frame.head_hash } : {}) });
  }

  #refused(frame: Frame & { type: "error" }): void {
    this.#leave();
    if (!again.has(frame.code)) return this.close(new SubscribeError(frame.code, frame.message));
    const wait = (frame.retry_after ?? 1) * 1000 + this.#run.clock.random() * 1000;
    this.#timer = this.#run.clock.setTimeout(() => this.connected(), wait);
  }

  #push(item: Item): void {
    this.#queue.push(item);
    if (this.#queue.length >= this.#run.maxQueued && this.#state === "following") {
      // The consumer is behind: no more is kept for it than this, and the rest is asked for when it has taken what waits.
      this.#state = "full";
      this.#unsubscribe();
    }
    this.#wake?.();
  }

  async #next(): Promise<Item | undefined> {
    await this.#settle();
    for (;;) {
      const item = this.#queue.shift();
      if (item) {
        this.#last = item;
        return item;
      }
      if (this.#state === "closed") {
        if (this.#failure) throw this.#failure;
        return undefined;
      }
      if (this.#state === "full") {
        this.#state = "following";
        this.#subscribe();
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }

  // The consumer has done with what it took last: its cursor moves.
  async #settle(): Promise<void> {
    const item = this.#last;
    this.#last = undefined;
    if (!item || item.type === "live") return;
    if (item.type === "event") {
      this.#taken.advance(item.event);
    } else {
      if (this.#state === "closed") return;
      if (item.reason === "access") return this.close();
      const cursor = { after: item.head, ...(item.headHash ? { hash: item.headHash } : {}) };
      this.#taken.set(cursor);
      this.#received.set(cursor);
      this.#state = "following";
      this.#subscribe();
    }
    await this.#save();
  }
}

function cursorKey(name: string): string {
  return `cairn/cursor/${name}`;
}
