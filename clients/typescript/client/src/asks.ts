// The requests of a client: sent when there is a connection, again after each, and gone from the outbox at their end.
import type { Clock } from "./clock.js";
import type { ClientFrame, FloatingRequest, Frame, HomeRequest } from "./frames.js";
import type { Outbox } from "./outbox.js";
import { type Ask, Asked, frameOf } from "./requests.js";

export interface AsksOptions {
  send: (frame: ClientFrame) => boolean;
  outbox: Outbox;
  clock: Clock;
  newID: () => string;
  /** A `position` that an end told. */
  onPosition: (position: string) => void;
}

// These pass: the same request is sent again under its id.
const passing = new Set(["rate_limited", "unavailable", "outcome_unknown"]);

export class Asks {
  readonly #o: AsksOptions;
  readonly #open = new Map<string, { asked: Asked; frame: HomeRequest | FloatingRequest }>();
  readonly #timers = new Map<string, unknown>();
  #restored: Promise<void> | undefined;

  constructor(options: AsksOptions) {
    this.#o = options;
  }

  /** Asks. The request is kept before it is sent, and waits for a connection where there is none. */
  ask(ask: Ask): Asked {
    const requestId = ask.requestId ?? this.#o.newID();
    const already = this.#open.get(requestId);
    if (already) return already.asked;
    const frame = frameOf({ ...ask, requestId });
    const asked = new Asked(requestId);
    this.#open.set(requestId, { asked, frame });
    this.#o.outbox.add({ kind: "request", id: requestId, frame }).then(
      () => this.#open.has(requestId) && this.#o.send(frame),
      (error: Error) => this.#end(requestId, error),
    );
    return asked;
  }

  /** Everything without an end: also what an earlier process asked. */
  async pending(): Promise<Asked[]> {
    await this.#restore();
    return [...this.#open.values()].map(({ asked }) => asked);
  }

  /** A connection is there. */
  async connected(): Promise<void> {
    await this.#restore();
    // Only what the outbox has: what is being added is sent when it is kept.
    for (const entry of await this.#o.outbox.pending()) {
      const open = this.#open.get(entry.id);
      if (open && !this.#o.send(open.frame)) return;
    }
  }

  take(frame: Frame): void {
    const id = (frame as { request_id?: string }).request_id;
    if (id === undefined) return;
    const open = this.#open.get(id);
    if (!open) return;
    if (frame.type === "error" && passing.has(frame.code)) {
      const wait = (frame.retry_after ?? 1) * 1000 + this.#o.clock.random() * 500;
      this.#o.clock.clearTimeout(this.#timers.get(id));
      this.#timers.set(id, this.#o.clock.setTimeout(() => this.#o.send(open.frame), wait));
      return;
    }
    if (frame.type === "stream_end" && frame.position) this.#o.onPosition(frame.position);
    if (open.asked.take(frame)) this.#end(id);
  }

  /** The client ends. What has no end stays in the outbox. */
  close(reason: Error): void {
    for (const { asked } of this.#open.values()) asked.fail(reason);
    for (const timer of this.#timers.values()) this.#o.clock.clearTimeout(timer);
    this.#open.clear();
    this.#restored = undefined;
  }

  #end(id: string, error?: Error): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    this.#o.clock.clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    if (error) open?.asked.fail(error);
    // Should it stay, it is asked once more, and its end told again: no harm is done.
    this.#o.outbox.remove(id).catch(() => undefined);
  }

  #restore(): Promise<void> {
    this.#restored ??= (async () => {
      for (const entry of await this.#o.outbox.pending()) {
        if (entry.kind !== "request" || this.#open.has(entry.id)) continue;
        this.#open.set(entry.id, { asked: new Asked(entry.id), frame: entry.frame });
      }
    })();
    return this.#restored;
  }
}
