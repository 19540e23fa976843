// Where a subscription stands: what it has, and by what it knows the next event.
import { IntegrityError } from "./chain.js";
import type { StreamEvent } from "./frames.js";

/** A place in a stream (seq) or a scope (position), and the hash of the event there, in hex. */
export interface Cursor {
  after: number;
  hash?: string;
  /** Of a scope: the newest hash of the streams that were met last, by which their next events are known. */
  streams?: Record<string, Link>;
}

/** A place in a stream's chain. */
export type Link = [seq: number, hash: string];

// So many streams of a scope are remembered; the next event of another is taken as it comes, and those after it are checked.
const remembered = 128;

/** A cursor that moves. */
export class Place {
  after: number | undefined;
  hash: string | undefined;
  readonly #streams = new Map<string, Link>();

  constructor(
    /** Whether it counts a stream's events or a scope's. */
    readonly of: "stream" | "scope",
    /** The stream, where it is one. */
    readonly name: string,
    cursor?: Cursor,
  ) {
    if (cursor) this.set(cursor);
  }

  set(cursor: Cursor): void {
    this.after = cursor.after;
    this.hash = cursor.hash;
    this.#streams.clear();
    for (const [stream, link] of Object.entries(cursor.streams ?? {})) this.#streams.set(stream, link);
  }

  number(event: StreamEvent): number {
    return this.of === "stream" ? event.seq : event.position;
  }

  /** The link before an event of stream, where it is known. */
  link(stream: string): Link | undefined {
    if (this.of === "scope") return this.#streams.get(stream);
    if (this.after === undefined) return undefined;
    if (this.after === 0) return [0, ""];
    return this.hash === undefined ? undefined : [this.after, this.hash];
  }

  /** Takes an event whose turn it is. */
  advance(event: StreamEvent): void {
    this.after = this.number(event);
    this.hash = event.hash;
    if (this.of === "stream") return;
    this.#streams.delete(event.stream);
    this.#streams.set(event.stream, [event.seq, event.hash]);
    if (this.#streams.size > remembered) this.#streams.delete(this.#streams.keys().next().value!);
  }

  /** Moves over events that were not sent. */
  move(after: number): void {
    if (this.after !== undefined && after <= this.after) return;
    this.after = after;
    this.hash = undefined;
  }

  cursor(): Cursor | undefined {
    if (this.after === undefined) return undefined;
    return {
      after: this.after,
      ...(this.hash === undefined ? {} : { hash: this.hash }),
      ...(this.#streams.size > 0 ? { streams: Object.fromEntries(this.#streams) } : {}),
    };
  }

  /** Checks that an event is of here, and not out of its stream's order. */
  check(event: StreamEvent): void {
    if (this.of === "stream" && event.stream !== this.name) throw new IntegrityError(event, "order");
    const link = this.of === "scope" ? this.#streams.get(event.stream) : undefined;
    if (link && event.seq <= link[0]) throw new IntegrityError(event, "order");
  }
}
